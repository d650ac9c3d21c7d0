import json
import math

import numpy as np
import pytest
from scipy import stats

from discreet.audit import AuditReport, audit_scores, clopper_pearson
from discreet.privacy import gaussian_epsilon


@pytest.mark.parametrize("confidence", [0.9, 0.999])
def test_clopper_pearson__agrees_with_scipy(confidence):
    for k, n in ((0, 10), (3, 10), (10, 10), (500, 10_000)):
        low, high = clopper_pearson(k, n, confidence)
        exact = stats.binomtest(k, n).proportion_ci(2 * confidence - 1, method="exact")
        assert (low, high) == pytest.approx((exact.low, exact.high))


def test_clopper_pearson__covers_as_often_as_it_says():
    n, p = 200, 0.03
    k = np.arange(n + 1)
    low, high = clopper_pearson(k, n, 0.95)
    mass = stats.binom.pmf(k, n, p)
    assert mass[low <= p].sum() >= 0.95
    assert mass[high >= p].sum() >= 0.95


@pytest.mark.parametrize("method", ["clopper-pearson", "gdp"])
def test_audit__exceeds_the_truth_no_more_often_than_it_says(method):
    # An ideal attack on mu-GDP at mu = 1: 400 audits at 90%, at most 10% may exceed the truth.
    truth, over = gaussian_epsilon(1.0, 1e-3), 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        a, b = rng.normal(0, 1, 400), rng.normal(1, 1, 400)
        report = audit_scores(a, b, delta=1e-3, confidence=0.9, method=method)
        over += report.lower_bound > truth
    assert over <= stats.binom.ppf(1 - 1e-6, 400, 0.1)


def test_audit__comes_close_to_the_truth():
    rng = np.random.default_rng(1)
    n = 10_000
    laplace = audit_scores(rng.laplace(0, 1, n), rng.laplace(1, 1, n))
    assert 0.85 <= laplace.lower_bound <= 1.0
    mu = 0.2367
    gaussian = audit_scores(rng.normal(0, 1, n), rng.normal(mu, 1, n), delta=1e-6, method="gdp")
    assert 0.6 <= gaussian.lower_bound <= 1.0


def test_audit__finds_low_scores_too_and_nothing_where_there_is_nothing():
    rng = np.random.default_rng(2)
    a, b = rng.laplace(0, 1, 5000), rng.laplace(-1, 1, 5000)
    assert audit_scores(a, b).lower_bound > 0.8
    assert audit_scores(a, rng.laplace(0, 1, 5000)).lower_bound < 0.2
    assert audit_scores(np.zeros(100), np.zeros(100)).lower_bound == 0.0
    assert audit_scores(np.zeros(1000), np.ones(1000)).lower_bound > 4


def test_audit__report_is_plain_and_complete():
    report = AuditReport(0.5, 1e-6, "Clopper-Pearson", 100, 0.95)
    assert list(json.loads(json.dumps(report.to_dict()))) == [
        "lower_bound", "delta", "method", "runs", "confidence", "version",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "call",
    [
        lambda: audit_scores(np.zeros(10), np.zeros(11)),
        lambda: audit_scores(np.zeros(2), np.zeros(2)),
        lambda: audit_scores([math.nan] * 10, np.zeros(10)),
        lambda: audit_scores(np.zeros(10), np.zeros(10), method="gdp"),
        lambda: audit_scores(np.zeros(10), np.zeros(10), method="psychic"),
        lambda: audit_scores(np.zeros(10), np.zeros(10), confidence=1.0),
        lambda: audit_scores(np.zeros(10), np.zeros(10), delta=-1.0),
        lambda: clopper_pearson(11, 10),
    ],
)
def test_audit__bad_input_is_a_clear_error(call):
    with pytest.raises(ValueError, match=r"must|expected|delta above 0"):
        call()
