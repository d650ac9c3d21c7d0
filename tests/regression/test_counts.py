"""Counts: sensitivities of the clipped score, what it is centred at, and how counts may vary."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from discreet.least_squares import Whitening
from discreet.links import link
from discreet.privacy import Budget
from discreet.regression import PrivateGLM
from discreet.regression.counts import CountScore, LogScore, clipped_mean
from discreet.regression.dispersion import LARGEST, MOVES, WEIGHT, Dispersion, histogram
from discreet.regression.scores import GRAM_COST, Weighting

DIM = 3
SPREADS = (Dispersion(), Dispersion(base=5.0), Dispersion(growth=0.7))


def rows(seed):
    """Rows at the edge: zero, tiny, along an axis, anywhere on the sphere."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((24, DIM))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X[:3] = np.eye(DIM)
    X[3:6] = -np.eye(DIM)
    X[6] = 0.0
    X[7:10] *= 1e-3
    return X


@settings(max_examples=40)
@given(
    st.integers(0, 99),
    st.sampled_from([0.5, 1.0, 20.0, 1e6, 1e30]),
    st.sampled_from([0.0, 1.0, 5.0, 60.0]),
    st.sampled_from(SPREADS),
    st.sampled_from([0.3, 1.5, 40.0]),
    st.sampled_from(["log", "counts"]),
)
def test_counts__a_replaced_row_moves_gradient_and_information_within_bounds(
    seed, bound, size, spread, tau, kind
):
    """Labels at 0, at the bound, between and beyond; theta short and long; any whitening."""
    rng = np.random.default_rng(seed)
    model = link("poisson").within(60.0, bound)
    Q = np.linalg.qr(rng.standard_normal((DIM, DIM)))[0]
    weighting = Weighting(Whitening((Q * np.exp(2 * rng.standard_normal(DIM))) @ Q.T), tau)
    score = CountScore(model, spread, 1 + 3 * rng.random(), 0.1 * np.eye(DIM), 0.02)
    if kind == "log":
        score = LogScore(model)
    theta = size * Q[0]
    X = rows(seed)
    y = rng.choice([0.0, 1.0, 0.5, 1 / bound, 7.0, -1.0], len(X))
    parts = [score.statistics(weighting, theta, X[[i]], y[[i]]) for i in range(len(X))]
    moves_g, moves_H = score.sensitivities(weighting)
    gradients = np.array([g for g, _ in parts])
    informations = np.array([H.ravel() for _, H in parts])
    assert np.isfinite(gradients).all()
    assert np.isfinite(informations).all()
    g = np.linalg.norm(gradients[:, None] - gradients[None], axis=2) / moves_g
    H = np.linalg.norm(informations[:, None] - informations[None], axis=2) / moves_H
    assert g.max() <= 1 + 1e-9
    assert H.max() <= 1 + 1e-9
    # Both at once, as they are released.
    assert (g**2 + GRAM_COST * H**2).max() <= score.joint * (1 + 1e-9)


def test_counts__the_gradient_bound_is_nearly_reached_by_counts_at_the_bound():
    """Opposite rows, both clipped above their mean."""
    model = link("poisson").within(5.0, 100.0)
    score = CountScore(model, Dispersion(), 1.0, np.zeros((1, 1)), 0.0)
    weighting = Weighting(Whitening.identity(1), 2.0)
    X = np.array([[1.0], [-1.0]])
    g, other = (score.statistics(weighting, np.zeros(1), X[[i]], np.ones(1))[0] for i in (0, 1))
    assert abs(float((g - other)[0])) > 0.9 * score.sensitivities(weighting)[0]


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("nu", [1e-3, 0.3, 2.0, 17.5])
def test_clipped_mean__is_the_sum_over_all_counts_and_its_derivative(spread, nu):
    y = np.arange(3000.0)

    def summed(mean, low, high):
        if spread.poisson:
            p = stats.poisson(mean).pmf(y)
        else:
            more = float(spread.at(np.array(mean)))
            p = stats.nbinom(mean / (more - 1), 1 / more).pmf(y)
        return float(p @ np.clip(y, low, high))

    for low, high in ((0.0, 1.0), (0.0, 4.0), (2.0, 9.0), (10.0, 30.0), (0.0, 0.4), (3.0, 7.5)):
        m, slope = clipped_mean(
            spread, np.array([nu]), np.array([low]), np.array([high]), np.array([True])
        )
        assert m[0] == pytest.approx(summed(nu, low, high), rel=1e-9, abs=1e-12)
        ahead, behind = (summed(nu * math.exp(h), low, high) for h in (1e-4, -1e-4))
        if high == int(high):
            assert slope[0] == pytest.approx((ahead - behind) / 2e-4, rel=0.02, abs=1e-9)
        assert slope[0] >= 0


