"""Rows that the extreme records of the registry do not reach; scopes that must be disjoint."""

import itertools
import math

import numpy as np
import pytest

from discreet.least_squares import Whitening, power
from discreet.links import link
from discreet.privacy import Budget, Ledger, SeededNoise
from discreet.privacy.mechanisms import Mechanisms, Released
from discreet.privacy.release import Release
from discreet.regression import (
    PrivateGLM,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    score_private,
)
from discreet.regression.glm_erm import spectral
from discreet.regression.glm_sgd import PHASES, STEPS
from discreet.regression.scores import GRAM_COST, LinkScore, Weighting
from discreet.regression.shape import BESIDE, _weighted
from discreet.regression.sketch import LEVELS, counted

N = 120


def rows(seed=0):
    X = np.random.default_rng(seed).uniform(-0.5, 0.5, (N, 2))
    return X, (X[:, 0] > 0).astype(float)


@pytest.mark.parametrize("cut", [0.5, 1.0, 3.0])
def test_weighted__a_short_row_and_a_very_long_one_move_both_sums_as_far_as_is_booked(cut):
    """At right angles, of full weight both; the sum of lengths sees one of them alone."""
    M = Whitening(np.diag([10.0, 1e4]))
    longest = min(1.0, math.sqrt(cut))

    def told(*row):
        gram, lengths = _weighted(M, cut, np.array([row]), np.zeros(1))
        return np.append(gram, BESIDE * cut / longest * lengths)

    long = told(0.0, 1.0)
    lengths = [*np.linspace(0.0, 10.0, 101), math.sqrt(cut)]
    moved = max(np.linalg.norm(told(x / 10.0, 0.0) - long) for x in lengths)
    assert 0.999 < moved / (math.sqrt(2 + BESIDE**2) * cut) <= 1 + 1e-12


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("residual", [0.0, 1.0, 1e6])
def test_counted__a_row_is_one_count_however_long_its_residual_is(residual, sign):
    counts = counted(sign * np.array([residual]), np.ones(1), sign * np.ones(1))
    assert len(counts) == 4 * len(LEVELS)
    assert counts.sum() == 1
    level = int(np.flatnonzero(counts)[0]) % len(LEVELS)
    assert LEVELS[level] >= residual or level == len(LEVELS) - 1


@pytest.mark.parametrize("k", [1, 3])
def test_descent__steps_are_never_longer_than_the_loss_is_smooth(k):
    """Longer ones would take iterates apart."""
    model = PrivateLinearRegression(
        15.0, 1e-2, method="sgd", norm_bound=1.0, label_bound=1.0, fit_intercept=False,
        contributions=k, random_state=0,
    )  # fmt: skip
    (release,) = model.fit([[0.5], [0.1]], [0.5, 0.1]).guarantee_.releases
    assert release.sensitivity <= 2 * k


