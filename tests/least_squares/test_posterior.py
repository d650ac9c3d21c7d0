import numpy as np
import pytest

from discreet.least_squares import Posterior
from discreet.least_squares.posterior import log_evidence, root


def evidence(posterior):
    both = posterior.prior + posterior.precision
    sizes = np.linalg.slogdet(posterior.prior)[1] - np.linalg.slogdet(both)[1]
    return (posterior.weighted @ np.linalg.solve(both, posterior.weighted) + sizes) / 2


def test_observe__one_observation_at_a_time_is_bishop_3_50_and_3_51():
    rng = np.random.default_rng(0)
    d, n, beta = 3, 20, 4.0
    Phi, t = rng.standard_normal((n, d)), rng.standard_normal(n)
    prior = np.diag([1.0, 2.0, 3.0])
    posterior = Posterior.unobserved(prior)
    for start in range(0, n, 5):  # five rows as a square design of their normal equations
        rows, seen = Phi[start : start + 5], t[start : start + 5]
        posterior = posterior.observe(rows.T @ rows, rows.T @ seen, rows.T @ rows / beta)
    S = np.linalg.inv(prior + beta * Phi.T @ Phi)
    assert np.allclose(posterior.covariance, S)
    assert np.allclose(posterior.mean, beta * S @ Phi.T @ t)
    assert np.allclose(posterior.with_prior(0 * prior).mean, np.linalg.lstsq(Phi, t)[0])


def test_discounted__counts_every_observation_less():
    seen = Posterior.unobserved(np.eye(2)).observe(np.eye(2), np.ones(2), np.eye(2))
    assert np.allclose(seen.discounted(0.5).covariance, np.eye(2) / 1.5)
    assert np.allclose(seen.discounted(0.5).mean, np.ones(2) / 3)


@pytest.mark.parametrize("length", [0.0, 0.6, 1.0])
def test_log_evidence__differs_between_priors_as_the_marginal_likelihood_does(length):
    rng = np.random.default_rng(1)
    design, seen = rng.standard_normal((3, 3)), rng.standard_normal(3)
    noise = np.diag([0.5, 1.0, 2.0])
    v = rng.standard_normal(3)
    v *= length / np.linalg.norm(v)
    spread, special = np.array([0.25, 3.0, 1.0]), np.array([0.25, 0.5, 7.0])

    def exact(p, q):  # observed ~ N(0, noise + design prior^-1 design')
        C = noise + design @ np.linalg.inv(p * np.eye(3) + (q - p) * np.outer(v, v)) @ design.T
        return -(seen @ np.linalg.solve(C, seen) + np.linalg.slogdet(C)[1]) / 2

    posterior = Posterior.unobserved(np.eye(3)).observe(design, seen, noise)
    ours = log_evidence(spread, posterior.precision, posterior.weighted, v, special)
    wanted = np.array([exact(p, q) for p, q in zip(spread, special, strict=True)])
    assert ours - ours[0] == pytest.approx(wanted - wanted[0])


def test_root__of_a_posterior_is_one_of_its_covariance():
    rows = np.random.default_rng(0).standard_normal((4, 3))
    seen = Posterior.unobserved(np.eye(3)).observe(rows, np.ones(4), np.eye(4))
    assert np.allclose(seen.root @ seen.root.T, seen.covariance)


def test_root__is_a_root_and_forgives_rounding():
    A = np.array([[2.0, 1.0], [1.0, 0.5]])  # singular
    assert np.allclose(root(A) @ root(A).T, A)
    assert np.isfinite(root(np.diag([1.0, -1e-18]))).all()


def test_from_covariance__is_a_prior_of_that_covariance():
    C = np.array([[2.0, 0.5], [0.5, 1.0]])
    assert np.allclose(Posterior.from_covariance(C).covariance, C)
    # Two observations in turn, the first one's posterior as the prior of the second, are both.
    rng = np.random.default_rng(0)
    designs, seen = rng.standard_normal((2, 2, 2)), rng.standard_normal((2, 2))
    both = Posterior.from_covariance(C)
    for design, values in zip(designs, seen, strict=True):
        both = both.observe(design, values, np.eye(2))
    first = Posterior.from_covariance(C).observe(designs[0], seen[0], np.eye(2))
    left = seen[1] - designs[1] @ first.mean
    second = Posterior.from_covariance(first.covariance).observe(designs[1], left, np.eye(2))
    assert np.allclose(first.mean + second.mean, both.mean)
    assert np.allclose(second.covariance, both.covariance)


def test_with_fitted_prior__has_more_evidence_than_the_prior_it_starts_from():
    rng = np.random.default_rng(0)
    d = 40
    start = Posterior.unobserved(d * np.eye(d))
    for size in (0.02, 1.0, 5.0):
        theta = size * rng.standard_normal(d)
        seen = start.observe(np.eye(d), theta + 0.02 * rng.standard_normal(d), 4e-4 * np.eye(d))
        fitted = seen.with_fitted_prior()
        assert evidence(fitted) >= evidence(seen)
        if size >= 1:  # the variance of theta is found: 40 draws tell it to a quarter
            assert 1 / fitted.prior[0, 0] == pytest.approx(size**2, rel=0.7)


def test_with_fitted_prior__a_direction_that_nobody_has_seen_stays_unknown():
    d = 4
    design = np.diag([1.0, 1.0, 1.0, 0.0])
    seen = Posterior.unobserved(d * np.eye(d)).observe(design, np.zeros(d), 1e-6 * np.eye(d))
    assert seen.with_fitted_prior().covariance[3, 3] >= 1 / d - 1e-9
    assert seen.with_fitted_prior().covariance[0, 0] <= 1e-6
