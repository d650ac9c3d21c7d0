import numpy as np
import pytest

from discreet.least_squares import discounted_eigenvalues, gram_error_covariance, shrink
from discreet.least_squares.shrinkage import unproven_rows
from discreet.privacy.mechanisms import vector_to_symmetric


def noise(rng, d, std):
    """Of a released symmetric matrix: std on the diagonal, std / sqrt(2) beside it."""
    return vector_to_symmetric(std * rng.standard_normal(d * (d + 1) // 2))


def test_shrink__is_nearer_to_the_truth_than_the_noisy_matrix():
    rng = np.random.default_rng(0)
    truth = np.diag([12.0, 10.0, 10.0, 8.0])
    ours, theirs = [], []
    for _ in range(200):
        noisy = truth + noise(rng, 4, 3.0)
        ours.append(np.sum((shrink(noisy, 3.0) - truth) ** 2))
        theirs.append(np.sum((noisy - truth) ** 2))
    assert np.mean(ours) < 0.5 * np.mean(theirs)


def test_shrink__leaves_a_matrix_without_noise_alone_and_floors_eigenvalues():
    A = np.diag([3.0, 1.0])
    assert np.allclose(shrink(A, 0.0), A)
    assert np.allclose(shrink(A, 0.0, target=np.eye(2)), A)
    assert np.linalg.eigvalsh(shrink(np.diag([1.0, -1.0]), 0.0, floor=0.25)).min() >= 0.25 - 1e-12
    assert np.allclose(shrink(A, 1e3, target=np.eye(2)), np.eye(2))
    assert np.allclose(shrink(np.diag([5.0, 1.0, 0.0]), 1e3), 2 * np.eye(3))  # the mean eigenvalue
    assert np.linalg.eigvalsh(shrink(np.diag([5.0, -3.0, 0.0]), 0.1)).min() >= -1e-12


def test_gram_error_covariance__is_that_of_the_noise_times_a_vector():
    rng = np.random.default_rng(0)
    w = np.array([1.0, -2.0, 0.5])
    moved = np.array([noise(rng, 3, 2.0) @ w for _ in range(40_000)])
    assert np.allclose(np.cov(moved.T), gram_error_covariance(np.outer(w, w), 2.0), atol=0.5)


def test_discounted_eigenvalues__within_the_noise_nothing_is_left():
    found = discounted_eigenvalues(np.array([0.0, 1.0, 2.0, 100.0]), 1.0, 2.0)
    assert found[:2].tolist() == [0.0, 0.0]
    assert found[2] == pytest.approx(1.0)
    assert found[3] == pytest.approx(100, abs=0.1)


@pytest.mark.parametrize("d", [2, 5, 20])
def test_unproven_rows__noise_proves_nothing_and_many_rows_prove_their_direction(d):
    rng = np.random.default_rng(0)
    one = np.zeros((d, d))
    one[0, 0] = 1000.0
    alone, beside, even = [], [], []
    for _ in range(50):
        Z = noise(rng, d, 10.0)
        alone.append(np.trace(unproven_rows(Z, 100.0)) / d)
        beside.append(unproven_rows(one + Z, 100.0)[0, 0])
        even.append(np.trace(unproven_rows(40 * np.eye(d) + Z, 100.0)) / d)
    assert np.mean(alone) > 0.8
    assert max(beside) < 0.01
    assert np.mean(even) < 0.05  # small eigenvalues are noise if all directions have rows
    assert not unproven_rows(np.eye(2), 0.0).any()  # without noise all is proven