def test_descent__a_residual_beyond_the_clip_moves_the_average_no_further(monkeypatch):
    """Everybody says -1, and theta follows; a person who says 1 is nearly 2 away."""
    seen, gaussian = [], Mechanisms.gaussian

    def spied(self, value, **about):
        seen.append((np.array(value), about["sensitivity"]))
        return gaussian(self, value, **about)

    monkeypatch.setattr(Mechanisms, "gaussian", spied)
    order = np.random.default_rng(0).permutation(N)
    for label in (-1.0, 1.0):
        X, y = np.zeros((N, 2)), np.zeros(N)
        X[order[: N // 2], 0], y[order[: N // 2]] = 1.0, -1.0
        y[order[N // 2 - 1]] = label
        PrivateLinearRegression(15.0, 1e-2, method="sgd", norm_bound=1.0, label_bound=1.0,
                                fit_intercept=False, random_state=0).fit(X, y)  # fmt: skip
    (one, booked), (other, _) = seen
    assert 0.4 * booked < np.linalg.norm(one - other) <= 0.5 * booked * 1.001


@pytest.mark.parametrize("trust", ["central", "local"])
def test_glm_sgd__a_row_is_in_one_release(trust, monkeypatch):
    """Phases and batches pay apart, so none may see the row of another."""
    X, y = rows()
    seen = []
    if trust == "central":
        gaussian = Mechanisms.gaussian

        def spied(self, value, **about):
            seen.append(np.array(value))
            return gaussian(self, np.zeros(np.shape(value)), **about)

        monkeypatch.setattr(Mechanisms, "gaussian", spied)
    model = PrivateGLM(4.0, trust=trust, method="sgd", norm_bound=1.0, label_bound=1.0,
                       fit_intercept=False, random_state=0)  # fmt: skip
    model.fit(X, y)
    scopes = [each.scope for each in model.guarantee_.releases]
    assert scopes == [*(f"phase {k + 1}" for k in range(PHASES)),
                      *(f"batch {k + 1}" for k in range(STEPS))]  # fmt: skip
    if trust == "local":
        return
    before = list(seen)
    for place in range(0, N, 7):
        seen.clear()
        changed = X.copy()
        changed[place] = [0.0, 0.9]
        model.fit(changed, y)
        moved = [not np.allclose(a, b, atol=1e-12) for a, b in zip(before, seen, strict=True)]
        assert sum(moved) == 1


def test_score__is_booked_in_the_ledger_that_it_is_given():
    X, y = rows()
    model = PrivateLinearRegression(4.0, norm_bound=1.0, label_bound=1.0, fit_intercept=False,
                                    random_state=0).fit(X, y)  # fmt: skip
    ledger = Ledger(Budget(2.0, 1e-6))
    score_private(model, X, y, 1.0, ledger=ledger, noise=SeededNoise(0))
    assert ledger.spent() == pytest.approx((Budget(1.0, 1e-6).mu / ledger.budget.mu) ** 2)


@pytest.mark.parametrize("k", [1, 3])
def test_newton__gradient_and_information_are_booked_together(k):
    """A row is as long as h in the gradient of the first stage, which weighs no row."""
    X, y = rows()
    shared = {"norm_bound": 1.0, "fit_intercept": False, "contributions": k, "random_state": 0}
    two = PrivateGLM(4.0, label_bound=1.0, **shared).fit(X, y).guarantee_.releases[0]
    assert two.sensitivity == pytest.approx(k * math.sqrt(1 + GRAM_COST / 2))
    known = PrivateGLM(4.0, label_bound=1.0, public_X=X, **shared).fit(X, y).guarantee_.releases[0]
    assert known.sensitivity == pytest.approx(k)
    four = PrivateLogisticRegression(4.0, classes=(0, 1, 2, 3), **shared).fit(X, y)
    move = 2 * math.sqrt(1 - 1 / 4) * math.sqrt(1 + GRAM_COST)
    assert four.guarantee_.releases[0].sensitivity == pytest.approx(k * move)


@pytest.mark.parametrize("name", ["logistic", "probit", "poisson", "identity"])
def test_newton__labels_that_surprise_weigh_less(name):
    """Where theta is sure, a label may be nearly the whole range away: all pairs of extremes."""
    score = LinkScore(link(name).within(5.0))
    weighting = Weighting(Whitening.identity(2), 1.0)
    moves_g, moves_H = score.sensitivities(weighting)
    told = [
        score.statistics(weighting, np.array([5.0, 0.0]), np.array([x]), np.array([y]))
        for x in ([1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [0.0, 0.0])
        for y in (-1.0, 0.0, 1.0)
    ]
    pairs = list(itertools.combinations(told, 2))
    assert max(np.linalg.norm(a[0] - b[0]) for a, b in pairs) <= moves_g * (1 + 1e-9)
    assert max(np.linalg.norm(a[1] - b[1]) for a, b in pairs) <= moves_H * (1 + 1e-9)


@pytest.mark.parametrize(("others", "least"), [(0.0, 0.6), (1.0, 0.0)])
def test_erm__a_direction_that_noise_made_flat_is_paid_for(others, least, monkeypatch):
    """The released Gram matrix has .3 where 1 was expected: there the minimiser moves 1.8 times."""
    n, phase = 40, (np.eye(2) / 2, math.sqrt(2 / 40))
    W = spectral([lambda W: phase] * PHASES, 2)
    flat = np.linalg.inv(power(W, 0.5)) @ np.diag([0.3, 1.0]) @ np.linalg.inv(power(W, 0.5))
    seen = []

    def symmetric(self, matrix, *, sensitivity, mu, what):
        value = phase[0] if what == "spectral iteration" else flat
        return Released(value, Release.gaussian(sensitivity=1.0, scale=1.0, what=what, sampler=""))

    gaussian = Mechanisms.gaussian

    def spied(self, value, **about):
        seen.append((np.array(value), about["sensitivity"]))
        return gaussian(self, value, **about)

    monkeypatch.setattr(Mechanisms, "gaussian_symmetric", symmetric)
    monkeypatch.setattr(Mechanisms, "gaussian", spied)
    X, y = np.tile([others, 0.0], (n, 1)), np.array([0.0, 1.0] * (n // 2))
    for x, y[0] in ((1.0, 0.0), (-1.0, 0.0)):
        X[0, 0] = x
        PrivateGLM(50.0, 1e-2, method="erm", norm_bound=1.0, label_bound=1.0, coef_bound=1.0,
                   fit_intercept=False, random_state=0).fit(X, y)  # fmt: skip
    (one, booked), (other, _) = seen
    assert least * booked < np.linalg.norm(one - other) <= booked
