"""Coordinates in which rows of a given second moment are isotropic; powers of matrices."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from discreet.arrays import Array


@dataclass(frozen=True)
class Whitening:
    """x = M phi with a symmetric M; then <phi, theta> = <x, M^-1 theta>.

    >>> second_moment = np.diag([0.64, 0.04])
    >>> Whitening.from_gram(second_moment).matrix.round(3)  # (d second_moment)^(-1/2)
    array([[0.884, 0.   ],
           [0.   , 3.536]])
    """

    matrix: Array  # M, (d, d)

    @classmethod
    def identity(cls, dim: int) -> "Whitening":
        """M = I: before anything is known about rows."""
        return cls(np.eye(dim))

    @classmethod
    def from_gram(
        cls,
        gram: Array,
        *,
        floor: float | Array = 0.0,
        ridge: float = 0.0,
        even: float = 0.0,
        condition: float = math.inf,
    ) -> "Whitening":
        """M = (d G~)^(-1/2): rows of second moment G~ have mean square length 1.

        G~ is `gram` with eigenvalues of at least `floor` (one number, or a matrix of which each
        eigenvector takes its quadratic form) and at least max / condition^2; plus `ridge`, and
        `even` times their mean.
        """
        values, vectors = np.linalg.eigh(gram)
        least = (
            np.einsum("ji,ji->i", vectors, floor @ vectors)
            if isinstance(floor, np.ndarray)
            else floor
        )
        values = np.maximum(values, least)
        values = np.maximum(values, float(values.max()) / condition**2)
        values = values + (ridge + even * float(values.mean()))
        return cls(np.asarray((vectors * (len(gram) * values) ** -0.5) @ vectors.T))

    @classmethod
    def covering(cls, covariance: Array, ratio: float) -> "Whitening":
        """M^2 = ratio^2 C + sqrt(C / |C|): a clip covers 1 / ratio standard errors of theta.

        C is the covariance of theta's error. The first term makes the bound clip max(1, |M phi|)
        of a residual grow with the error of its prediction (with U^2 ~ C it is the U of Chen, Li,
        Rakhlin, Simchi-Levi 2025); the second keeps M phi long in directions that are known.
        """
        relative = covariance / np.linalg.norm(covariance, 2)
        return cls(power(covariance * ratio**2 + power(relative, 0.5), 0.5))

    @cached_property
    def inverse(self) -> Array:
        """M^-1: where theta goes."""
        return np.asarray(np.linalg.inv(self.matrix), dtype=np.float64)

    @cached_property
    def norm(self) -> float:
        """|M|, the longest that a row of the unit ball can become."""
        return float(np.abs(np.linalg.eigvalsh(self.matrix)).max())  # M is symmetric

    def transform(self, rows: Array) -> Array:  # (..., d)
        """x = M phi for every row."""
        return np.asarray(rows @ self.matrix)

    def unwhitened(self, gram: Array) -> Array:
        """M^-1 H M^-1: the Gram matrix of rows, from that of whitened rows."""
        return np.asarray(self.inverse @ gram @ self.inverse)

    def of_parameters(self, covariance: Array) -> Array:
        """M^-1 C M^-1: the covariance of M^-1 theta, from that of theta."""
        return np.asarray(self.inverse @ covariance @ self.inverse)

    def to_parameters(self, covariance: Array) -> Array:
        """M C M: the covariance of theta, from that of M^-1 theta."""
        return np.asarray(self.matrix @ covariance @ self.matrix)

    def scaled(self, factor: float) -> "Whitening":
        """factor M."""
        return Whitening(factor * self.matrix)

    def mean_square(self, second_moment: Array) -> float:
        """E|M phi|^2 = tr(M E[phi phi'] M)."""
        return float(np.trace(self.matrix @ second_moment @ self.matrix))


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
