import numpy as np
import pytest

from discreet.arrays import vector_to_symmetric
from discreet.least_squares import discounted_eigenvalues, gram_error_covariance, shrink
from discreet.least_squares.blocks import Blocks
from discreet.least_squares.shrinkage import (
    noise_variances,
    not_noise,
    product_covariance,
    shrunk,
)


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


def test_product_covariance__is_that_of_the_noise_times_a_vector_within_blocks_too():
    rng = np.random.default_rng(0)
    w = np.array([1.0, -2.0, 0.5])
    outer = np.outer(w, w)
    plain = product_covariance(noise_variances(3, 2.0), outer)
    assert np.allclose(plain, gram_error_covariance(outer, 2.0))
    blocks = Blocks([0, 0, 1])
    moved = np.array([(noise(rng, 3, 2.0) * blocks.together) @ w for _ in range(40_000)])
    found = product_covariance(noise_variances(3, 2.0, blocks), outer)
    assert np.allclose(np.cov(moved.T), found, atol=0.5)
    assert (found[2, :2] == 0).all()


def test_shrunk__is_nearer_to_the_truth_than_what_was_seen_or_expected():
    rng = np.random.default_rng(1)
    truth = np.diag([60.0, 12.0, 10.0, 8.0, 5.0])
    expected = 19 * np.eye(5)
    ours = [np.sum((shrunk(truth + noise(rng, 5, 9.0), expected, 9.0, 1)[1] - truth) ** 2)
            for _ in range(200)]  # fmt: skip
    assert np.mean(ours) < 0.9 * 81 * 15  # of the noise alone
    assert np.mean(ours) < 0.9 * np.sum((expected - truth) ** 2)


def test_shrunk__information_is_less_than_the_matrix_and_nothing_is_changed_without_noise():
    rng = np.random.default_rng(2)
    for _ in range(20):
        N = np.diag([40.0, 5.0, 0.0]) + noise(rng, 3, 6.0)
        H, gram, _ = shrunk(N, 15 * np.eye(3), 6.0, 3)
        assert np.linalg.eigvalsh(H).min() >= -1e-9
        assert np.linalg.eigvalsh(gram - H).min() >= -1e-9
        assert np.trace(gram - H) > 0
        *same, error = shrunk(N, np.eye(3), 0.0, 3)
        for each in same:
            assert np.array_equal(each, N)
        assert not error.any()


def test_shrunk__an_error_that_lasts_counts_more_with_every_window():
    # T has an error; where noise hides it, each window has it again: that adds up.
    N = 15 * np.eye(3) + noise(np.random.default_rng(3), 3, 6.0)
    variances, traces = [], []
    for earlier in (0, 1, 5, 500):
        H, gram, error = shrunk(N, 15 * np.eye(3), 6.0, earlier)
        variances.append(error[0, 0] / 36)
        traces.append(np.trace(gram - H))
    assert variances[0] == pytest.approx(not_noise(np.sum((N - 15 * np.eye(3)) ** 2) / 36, 6))
    assert variances == sorted(variances)
    assert variances[-1] == pytest.approx(1)
    assert traces[0] == pytest.approx(0)  # nothing was there before
    assert traces == sorted(traces)
    assert traces[-1] > 1


def test_not_noise__is_the_mean_of_the_part_whatever_it_is():
    # Draw the part, draw the square: among squares that come out alike the mean part is ours.
    rng, entries = np.random.default_rng(4), 15
    k = rng.random(400_000)
    squares = rng.chisquare(entries, len(k)) / (1 - k)
    for seen in (5.0, 20.0, 60.0):
        alike = np.abs(squares / seen - 1) < 0.05
        assert not_noise(seen, entries) == pytest.approx(k[alike].mean(), abs=0.02)
    assert not_noise(0.0, entries) == pytest.approx(1 / 9.5)  # the limit
    assert not_noise(1e12, entries) == pytest.approx(1)
