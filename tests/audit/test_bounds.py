import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from discreet.audit import ATTACKS, audit_scores
from discreet.audit.bounds import GUESSES, AuditReport
from discreet.audit.counted import (
    Concentrated,
    Curve,
    Gaussian,
    _hits_needed,
    clopper_pearson,
    coins,
    guessed,
    refuted_below,
    split_bounds,
)
from discreet.audit.run import Audited
from discreet.privacy import gaussian_mu
from discreet.privacy.gaussian import gaussian_epsilon, zcdp_epsilon


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
    # An ideal attack on mu-GDP at mu = 1: 200 audits at 90%, at most 10% may exceed the truth.
    truth, over = gaussian_epsilon(1.0, 1e-3), 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        a, b = rng.normal(0, 1, 400), rng.normal(1, 1, 400)
        report = audit_scores(a, b, delta=1e-3, confidence=0.9, method=method)
        over += report.lower_bound > truth
    assert over <= stats.binom.ppf(1 - 1e-6, 200, 0.1)


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


def test_audit__a_rare_event_is_not_taken_for_its_complement():
    # 0 against 5 in 100 of the choosing runs is too rare to prove anything there, and as clear as
    # its complement, of which nobody learns more than log(1/.95).
    for hits in range(30, 45):
        first, second = np.zeros(3000), np.zeros(3000)
        first[1000] = 1.0
        second[np.arange(0, 3000, 750)[:, None] + np.arange(hits)] = 1.0
        for scores in ((first, second), (1 - first, 1 - second)):
            assert audit_scores(*scores, confidence=0.9999).lower_bound > 0.5


def test_audit__report_is_plain_and_complete():
    report = AuditReport(0.5, 1e-6, "exact test of two counts", 100, 0.95)
    plain = ["lower_bound", "delta", "method", "runs", "confidence", "version", "attack"]
    assert list(json.loads(json.dumps(report.to_dict()))) == [*plain, "contributions"]
    held = replace(report, attack="laplace", claim=0.4)
    more = ["claim", "contributions", "verdict"]
    assert list(json.loads(json.dumps(held.to_dict()))) == [*plain, *more]
    assert held.verdict == "BROKEN"
    assert replace(held, claim=0.6).verdict == "not refuted"
    assert replace(held, claim=0.6, p_value=0.031).verdict == "not refuted (p = 0.031)"
    assert replace(held, claim=6.0).verdict == "no power"


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_verdict__p_values_are_uniform_or_larger_under_the_claim_and_small_when_it_is_broken(delta):
    # 60 audits of a Gaussian or Laplace mechanism at its claim: p < .1 in 6 of them on average, and
    # in more than 14 with chance .001. At twice the claim p is below .01 in all.
    method = "gdp" if delta else "clopper-pearson"
    rng = np.random.default_rng(0)
    small = 0
    for _ in range(60):
        if delta:
            sides = rng.normal(0, 1, 2000), rng.normal(gaussian_mu(1.0, delta), 1, 2000)
        else:
            sides = rng.laplace(0, 1, 2000), rng.laplace(1, 1, 2000)
        small += audit_scores(*sides, delta=delta, method=method, claim=1.0).p_value < 0.1
    assert small <= 14
    broken = audit_scores(*sides, delta=delta, method=method, claim=0.3)
    assert broken.p_value < 0.01
    assert broken.verdict == "BROKEN"


def test_verdict__beyond_the_claim_by_luck_is_not_refuted_and_a_blind_attack_has_no_power():
    close = AuditReport(1.03, 0.0, GUESSES, 100, 0.95, attack="laplace", claim=1.0, p_value=0.03)
    sure = replace(close, lower_bound=0.8, confidence=0.9999)
    attack = ATTACKS["laplace"]
    assert Audited(attack, close, sure).verdict == "not refuted (p = 0.03)"
    assert Audited(attack, close, replace(sure, lower_bound=1.1)).verdict == "BROKEN"
    blind = replace(close, lower_bound=0.0, p_value=1.0)
    assert Audited(attack, blind, blind).verdict == "no power"