@pytest.mark.parametrize("spread", SPREADS)
def test_counts__the_gradient_has_mean_zero_at_the_right_theta(spread):
    """False alarm rate 1e-5; a clip that is not centred fails by 10 standard errors and more."""
    rng = np.random.default_rng(0)
    X = rows(1)[10:]
    theta = np.array([1.0, -0.5, 0.5])
    model = link("poisson").within(5.0, 60.0)
    score = CountScore(model, spread, 1.0, np.zeros((DIM, DIM)), 0.0)
    weighting = Weighting(Whitening.identity(DIM), 1.0)
    repeated = np.tile(X, (3000, 1))
    nu = np.exp(repeated @ theta)
    rates = nu if spread.poisson else rng.gamma(nu / (spread.at(nu) - 1), spread.at(nu) - 1)
    y = np.minimum(rng.poisson(rates), 60) / 60
    g, H = score.statistics(weighting, theta, repeated, y)
    errors = g / np.sqrt(np.diag(H) * float(spread.at(nu).max()))
    assert np.abs(errors).max() < 4.8
    uncentred = CountScore(model, SPREADS[0] if not spread.poisson else SPREADS[1], 1.0,
                           np.zeros((DIM, DIM)), 0.0)  # fmt: skip
    wrong, H = uncentred.statistics(weighting, theta, repeated, y)
    assert np.abs(wrong / np.sqrt(np.diag(H))).max() > 10


@given(st.integers(0, 99), st.sampled_from([0.5, 20.0, 1e30]), st.sampled_from([0.0, 3.0, 60.0]))
@settings(max_examples=30)
def test_histogram__a_replaced_row_moves_it_within_the_bound(seed, bound, size):
    model = link("poisson").within(60.0, bound)
    rng = np.random.default_rng(seed)
    X = rows(seed)
    y = rng.choice([0.0, 1.0, 0.5, 1 / bound, 7.0, -1.0], len(X))
    theta = size * np.eye(DIM)[0]
    each = []
    for i in range(len(X)):
        counted, sums = histogram(model, theta, X[[i]], y[[i]])
        each.append(np.append(counted, WEIGHT * sums))
    each = np.array(each)
    assert np.isfinite(each).all()
    assert np.linalg.norm(each[:, None] - each[None], axis=2).max() <= MOVES * (1 + 1e-9)


def test_histogram__the_bound_is_reached_by_rows_in_different_bins():
    model = link("poisson").within(5.0, 100.0)
    found = []
    for x in (1.0, -1.0):
        counted, sums = histogram(model, np.array([2.0]), np.array([[x]]), np.ones(1))
        found.append(np.append(counted, WEIGHT * sums))
    assert LARGEST == 16
    other = math.sqrt(2 * (1 + WEIGHT**2))
    assert np.linalg.norm(found[0] - found[1]) == pytest.approx(other)
    assert other <= MOVES


