"""Powers of symmetric matrices."""

import numpy as np

from discreet.arrays import Array


def power(A: Array, exponent: float, *, floor: float | None = None) -> Array:
    """V diag(max(a, floor)^exponent) V' for A = V diag(a) V'; the floor is 1e-14 max a by default.

    >>> power(np.diag([4.0, 9.0]), -0.5).round(3)
    array([[0.5  , 0.   ],
           [0.   , 0.333]])
    """
    values, vectors = np.linalg.eigh(A)
    if floor is None:
        floor = max(float(values[-1]) * 1e-14, 1e-300)
    return np.asarray((vectors * np.maximum(values, floor) ** exponent) @ vectors.T)


def symmetrised(A: Array) -> Array:
    """sym(A) = (A' A)^(1/2)."""
    return power(A.T @ A, 0.5)


def larger(A: Array, B: Array) -> Array:
    """B + (A - B)_+, a matrix that is at least A and at least B."""
    return np.asarray(B + power(A - B, 1.0, floor=0.0))