def test_counts__the_pair_is_tested_as_often_right_as_it_says_and_beats_two_single_bounds():
    # 3000 runs a side at mu = 0.3, exact binomial counts, 50 audits at 90%.
    rng, n, mu, curve = np.random.default_rng(0), 3000, 0.3, Gaussian(1e-6)
    q = 0.4
    alarms = rng.binomial(n, q, 50)
    hits = rng.binomial(n, float(curve.power(np.array(q), mu)), 50)
    pairs = [(int(a), int(h)) for a, h in zip(alarms, hits, strict=True)]
    exact = np.array([refuted_below(a, h, n, curve, 0.9) for a, h in pairs])
    simple = np.maximum(split_bounds(alarms, hits, n, curve, 0.9), 0.0)
    assert (exact >= simple - 1e-12).all()
    assert np.sum(exact > mu) <= stats.binom.ppf(1 - 1e-6, 50, 0.1)
    assert exact.mean() > simple.mean() + 0.01


CURVES = {
    "pure": Curve(), "approximate": Curve(0.01), "gaussian": Gaussian(1e-6),
    "zcdp": Concentrated(),
}  # fmt: skip


@pytest.mark.parametrize("kind", CURVES)
def test_counts__the_p_value_bounds_the_exact_chance(kind):
    # Every pair of counts of a small experiment, summed up exactly under the claim itself.
    curve, n, theta, risk, q = CURVES[kind], 14, 0.3 if kind == "zcdp" else 0.7, 0.1, 0.3
    p = float(curve.power(np.array(q), theta))
    chance = np.outer(stats.binom.pmf(range(n + 1), n, q), stats.binom.pmf(range(n + 1), n, p))
    wrong = sum(
        chance[a, h]
        for a in range(0, n + 1)
        for h in range(a, n + 1)
        if chance[a, h] > 1e-7 and refuted_below(a, h, n, curve, 1 - risk) > theta
    )
    assert wrong <= risk


def test_audit__views_are_chosen_where_nothing_is_counted():
    rng, n = np.random.default_rng(5), 4000
    noise = [rng.normal(0, 1, (n, 3)) for _ in range(2)]
    assert audit_scores(*noise).lower_bound < 0.15  # three useless views prove nothing
    noise[1][:, 2] += 3.0
    assert audit_scores(*noise).lower_bound > 3  # the third is the best
    mixed = [rng.normal(0, 1, (n, 2)) for _ in range(2)]
    common = rng.normal(0, 5, n)
    for neighbour, side in enumerate(mixed):
        side += np.column_stack([common, -common]) + neighbour
    assert audit_scores(*mixed).lower_bound > 1.0  # only their sum tells


def three_coins(rng, neighbour, n):
    """The sum of three randomised responses at epsilon = 1/3 each."""
    truth = 1 / (1 + math.exp(-1 / 3))
    return np.where(rng.random((n, 3)) < (truth if neighbour else 1 - truth), 1.0, -1.0).sum(axis=1)


def test_guesses__exceed_a_pure_claim_no_more_often_than_they_say():
    # 300 audits at 90% of the worst mechanism there is, randomised response, and of three coins.
    over, methods = np.zeros(2), []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        coin = [(rng.random(400) < 1 / (1 + math.exp(1 - 2 * w))).astype(float) for w in (0, 1)]
        for k, sides in enumerate((coin, [three_coins(rng, w, 400) for w in (0, 1)])):
            report = audit_scores(*sides, confidence=0.9)
            over[k] += report.lower_bound > 1.0
            methods.append(report.method)
    assert methods.count(GUESSES) > 0.7 * len(methods)
    assert (over <= stats.binom.ppf(1 - 1e-6, 300, 0.1)).all()


def test_guesses__both_tails_prove_more_than_one():
    # Ten audits at 10^4 runs: one tail has mean .90 and least .83, both .93 and .88.
    shares = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        shares.append(audit_scores(*(three_coins(rng, w, 10_000) for w in (0, 1))).lower_bound)
    assert min(shares) > 0.85
    assert np.mean(shares) > 0.915


def test_guesses__are_about_runs_whose_worlds_fair_coins_chose():
    first, second = np.zeros(1000), np.ones(1000)
    assert guessed(first, second, 0.5, 0.5, coins(first))[0] > 1700  # always right
    assert guessed(second, first, 0.5, 0.5, coins(first))[0] == 0  # always wrong
    draws = [guessed(first, first, -1.0, 0.0, coins(np.array([k])))[0] for k in range(400)]
    assert abs(np.mean(draws) / 905 - 1) < 0.01  # the half whose neighbour was the second
    assert coins(first).random() == coins(first.copy()).random() != coins(second).random()


