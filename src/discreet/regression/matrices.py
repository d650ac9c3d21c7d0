"""Powers of symmetric matrices."""

import numpy as np

from discreet.privacy.checks import Array


def power(A: Array, exponent: float) -> Array:
    """A power of a symmetric matrix; eigenvalues below 1e-14 of the largest count as that.

    >>> power(np.diag([4.0, 9.0]), -0.5).round(3)
    array([[0.5  , 0.   ],
           [0.   , 0.333]])
    """
    values, vectors = np.linalg.eigh(A)
    floor = max(float(values[-1]) * 1e-14, 1e-300)
    return np.asarray((vectors * np.maximum(values, floor) ** exponent) @ vectors.T)


def symmetrised(A: Array) -> Array:
    """sym(A) = (A^T A)^(1/2)."""
    return power(A.T @ A, 0.5)