def world(n, more, seed, growth=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    theta = np.array([1.0, -1.0, 0.5, 0.0])
    nu = np.exp(0.7 + X @ theta)
    excess = more - 1 + growth * nu
    rates = rng.gamma(nu / excess, excess) if more > 1 or growth else nu
    return X, np.minimum(rng.poisson(rates), 100), nu


def relative_error(epsilon, X, y, nu, seed, **options):
    model = PrivateGLM(epsilon, link="poisson", norm_bound=1.0, label_bound=100.0,
                       fit_intercept=True, random_state=seed, **options).fit(X, y)  # fmt: skip
    return math.sqrt(np.mean((model.predict(X) / nu - 1) ** 2)), model


@pytest.mark.parametrize(("more", "growth"), [(1.0, 0.0), (5.0, 0.0), (1.0, 1.0)])
def test_counts__are_fitted_as_well_as_without_noise_also_where_they_vary_more(more, growth):
    """Without a clip the error was 30 times the plain one; with Poisson's centre alone 4."""
    private, plain = [], []
    for seed in range(2):
        X, y, nu = world(20_000, more, seed, growth)
        private.append(relative_error(1.0, X, y, nu, seed)[0])
        plain.append(relative_error(math.inf, X, y, nu, seed)[0])
    assert np.mean(private) < 2 * np.mean(plain)


def test_counts__the_releases_cost_the_budget_and_public_rows_only_the_gradients():
    X, y, nu = world(2000, 1.0, 0)
    for public in (None, X[:500]):
        _, model = relative_error(1.0, X, y, nu, 0, public_X=public)
        releases = model.guarantee_.releases
        assert [each.what for each in releases].count("histogram of deviations") == 2
        assert len(releases) == 7
        spent = sum((each.sensitivity / each.scale) ** 2 for each in releases)
        assert spent == pytest.approx(Budget(1.0, 1e-6).mu ** 2)
        assert all(("information" in each.what) == (public is None)
                   for each in releases if "stage" in each.what)  # fmt: skip


def test_counts__zero_constant_and_few_rows_and_huge_bounds_give_finite_results():
    for X, y in (
        (np.zeros((30, 3)), np.zeros(30)),
        (np.ones((30, 3)), np.full(30, 50.0)),
        (np.eye(3)[:1], np.ones(1)),
    ):
        for bound in (0.5, 100.0, 1e50):
            model = PrivateGLM(1.0, link="poisson", norm_bound=1.0, label_bound=bound,
                               fit_intercept=True, random_state=0).fit(X, y)  # fmt: skip
            assert np.isfinite(model.coef_).all()
            assert np.isfinite(model.intercept_)


def fitted_mean(y, X, label_bound, epsilon):
    model = PrivateGLM(epsilon, link="poisson", norm_bound=1.0, label_bound=label_bound,
                       fit_intercept=True, random_state=0).fit(X, y)  # fmt: skip
    return float(model.predict(X).mean())


@pytest.mark.parametrize("label_bound", [1.0, 7.0])
def test_counts__labels_that_are_bounded_by_nature_have_the_mean_that_a_plain_fit_finds(
    label_bound,
):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (20_000, 2))
    y = rng.binomial(int(label_bound), 0.5 + 0.3 * X[:, 0]).astype(float)
    plain = fitted_mean(y, X, label_bound, math.inf)
    assert fitted_mean(y, X, label_bound, 1.0) == pytest.approx(plain, rel=0.03)
    assert plain == pytest.approx(y.mean(), rel=0.01)


def test_counts__most_of_them_zero_do_not_make_a_step_run_away():
    rng = np.random.default_rng(1)
    X = rng.uniform(-0.5, 0.5, (20_000, 2))
    y = rng.poisson(20.0, len(X)) * (rng.random(len(X)) < 0.4)
    for epsilon in (1.0, 10.0):
        assert 0.8 < fitted_mean(y.astype(float), X, 100.0, epsilon) / y.mean() < 1.25


@pytest.mark.parametrize("spread", [Dispersion(), Dispersion(base=3.0)])
def test_dispersion__huge_means_are_normal_without_a_jump(spread):
    nu = np.array([0.999e9, 1.001e9])
    k = np.floor(nu + np.sqrt(nu))
    below = spread.below(nu, k)[0]
    assert below[0] == pytest.approx(below[1], abs=1e-3)


def test_histogram__the_bound_is_reached_by_rows_of_one_bin():
    model = link("poisson").within(60.0, 100.0)
    found = []
    for count in (0.5, 1.5):  # at a mean of .007 both are cut: q = -16 and 16
        seen = histogram(model, np.array([-5.0]), np.ones((1, 1)), np.array([count / 100]))
        found.append(np.append(seen[0], WEIGHT * seen[1]))
    assert np.linalg.norm(found[0] - found[1]) == pytest.approx(MOVES)


def test_counts__how_much_is_released_does_not_depend_on_the_counts():
    def released(y):
        options = {"norm_bound": 1.0, "label_bound": 5.0, "random_state": 0}
        model = PrivateGLM(1.0, link="poisson", fit_intercept=True, **options)
        return model.fit(rows(0), y).guarantee_.releases

    assert released(np.zeros(24)) == released(np.arange(24) % 6.0)
