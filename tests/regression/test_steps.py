"""The engine of central regression: what its releases move by and cost, and what it is worth."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from discreet.audit import audit_scores
from discreet.least_squares import Posterior, Whitening
from discreet.privacy import Budget, Ledger, SeededNoise
from discreet.regression import PrivateLinearRegression, Problem
from discreet.regression.baselines import DPGradientDescent
from discreet.regression.central import information_weighted, public_covariates
from discreet.regression.hidden import ALARM, HiddenPosterior
from discreet.regression.sample import Sample
from discreet.regression.shape import BESIDE, Noisy, Shape, _moments, _weighted, private_shape
from discreet.regression.sketch import LEVELS, NORMAL, Clips, Spread, counted, spread_of
from discreet.regression.steps import (
    LAYERS,
    REST,
    SQUARE,
    Clip,
    Known,
    _release,
    _sketched,
    _sums,
    number_of_steps,
)

UNIT = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": False}
MU = Budget(1.0, 1e-6).mu


def sphere(n, d, seed):
    X = np.random.default_rng(seed).standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def world(n, seed, d=8):
    rng = np.random.default_rng([seed, n])
    X, theta = sphere(n, d, seed), sphere(1, d, seed + 1)[0]
    return X, np.clip(X @ theta + 0.1 * rng.standard_normal(n), -1, 1), theta


def rare(n, fraction, seed):
    """All of theta lies along a direction that a fraction of the rows has."""
    rng = np.random.default_rng([seed, n])
    X = np.column_stack([np.zeros(n), sphere(n, 3, seed)])
    X[rng.random(n) < fraction] = np.eye(4)[0]
    return X, np.clip(0.7 * X[:, 0] + 0.1 * rng.standard_normal(n), -1, 1)


def problem(X, y, budget=None, seed=0, **more):
    budget = budget or Budget(1.0, 1e-6)
    return Problem(X, y, Ledger(budget), SeededNoise(seed), np.random.default_rng(seed), **more)


def silent(X, y):
    """All rows, in releases without noise: what they sum up can be looked at."""
    X, y = np.atleast_2d(X), np.atleast_1d(np.asarray(y, dtype=float))
    return Sample(problem(X, y, Budget(math.inf)), X, y, math.inf)


class Booked:
    """The sensitivity of the last release of a sample, and its value without noise."""

    def __init__(self, monkeypatch):
        self.values, self.sensitivities = [], []
        kept = Sample.release

        def release(sample, query, pack, *, sensitivity, what):
            released = kept(sample, query, pack, sensitivity=sensitivity, what=what)
            self.values.append(released.value)
            self.sensitivities.append(sensitivity)
            return released

        monkeypatch.setattr(Sample, "release", release)

    def moved(self):
        """How far two neighbours are apart, in units of the sensitivity."""
        assert self.sensitivities[-1] == self.sensitivities[-2]
        return float(np.linalg.norm(self.values[-1] - self.values[-2])) / self.sensitivities[-1]


def known_of(mean, covariance, nu=0.01):
    d = len(mean)
    theta = Posterior(
        np.eye(d) * 1e-9, np.linalg.inv(covariance), np.linalg.solve(covariance, mean)
    )
    both = HiddenPosterior.of_theta(theta, REST)
    return Known(both, theta, log_nu=math.log(nu))


def shape_of(whitening):
    d = len(whitening.matrix)
    zeros = np.zeros((d, d))
    return Shape(
        whitening=whitening,
        H=np.eye(d) / d,
        gram=np.eye(d) / d,
        asked=whitening,
        std=0.0,
        unseen=zeros,
        evenness=0.9,
        mean=np.zeros(d),
        constant=np.zeros(d),
    )


def clip_at(at, nu):
    return Clip(at, min(at * math.sqrt(nu), 1.0), 0.8, 0.5, 0.7, 0.0)


unit_rows = arrays(np.float64, (2, 3), elements=st.floats(-1, 1)).map(
    lambda rows: rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
)
some_labels = st.sampled_from([-1.0, 1.0, 0.2, 0.0]) | st.floats(-1, 1)


# -- sensitivities ---------------------------------------------------------------------------------


@given(unit_rows, some_labels, some_labels, st.integers(0, 50),
       st.sampled_from([0.42, 1.0, 2.0, 6.0]), st.floats(0.05, 30.0))  # fmt: skip
def test_step__one_replaced_row_moves_the_release_by_at_most_its_sensitivity(
    rows, y0, y1, seed, at, stretch
):
    rng = np.random.default_rng(seed)
    root = 0.4 * rng.standard_normal((3, 3))
    nu = 10 ** rng.uniform(-4, 0)
    known = known_of(rng.standard_normal(3), root @ root.T + 1e-6 * np.eye(3), nu)
    clip = clip_at(at, nu)
    whitening = Whitening(stretch * np.diag([1.0, 2.0, 5.0]))
    packed = []
    for row, label in zip(rows, (y0, y1), strict=True):
        moment, rest, square = _sums(whitening, known, clip, row[None], np.array([label]))
        assert np.count_nonzero(rest) <= 1
        packed.append(np.concatenate([moment / clip.bound, rest, SQUARE * square]))
        assert np.linalg.norm(packed[-1][:-1]) <= 1 + 1e-9
        assert 0 <= square[0] <= 1 + 1e-9
    assert np.linalg.norm(packed[0] - packed[1]) <= 2 + 1e-9


def test_step__opposite_labels_of_a_long_row_move_it_by_all_of_its_sensitivity(monkeypatch):
    booked = Booked(monkeypatch)
    known = known_of(np.zeros(2), 1e-12 * np.eye(2), 0.01)
    for label in (-1.0, 1.0):
        _release(silent([1.0, 0.0], label), shape_of(Whitening(10.0 * np.eye(2))), known,
                 clip_at(2.0, 0.01))  # fmt: skip
    assert 0.99 <= booked.moved() <= 1 + 1e-9


@given(unit_rows, st.floats(0.05, 30.0), st.sampled_from([0.01, 0.3, 1.0, 2.5, 8.0]))
def test_gram__one_replaced_row_moves_matrix_and_sum_by_at_most_their_sensitivity(
    rows, stretch, tau
):
    M = Whitening(stretch * np.diag([1.0, 2.0, 5.0]))
    half = math.sqrt(0.5)
    size = np.triu(np.full((3, 3), math.sqrt(2))) * (1 - np.eye(3)) + np.eye(3)
    longest = min(1.0, math.sqrt(tau))
    whitened, plain = [], []
    for row in rows:
        gram, length = _weighted(M, tau, row[None], np.zeros(1))
        assert np.linalg.norm(gram) <= tau * (1 + 1e-9)
        assert 0 <= length[0] <= longest * (1 + 1e-9)
        whitened.append(np.append(np.ravel(gram), BESIDE * tau / longest * length))
        gram, total = _moments(row[None], np.zeros(1))
        plain.append(np.append(np.ravel(gram), math.sqrt(2) * BESIDE * total))
    assert half * size[0, 1] == pytest.approx(1.0)  # vectors of symmetric matrices are isometric
    distance = np.linalg.norm(whitened[0] - whitened[1])
    assert distance <= math.sqrt(2 + BESIDE**2) * tau * (1 + 1e-9)
    assert np.linalg.norm(plain[0] - plain[1]) <= math.sqrt(2) * (1 + BESIDE**2) * (1 + 1e-9)


def test_gram__rows_at_a_right_angle_nearly_use_up_the_sensitivity(monkeypatch):
    booked = Booked(monkeypatch)
    for row in ([1.0, 0.0], [0.0, 1.0]):
        Noisy.of(
            silent(row, 0.0),
            lambda X, y: _weighted(Whitening(10.0 * np.eye(2)), 1.0, X, y),
            beside=BESIDE,
            sensitivity=math.sqrt(2 + BESIDE**2),
        )
    assert 0.9 <= booked.moved() <= 1 + 1e-9
    for row in ([1.0, 0.0], [-0.09, math.sqrt(1 - 0.09**2)]):
        Noisy.of(
            silent(row, 0.0),
            _moments,
            beside=math.sqrt(2) * BESIDE,
            sensitivity=math.sqrt(2) * (1 + BESIDE**2),
        )
    assert 0.99 <= booked.moved() <= 1 + 1e-9


@given(unit_rows, some_labels, some_labels, st.integers(0, 50))
def test_sketch__a_row_is_one_count(rows, y0, y1, seed):
    rng = np.random.default_rng(seed)
    prediction = rows @ rng.standard_normal(3)
    counts = [
        counted(np.array([y - p]), np.array([10 ** rng.uniform(-3, 0)]), np.array([p]))
        for y, p in zip((y0, y1), prediction, strict=True)
    ]
    assert [each.sum() for each in counts] == [1.0, 1.0]
    assert np.linalg.norm(counts[0] - counts[1]) <= math.sqrt(2)


def test_sketch__opposite_labels_use_up_the_sensitivity(monkeypatch):
    booked = Booked(monkeypatch)
    known = known_of(np.zeros(2), 1e-6 * np.eye(2))
    for label in (-1.0, 1.0):
        _sketched(silent([1.0, 0.0], label), shape_of(Whitening.identity(2)), known)
    assert booked.moved() == pytest.approx(1.0)


@pytest.mark.parametrize(("n", "contributions"), [(30, 1), (200, 3), (1200, 1), (6000, 1)])
@pytest.mark.parametrize("fit", [information_weighted, public_covariates])
def test_releases__together_cost_the_budget_and_are_as_many_as_rho_says(n, contributions, fit):
    X, y, _ = world(n, 0, d=3)
    worlds = ((X, y), (np.zeros((n, 3)), np.ones(n)))
    told = []
    for rows, labels in worlds:
        p = problem(rows, labels, Budget(1.0, 1e-6, contributions), public_X=sphere(50, 3, 9))
        fit(p)
        assert p.ledger.spent() == pytest.approx(1.0, abs=1e-9)
        assert {release.sensitivity / contributions >= 1 for release in p.ledger.releases} == {True}
        told.append([(release.what, release.sensitivity) for release in p.ledger.releases])
    assert told[0] == told[1]
    steps = number_of_steps(n * MU / (3 * contributions))
    grams = 0 if fit is public_covariates else 3
    assert len(told[0]) == steps + grams + 1


@pytest.mark.thorough
def test_audit__a_step_holds_its_claim_and_halved_noise_is_caught():
    """Opposite labels of one long row, everything else known."""
    known = known_of(np.zeros(2), 1e-12 * np.eye(2), 0.01)
    shape = shape_of(Whitening(10.0 * np.eye(2)))

    def scores(mu):
        noise = SeededNoise(0)
        found = []
        for label in (-1.0, 1.0):
            X, y = np.array([[1.0, 0.0]]), np.array([label])
            task = Problem(X, y, Ledger(Budget(math.inf)), noise, np.random.default_rng(0))
            sample = Sample(task, X, y, mu)
            found.append([
                _release(sample, shape, known, clip_at(2.0, 0.01)).moment[0] for _ in range(6000)
            ])  # fmt: skip
        return np.array(found)

    claim = audit_scores(*scores(MU), delta=1e-6, confidence=0.9999, method="gdp")
    assert claim.lower_bound <= 1.0
    assert audit_scores(*scores(MU), delta=1e-6, method="gdp").lower_bound >= 0.4
    halved = audit_scores(*scores(2 * MU), delta=1e-6, confidence=0.9999, method="gdp")
    assert halved.lower_bound > 1.0


# -- what it is worth ------------------------------------------------------------------------------


def error(n, epsilon, seed):
    X, y, theta = world(n, seed, d=5)
    model = PrivateLinearRegression(epsilon, random_state=seed, **UNIT).fit(X, y)
    return float(np.mean((X @ (model.coef_ - theta)) ** 2))


def test_error__falls_with_rows_and_with_epsilon_and_has_no_seam():
    """Over nearly all numbers of steps, from 50 to 10; two noisy means may touch."""
    by_rows = [np.mean([error(n, 1.0, s) for s in range(8)])
               for n in (400, 800, 1600, 3200, 6400, 12_800, 25_600)]  # fmt: skip
    by_epsilon = [np.mean([error(4_000, e, s) for s in range(8)])
                  for e in (0.2, 0.4, 0.8, 1.6, 3.2, 6.4)]  # fmt: skip
    for errors in (by_rows, by_epsilon):
        assert (np.diff(np.log(errors)) < 0.1).all()
    assert by_rows[-1] < 0.02 * by_rows[0]
    assert by_epsilon[-1] < 0.3 * by_epsilon[0]


def test_few_rows__err_less_than_descent_with_good_steps():
    # 500 rows, 8 features: .034 in trials; predicting zero .35.
    private, descent = [], []
    for seed in range(8):
        X, y, theta = world(500, seed)
        model = PrivateLinearRegression(random_state=seed, **UNIT).fit(X, y)
        private.append(np.mean((X @ (model.coef_ - theta)) ** 2))
        other = DPGradientDescent(steps=30, gradient_clip=0.3, random_state=seed, **UNIT).fit(X, y)
        descent.append(np.mean((X @ (other.coef_ - theta)) ** 2))
    assert math.sqrt(np.mean(private)) < 0.06
    assert np.mean(private) < np.mean(descent)


def test_few_rows__widths_cover():
    inside = []
    for seed in range(12):
        X, y, theta = world(600, seed)
        model = PrivateLinearRegression(random_state=seed, **UNIT).fit(X, y)
        inside.append(np.mean(np.abs(X @ (model.coef_ - theta)) <= model.confidence_width(X)))
    assert np.mean(inside) > 0.93


def test_few_rows__labels_are_in_intervals():
    X, y, _ = world(600, 0, d=4)
    model = PrivateLinearRegression(3.0, random_state=0, **UNIT).fit(X[:400], y[:400])
    low, high = model.predict_interval(X[400:], 0.9).T
    assert np.mean((low <= y[400:]) & (y[400:] <= high)) > 0.85


def test_shape__a_rare_direction_has_the_information_that_steps_give_it():
    """Rows of it are long when whitened: each weighs little, and steps must know how little."""
    for seed in range(5):
        X, y = rare(12_000, 0.03, seed)
        p = problem(X, y, seed=seed)
        rows = Sample(p, X, y, MU * math.sqrt(0.05))
        shape = private_shape([lambda rows=rows: rows] * 3, 12_000 * MU / 4, MU, intercept=False)
        true = _weighted(shape.whitening, math.inf, X, y)[0] / len(X)
        assert 0.4 < shape.H[0, 0] / true[0, 0] < 1.6


def test_rare__a_direction_of_one_row_in_a_hundred_is_found():
    off = []
    for seed in range(12):
        X, y = rare(10_000, 0.01, seed)
        model = PrivateLinearRegression(random_state=seed, **UNIT).fit(X, y)
        off.append(model.coef_[0] - 0.7)
    assert math.sqrt(np.mean(np.square(off))) < 0.12


def test_rare__a_first_step_that_overshoots_is_called_back():
    """157 of 40,000 rows have the last direction; H is too small there in one fit of fifty, in
    which theta was off by .6 before surprises counted."""
    d, n = 8, 40_000
    frequency = 2.0 ** -np.arange(1, d + 1)
    off = []
    for seed in range(30):
        rng = np.random.default_rng([seed, n])
        X = np.eye(d)[rng.choice(d, n, p=frequency / frequency.sum())]
        theta = sphere(1, d, seed)[0]
        y = np.clip(X @ theta + 0.1 * rng.standard_normal(n), -1, 1)
        off.append(abs(information_weighted(problem(X, y, seed=seed)).theta[-1] - theta[-1]))
    assert max(off) < 0.25


def test_clips__follow_small_label_noise():
    """Label noise of .003 is far below what is believed before the first step."""
    squares = []
    for seed in range(6):
        X, theta = sphere(8_000, 5, seed), 0.7 * sphere(1, 5, seed + 1)[0]
        y = X @ theta + 0.003 * np.random.default_rng(seed).standard_normal(8_000)
        model = PrivateLinearRegression(random_state=seed, **UNIT).fit(X, y)
        squares.append(np.mean((X @ (model.coef_ - theta)) ** 2))
    assert math.sqrt(np.mean(squares)) < 4e-4


def test_clips__one_sided_tails_are_cut_less_the_more_rows_there_are():
    levels = np.append(0.97 * NORMAL[:-1] / NORMAL[:-1].sum(), 0.03)
    odd = np.zeros((2, len(LEVELS)))
    even = Spread(levels, odd, np.full(len(LEVELS), 1e-8), 0.0)
    odd = odd.copy()
    odd[1, -1] = 0.03
    tails = replace(even, odd=odd)
    at = {
        (n, name): Clips.of(spread, 20.0).at[
            Clips.of(spread, 20.0).least_error(0.01, np.full(3, 0.2), n, 50.0)
        ]
        for n in (1_000, 10**6)
        for name, spread in (("even", even), ("tails", tails))
    }
    assert at[10**6, "tails"] > at[10**6, "even"]
    assert at[10**6, "tails"] >= 2 * at[1_000, "tails"]


def test_spread__noise_alone_is_normal_and_counts_that_stand_out_are_kept():
    rng = np.random.default_rng(0)
    possible = np.ones(len(LEVELS), dtype=bool)
    noise = 50 * rng.standard_normal((2, 2, len(LEVELS)))
    found = spread_of(noise, 50.0, 100, possible)
    np.testing.assert_allclose(found.levels, NORMAL, atol=1e-12)
    counts = np.zeros((2, 2, len(LEVELS)))
    counts[:, :, 5] = 2_500
    counts[0, 0, 9] = 600
    found = spread_of(counts + noise / 50, 1.0, 10_600, possible)
    assert found.levels[5] == pytest.approx(10_000 / 10_600, abs=0.01)
    assert found.odd[:, 9] == pytest.approx(np.full(2, 600 / 10_600), abs=0.001)


def test_irregular__is_the_distance_from_normal_and_from_symmetric_laws():
    def spread(levels, odd, hidden=0.0):
        return Spread(levels, np.vstack([odd, 0 * odd]), np.zeros(len(LEVELS)), hidden)

    none = np.zeros(len(LEVELS))
    assert spread(NORMAL, none).irregular == 0
    point = np.eye(len(LEVELS))[0]
    assert spread(point, none).irregular == pytest.approx(1 - NORMAL[0])
    # A tenth of the rows is above 0, far out; as many more are below 0, near it.
    assert spread(NORMAL, 0.1 * (point[::-1] - point)).irregular == pytest.approx(0.1)
    assert spread(NORMAL, none, hidden=0.04).irregular == pytest.approx(0.2)


def test_spread__what_noise_may_hide_is_the_skew_of_an_exponential_law_at_most():
    possible = np.ones(len(LEVELS), dtype=bool)
    counts = np.zeros((2, 2, len(LEVELS)))
    found = [spread_of(counts, std, 1_000, possible).hidden for std in (0.0, 1.0, 1e6)]
    assert found[0] == 0 < found[1] < 0.01 < found[2]
    law = stats.expon(loc=-1)
    assert found[2] == pytest.approx((2 * law.cdf(0) - 1) ** 2, rel=1e-6)


def test_skewed_errors__do_not_bias_the_intercept():
    # Exponential errors of std .25, mean zero: off by -.02; -.04 where kappas are not believed.
    bounds = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": True}
    off = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((2_000, 3))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y = X @ [0.2, -0.1, 0.0] - 0.4 + 0.25 * (rng.exponential(size=2_000) - 1)
        model = PrivateLinearRegression(random_state=seed, **bounds).fit(X, np.clip(y, -1, 1))
        off.append(model.intercept_ + 0.4)
    assert abs(np.mean(off)) < 0.025


def test_hidden__a_kappa_is_believed_as_far_as_it_stands_out_of_its_noise():
    def shift(deviations):
        """What a kappa moves theta by that the moment says to be 0."""
        design = np.array([[1.0, -1.0], [0.0, 1.0]])
        observed = np.array([0.0, 0.1 * deviations])
        unknown = HiddenPosterior.of_theta(Posterior.unobserved(1e-6 * np.eye(1)), 1)
        return float(unknown.observe(design, observed, 0.01 * np.eye(2)).theta().mean[0])

    assert abs(shift(ALARM - 0.1)) < 1e-8
    assert shift(30.0) == pytest.approx(3.0, rel=0.05)


def test_hidden__what_noise_can_hide_is_believed_as_far_as_errors_are_irregular():
    both = HiddenPosterior.of_theta(Posterior.unobserved(np.eye(1)), 1)
    design = np.array([[1.0, -1.0], [0.0, 1.0]])
    both = both.observe(design, np.array([0.0, 1e-2]), np.diag([1e-6, 1e-4]))  # 1 std of its noise
    variances = []
    for irregular in (0.0, 0.1, 1.0):
        mean, variance = (each[0] for each in both.hidden(irregular))
        prior = 2e-4 * irregular**2
        assert mean == pytest.approx(1e-2 * prior / (prior + 1e-4))
        assert variance == pytest.approx(1e-4 * prior / (prior + 1e-4))
        variances.append(both.theta(irregular).covariance[0, 0])
    assert variances[0] < 1.1e-6 < variances[1] < 4e-6 < 6e-5 < variances[2]


def test_hidden__nothing_hidden_leaves_the_posterior_as_it_is():
    rng = np.random.default_rng(0)
    both = HiddenPosterior.of_theta(Posterior.unobserved(np.eye(3)), 2)
    plain = Posterior.unobserved(np.eye(3))
    for _ in range(5):
        design = np.eye(5)
        design[:3, :3] = rng.standard_normal((3, 3))
        design[:3, 3:] = rng.standard_normal((3, 2))
        observed = np.append(rng.standard_normal(3), [0.0, 0.0])
        both = both.observe(design, observed, 0.1 * np.eye(5))
        plain = plain.observe(design[:3, :3], observed[:3], 0.1 * np.eye(3))
    np.testing.assert_allclose(both.theta().mean, plain.mean, atol=1e-6)


def test_loosened__a_surprise_is_believed_and_what_was_expected_changes_nothing():
    sure = Posterior(np.eye(2), np.diag([1e6, 1e6]), np.zeros(2))
    both = HiddenPosterior.of_theta(sure, REST)
    design, noise = np.eye(2), 1e-4 * np.eye(2)
    calm = both.loosened(sure.covariance, design, np.array([0.039, 0.0]), noise)
    assert calm is both
    moved = both.loosened(sure.covariance, design, np.array([0.5, 0.0]), noise)
    # The surprise is of 49.8 standard deviations sqrt(1e-4 + 1e-6): all counts as much less.
    expected = sure.covariance * 0.5**2 / (1e-4 + 1e-6)
    np.testing.assert_allclose(np.linalg.inv(moved.precision[:2, :2]), expected, rtol=1e-3)


@pytest.mark.parametrize("n", [1, 7, 60])
def test_rows_that_say_nothing__give_finite_answers(n):
    for X, y in ((np.zeros((n, 3)), np.zeros(n)), (np.eye(3)[[0] * n], np.ones(n))):
        for budget in (Budget(1.0, 1e-6), Budget(1e-4, 1e-9), Budget(1.0, 1e-6, 20)):
            for fit in (information_weighted, public_covariates):
                estimate = fit(problem(X, y, budget, public_X=X))
                assert np.isfinite(estimate.theta).all()
                assert np.isfinite(estimate.covariance).all()


@pytest.mark.parametrize("value", [-8.0, 8.0])
def test_noise__that_is_extreme_is_survived(value):
    """No fit fails after it has spent."""
    for n in (60, 3_000):
        X, y, _ = world(n, 0, d=2)
        p = problem(X, y)
        p.noise.gaussian = lambda std, size, spacing: np.full(size, value * std)
        assert np.isfinite(information_weighted(p).theta).all()


def test_layers__a_rest_is_a_third_longer_than_the_residual_at_least():
    known = known_of(np.array([0.5, 0.0]), 1e-6 * np.eye(2))
    assert known.layers[-1] == pytest.approx(4 / 3 * 1.5)
    assert len(known.layers) == LAYERS
