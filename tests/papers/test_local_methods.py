"""The papers' local methods hide a report as well as they say, and fit as the library's do."""

import numpy as np
import pytest

from discreet.audit import audit_scores
from discreet.audit.views import log_ratio
from discreet.privacy import IntervalChannel, SeededNoise
from discreet.privacy.release import observed
from papers.local_methods import ComparedRegression

PEOPLE = 20_000
# The pair of records (feature, label), which report is heard, its channel and the two answers.
HEARD = {
    "sign": (((1.0, -1.0), (1.0, 1.0)), 0, {}, [-1.0, 1.0]),
    "length": (((0.0, 1.0), (1.0, 1.0)), 1, {"low": 0.0, "high": 1.0}, [0.0, 1.0]),
}


def scores(epsilon, what, neighbour):
    """Log-likelihood ratios of the reports of people who are all the same."""
    pair, call, ends, answers = HEARD[what]
    x, y = pair[neighbour]
    model = ComparedRegression(
        epsilon, trust="local", method="one-dimensional", noise=SeededNoise(neighbour)
    )
    with observed("report") as heard:
        model.fit(np.full((PEOPLE, 1), x), np.full(PEOPLE, y))
    return log_ratio(IntervalChannel(epsilon, **ends), heard[call].value, answers)


@pytest.mark.parametrize("what", HEARD)
def test_one_dimensional__a_report_proves_most_of_epsilon_and_never_more(what):
    report = audit_scores(*(scores(1.0, what, neighbour) for neighbour in (0, 1)))
    assert 0.85 <= report.lower_bound <= 1.0
    twice = audit_scores(*(scores(2.0, what, neighbour) for neighbour in (0, 1)), confidence=0.9999)
    assert twice.lower_bound > 1.0


@pytest.mark.parametrize("method", ["one-dimensional", "one-shot"])
def test_compared_regression__offers_the_papers_methods(method):
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], (PEOPLE, 1))
    y = 0.7 * X[:, 0]
    model = ComparedRegression(3.0, trust="local", method=method, random_state=0).fit(X, y)
    assert model.coef_[0] == pytest.approx(0.7, abs=0.1)
    assert (model.guarantee_.trust, model.guarantee_.epsilon) == ("local", 3.0)