def test_share__is_of_mu_for_gaussian_bounds_and_of_epsilon_else():
    pure = AuditReport(0.6, 0.0, Curve.label, 100, 0.95, claim=1.0)
    assert (pure.fraction, pure.unit) == (0.6, "epsilon")
    gaussian = replace(pure, method=Gaussian.label, delta=1e-6)
    assert gaussian.unit == "mu"
    assert gaussian.fraction == pytest.approx(gaussian_mu(0.6, 1e-6) / gaussian_mu(1.0, 1e-6))
    assert replace(gaussian, lower_bound=0.0).fraction == 0.0
    assert replace(gaussian, lower_bound=1.0).fraction == 1.0


def test_concentrated__is_the_largest_divergence_over_order():
    # Coins of a Gaussian pair: never beyond its rho = mu^2/2, and most of it in the tails.
    mu, z = 0.5, np.linspace(-3, 3, 61)
    rho = Concentrated().parameter(stats.norm.sf(z - mu), stats.norm.sf(z))
    assert (rho <= mu**2 / 2).all()
    assert rho.max() > 0.75 * mu**2 / 2
    q = np.array([0.01, 0.3, 0.9])
    power = Concentrated().power(q, 0.1)
    assert Concentrated().parameter(power, q) == pytest.approx(0.1, rel=1e-6)
    assert np.isneginf(Concentrated().parameter(q, q + 0.05)).all()
    assert Concentrated().power(np.zeros(1), 0.1) == 0.0
    kl = 0.5 * math.log(0.5 / 0.4) + 0.5 * math.log(0.5 / 0.6)
    assert Concentrated().parameter(0.5, 0.4) >= kl


def test_concentrated__exceeds_the_truth_no_more_often_than_it_says_and_catches_half_the_noise():
    # Gaussian noise of rho = 1/2, tested as zCDP: 20 audits at 90%.
    truth, over = zcdp_epsilon(0.5, 1e-3), 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        a, b = rng.normal(0, 1, 400), rng.normal(1, 1, 400)
        over += audit_scores(a, b, delta=1e-3, confidence=0.9, method="zcdp").lower_bound > truth
    assert over <= stats.binom.ppf(1 - 1e-6, 20, 0.1)
    half = audit_scores(a, b + 1.0, delta=1e-3, confidence=0.999, method="zcdp")
    assert half.lower_bound > truth


@pytest.mark.parametrize(
    "call",
    [
        lambda: audit_scores(np.zeros(10), np.zeros(11)),
        lambda: audit_scores(np.zeros(2), np.zeros(2)),
        lambda: audit_scores([math.nan] * 10, np.zeros(10)),
        lambda: audit_scores(np.zeros(10), np.zeros(10), method="gdp"),
        lambda: audit_scores(np.zeros(10), np.zeros(10), method="zcdp"),
        lambda: audit_scores(np.zeros(10), np.zeros(10), method="psychic"),
        lambda: audit_scores(np.zeros(10), np.zeros(10), confidence=1.0),
        lambda: audit_scores(np.zeros(10), np.zeros(10), delta=-1.0),
        lambda: clopper_pearson(11, 10),
    ],
)
def test_audit__bad_input_is_a_clear_error(call):
    with pytest.raises(ValueError, match=r"must|expected|delta above 0"):
        call()


@pytest.mark.parametrize("trials", [1000, 30_000, 10**6])
@pytest.mark.parametrize(
    "curve", [Curve(), Gaussian(), Concentrated()], ids=["pure", "gdp", "zcdp"]
)
def test_counts__what_was_seen_is_as_telling_as_itself(curve, trials):
    """Else a p-value would leave out the chance of the counts themselves."""
    rng = np.random.default_rng(0)
    for alarms in rng.integers(1, trials // 2, 40):
        hits = int(alarms + rng.integers(1, trials // 2))
        seen = float(curve.parameter((hits + 0.5) / (trials + 1), (alarms + 0.5) / (trials + 1)))
        assert _hits_needed(np.array([float(alarms)]), trials, curve, seen)[0] <= hits


def test_audit_scores__what_chooses_is_not_counted_and_what_is_counted_does_not_choose():
    # One view tells the samples apart on the choosing quarter only, the other on the rest only.
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((2, 4000, 2))
    early = np.arange(4000) < 1000
    apart = 6.0 * np.stack([~early, early], axis=1)
    assert audit_scores(noise[0], noise[1] + apart, delta=1e-3).lower_bound == 0
    assert audit_scores(noise[0], noise[1] + 6.0, delta=1e-3).lower_bound > 2
