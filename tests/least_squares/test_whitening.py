import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.least_squares import Whitening


def second_moment(seed, d):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((d, d)) * np.geomspace(1, 0.01, d)
    return A @ A.T


@given(st.integers(0, 2**32), st.integers(1, 6))
def test_from_gram__makes_rows_isotropic_with_mean_square_length_1(seed, d):
    G = second_moment(seed, d)
    whitening = Whitening.from_gram(G)
    white = whitening.matrix @ G @ whitening.matrix
    assert np.allclose(white, np.eye(d) / d, atol=1e-6)
    assert whitening.mean_square(G) == pytest.approx(1, abs=1e-5)


def test_from_gram__floor_ridge_and_condition_bound_how_far_a_direction_is_stretched():
    G = np.diag([1.0, 1e-8])
    d = 2
    assert Whitening.from_gram(G, floor=0.01).norm == pytest.approx((d * 0.01) ** -0.5)
    assert Whitening.from_gram(G, floor=np.diag([0.0, 0.04])).norm == pytest.approx(
        (d * 0.04) ** -0.5
    )
    assert Whitening.from_gram(G, ridge=0.09).norm == pytest.approx((d * 0.09) ** -0.5, rel=1e-5)
    matrix = Whitening.from_gram(G, condition=4.0).matrix
    assert np.linalg.cond(matrix) == pytest.approx(4.0)


def test_whitening__predictions_stay_and_matrices_go_back():
    rng = np.random.default_rng(0)
    whitening = Whitening.from_gram(second_moment(1, 3))
    rows, theta = rng.standard_normal((7, 3)), rng.standard_normal(3)
    x = whitening.transform(rows)
    assert np.allclose(x @ (whitening.inverse @ theta), rows @ theta)
    assert np.allclose(whitening.unwhitened(x.T @ x), rows.T @ rows)
    assert np.allclose(
        whitening.of_parameters(np.outer(theta, theta)),
        np.outer(whitening.inverse @ theta, whitening.inverse @ theta),
    )
    assert (np.linalg.norm(x, axis=1) <= whitening.norm * np.linalg.norm(rows, axis=1)).all()
    assert np.allclose(whitening.scaled(3.0).matrix, 3 * whitening.matrix)
