import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.least_squares import power, symmetrised


def symmetric(seed, d, least):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return (Q * rng.uniform(least, 3.0, d)) @ Q.T


@given(st.integers(0, 2**32), st.integers(1, 6))
def test_power__roots_and_inverses_multiply_to_the_matrix_and_to_one(seed, d):
    A = symmetric(seed, d, 0.1)
    assert np.allclose(power(A, 0.5) @ power(A, 0.5), A)
    assert np.allclose(power(A, -0.5) @ power(A, 0.5), np.eye(d))
    assert np.allclose(power(A, -1.0), np.linalg.inv(A))


def test_power__eigenvalues_below_the_floor_count_as_the_floor():
    A = np.diag([4.0, 1.0, -2.0])
    assert np.allclose(power(A, -1.0, floor=2.0), np.diag([0.25, 0.5, 0.5]))
    assert np.allclose(power(A, 1.0, floor=0.0), np.diag([4.0, 1.0, 0.0]))
    assert np.diag(power(A, -1.0)) == pytest.approx([0.25, 1.0, 1 / 4e-14])
    assert np.isfinite(power(np.zeros((2, 2)), -0.5)).all()


def test_symmetrised__has_the_lengths_of_the_matrix():
    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((3, 3)), rng.standard_normal(3)
    S = symmetrised(A)
    assert np.allclose(S, S.T)
    assert np.linalg.norm(S @ x) == pytest.approx(np.linalg.norm(A @ x))
