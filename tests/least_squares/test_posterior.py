import numpy as np
import pytest

from discreet.least_squares import Posterior
from discreet.least_squares.posterior import root


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


def test_log_evidence__differs_between_priors_as_the_marginal_likelihood_does():
    rng = np.random.default_rng(1)
    design, seen = rng.standard_normal((3, 3)), rng.standard_normal(3)
    noise = np.diag([0.5, 1.0, 2.0])

    def exact(variance):  # observed ~ N(0, noise + variance design design')
        C = noise + variance * design @ design.T
        return -(seen @ np.linalg.solve(C, seen) + np.linalg.slogdet(C)[1]) / 2

    def ours(variance):
        posterior = Posterior.unobserved(np.eye(3) / variance)
        return posterior.observe(design, seen, noise).log_evidence()

    assert ours(4.0) - ours(0.3) == pytest.approx(exact(4.0) - exact(0.3))


def test_root__is_a_root_and_forgives_rounding():
    A = np.array([[2.0, 1.0], [1.0, 0.5]])  # singular
    assert np.allclose(root(A) @ root(A).T, A)
    assert np.isfinite(root(np.diag([1.0, -1e-18]))).all()
