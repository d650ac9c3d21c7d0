import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from discreet.arrays import symmetric_to_vector, vector_to_symmetric
from discreet.privacy import Budget, BudgetSpent, Ledger, SeededNoise
from discreet.privacy.mechanisms import Mechanisms, draw_generalized, k_norm_std

N = 40_000


def test_gaussian__noise_has_std_sensitivity_over_mu(assert_distribution):
    value, release = Mechanisms(SeededNoise(1)).gaussian(np.zeros(N), sensitivity=3.0, mu=0.5)
    assert (release.sensitivity, release.scale, release.mu) == (3.0, 6.0, 0.5)
    assert_distribution(value, stats.norm(scale=6.0).cdf)


@pytest.mark.parametrize("r", [2.0, 3.0, 4.5])
def test_generalized__squared_norms_are_those_of_its_density(r, assert_distribution):
    rows = draw_generalized(r, 2.0, N // 4, 6, SeededNoise(3))
    norms = np.linalg.norm(rows, ord=r, axis=1)
    assert_distribution((norms / 2.0) ** 2, stats.chi2(6).cdf)  # Gamma(d/2) of scale 2
    assert (rows > 0).mean() == pytest.approx(0.5, abs=0.02)


def test_gaussian_symmetric__isometric_noise(assert_distribution):
    value, release = Mechanisms(SeededNoise(2)).gaussian_symmetric(
        np.zeros((250, 250)), sensitivity=1.0, mu=0.25
    )
    assert release.scale == 4.0
    assert np.array_equal(value, value.T)
    assert_distribution(value[np.triu_indices(250, 1)], stats.norm(scale=4.0 / math.sqrt(2)).cdf)
    diagonals = [
        np.diag(release.gaussian_symmetric(np.zeros((50, 50)), sensitivity=1.0, mu=0.25).value)
        for release in (Mechanisms(SeededNoise(seed)) for seed in range(400))
    ]
    assert_distribution(np.concatenate(diagonals), stats.norm(scale=4.0).cdf)


def test_laplace__noise_has_scale_sensitivity_over_epsilon(assert_distribution):
    value, release = Mechanisms(SeededNoise(3)).laplace(np.zeros(N), sensitivity=2.0, epsilon=0.5)
    assert (release.mechanism, release.epsilon, release.scale) == ("laplace", 0.5, 4.0)
    assert_distribution(value, stats.laplace(scale=4.0).cdf)


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("dim", [1, 4, 30])
def test_k_norm__radius_is_gamma_and_direction_uniform(norm, dim, assert_distribution):
    noise = SeededNoise(4)
    rows = np.array([
        Mechanisms(noise).k_norm(np.zeros(dim), sensitivity=2.0, epsilon=0.5, norm=norm).value
        for _ in range(8000)
    ])  # fmt: skip
    radii = np.linalg.norm(rows, axis=1, ord=2 if norm == "l2" else np.inf)
    # The norm of a vector of density exp(-norm(z)/s) is Gamma(dim, s) in any norm.
    assert stats.kstest(radii, stats.gamma(dim, scale=4.0).cdf).pvalue > 1e-6
    assert stats.kstest(radii * 1.25, stats.gamma(dim, scale=4.0).cdf).pvalue < 1e-6
    expected = k_norm_std(norm, 4.0, dim)
    assert np.std(rows) == pytest.approx(expected, rel=0.05)
    assert np.abs(np.mean(np.sign(rows), axis=0)).max() < 0.06


def test_k_norm__in_one_dimension_every_norm_is_laplace(assert_distribution):
    for norm in ("l1", "l2", "linf"):
        noise = SeededNoise(5)
        draws = [
            Mechanisms(noise).k_norm([0.0], sensitivity=1.0, epsilon=1.0, norm=norm).value[0]
            for _ in range(12_000)
        ]
        assert_distribution(np.array(draws), stats.laplace.cdf)


def test_select__is_the_exponential_mechanism():
    scores = np.array([0.0, 1.0, 2.5, -1.0])
    for minimize in (False, True):
        noise = SeededNoise(6)
        picks = [
            Mechanisms(noise).select(scores, sensitivity=0.5, epsilon=1.0, minimize=minimize).value
            for _ in range(20_000)
        ]
        weights = np.exp((-scores if minimize else scores) / (2 * 0.5))
        expected = 20_000 * weights / weights.sum()
        counts = np.bincount(picks, minlength=4)
        assert stats.chisquare(counts, expected).pvalue > 1e-6
        # The planted bug: argmin(score + Gumbel) is another distribution, and this test sees it.
        rng = np.random.default_rng(7)
        wrong = np.argmin(scores + rng.gumbel(0, 1.0, (20_000, 4)), axis=1)
        if minimize:
            assert stats.chisquare(np.bincount(wrong, minlength=4), expected).pvalue < 1e-6


def test_select__costs_epsilon_bounded_range():
    _, release = Mechanisms(SeededNoise(0)).select([1.0, 2.0], sensitivity=0.5, epsilon=0.8)
    assert release.scale == 2 * 0.5 / 0.8
    assert release.epsilon == pytest.approx(0.8)
    assert release.rho == pytest.approx(0.8**2 / 8)


@given(arrays(np.float64, (3, 4, 4), elements=st.floats(-10, 10)))
def test_symmetric_to_vector__is_an_isometry_with_inverse(raw):
    matrices = raw + np.swapaxes(raw, -1, -2)
    vectors = symmetric_to_vector(matrices)
    assert np.allclose(np.linalg.norm(vectors, axis=-1), np.linalg.norm(matrices, axis=(-2, -1)))
    assert np.allclose(vector_to_symmetric(vectors), matrices)


@given(arrays(np.float64, (2, 5), elements=st.floats(-1, 1)))
def test_symmetric__replacing_a_rank_one_term_moves_by_at_most_sqrt2(pair):
    # The constant that learners state for Gram matrices; opposite and orthogonal rows included.
    a, b = (row / max(1.0, np.linalg.norm(row)) for row in pair)
    moved = np.linalg.norm(symmetric_to_vector(np.outer(a, a) - np.outer(b, b)))
    assert moved <= math.sqrt(np.dot(a, a) ** 2 + np.dot(b, b) ** 2) + 1e-12 <= math.sqrt(2) + 1e-9


def test_mechanisms__infinite_budget_returns_the_value_and_says_so():
    matrix = np.diag([1.0, 2.0])
    for released, value in (
        (Mechanisms().gaussian([1.0, 2.0], sensitivity=1.0, mu=math.inf), [1.0, 2.0]),
        (Mechanisms().gaussian_symmetric(matrix, sensitivity=1.0, mu=math.inf), matrix),
        (Mechanisms().laplace(3.0, sensitivity=1.0, epsilon=math.inf), 3.0),
        (Mechanisms().k_norm([1.0], sensitivity=1.0, epsilon=math.inf, norm="linf"), [1.0]),
        (Mechanisms().select([1.0, 5.0, 2.0], sensitivity=1.0, epsilon=math.inf), 1),
    ):
        assert np.array_equal(released.value, value)
        assert released.release.scale == 0.0
        assert released.release.rho == math.inf


def test_mechanisms__ask_the_ledger_before_they_draw():
    ledger, noise = Ledger(Budget(1.0)), SeededNoise(0)
    release = Mechanisms(noise, ledger)
    before = noise.state()
    with pytest.raises(BudgetSpent):
        release.laplace(1.0, sensitivity=1.0, epsilon=2.0)
    assert noise.state() == before
    _, record = release.laplace(1.0, sensitivity=1.0, epsilon=1.0, what="count", scope="day 1")
    assert ledger.releases == (record,)
    assert (record.what, record.scope) == ("count", "day 1")


@pytest.mark.parametrize(
    "call",
    [
        lambda: Mechanisms().gaussian([math.nan], sensitivity=1.0, mu=1.0),
        lambda: Mechanisms().gaussian([1.0], sensitivity=0.0, mu=1.0),
        lambda: Mechanisms().gaussian([1.0], sensitivity=1.0, mu=-1.0),
        lambda: Mechanisms(7).gaussian([1.0], sensitivity=1.0, mu=1.0),
        lambda: Mechanisms().gaussian("abc", sensitivity=1.0, mu=1.0),
        lambda: Mechanisms().gaussian_symmetric(np.zeros((2, 3)), sensitivity=1.0, mu=1.0),
        lambda: Mechanisms().laplace([1.0], sensitivity=math.inf, epsilon=1.0),
        lambda: Mechanisms().k_norm([1.0], sensitivity=1.0, epsilon=1.0, norm="l3"),
        lambda: Mechanisms().select([], sensitivity=1.0, epsilon=1.0),
        lambda: Mechanisms().select([[1.0]], sensitivity=1.0, epsilon=1.0),
        lambda: vector_to_symmetric(np.zeros(4)),
    ],
)
def test_mechanisms__bad_input_is_a_clear_error(call):
    with pytest.raises(ValueError, match=r"must|expected"):
        call()
