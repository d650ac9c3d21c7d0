"""Mechanisms: each adds noise to one private value, given its sensitivity, and says what it cost.

    gaussian              N(0, s^2 I),             s = D / mu,         D in l2
    gaussian_symmetric    the same on a symmetric matrix, kept symmetric, D in Frobenius norm
    laplace               exp(-|z|_1 / s),         s = D / epsilon,    D in l1
    k_norm                exp(-|z| / s),           s = D / epsilon,    D in l1, l2 or linf
    select                argmax(score + Gumbel(s)), s = 2 D / epsilon, D for each score

The sensitivity is for everything one person contributes. An infinite mu or epsilon means no noise,
and the record says so.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from discreet.arrays import (
    Array,
    finite,
    one_of,
    positive,
    symmetric_to_vector,
    vector_to_symmetric,
)
from discreet.privacy.ledger import Ledger
from discreet.privacy.noise import Noise, source, to_lattice
from discreet.privacy.release import Release, observe

NORMS = ("l1", "l2", "linf")


class Released(NamedTuple):
    """A private value as published, and the record of its cost."""

    value: Any  # as published
    release: Release  # its cost


class Mechanisms:
    """The mechanisms, bound to the source of their noise and to the ledger that books their cost.

    noise    `SecureNoise()`, `SeededNoise(seed)`, or None for float noise from OS entropy
    ledger   asked before any noise is drawn, and booked when the value is ready; None: nobody

    >>> from discreet.privacy import SeededNoise
    >>> release = Mechanisms(SeededNoise(0))
    >>> total, record = release.gaussian([3.0, 4.0], sensitivity=2.0, mu=0.5, what="total")
    >>> record.scale, record.mu
    (4.0, 0.5)
    >>> gram, _ = release.gaussian_symmetric(np.eye(3), sensitivity=1.0, mu=1.0, what="Gram matrix")
    >>> bool((gram == gram.T).all())
    True
    >>> release.laplace(10.0, sensitivity=1.0, epsilon=0.5, what="count").release.scale
    2.0
    >>> release.select([0.0, 0.0, 90.0], sensitivity=1.0, epsilon=1.0, what="best").value
    2
    """

    def __init__(self, noise: Noise | None = None, ledger: Ledger | None = None) -> None:
        self.noise = source(noise)
        self.ledger = ledger

    def gaussian(
        self,
        value: ArrayLike,
        *,
        sensitivity: float,
        mu: float,
        what: str = "value",
        scope: str | None = None,
    ) -> Released:
        """`value` + N(0, s^2 I) with s = sensitivity / mu: mu-GDP."""
        array = finite("value", value)
        sensitivity = positive("sensitivity", sensitivity)
        mu = positive("mu", mu, allow_inf=True)
        spacing = self.noise.spacing("gaussian", sensitivity / mu)
        # Rounding two values to the lattice can move each coordinate apart by one spacing more.
        sensitivity += spacing * math.sqrt(array.size)
        scale = sensitivity / mu
        sampler = self.noise.sampler("gaussian")
        return self._released(
            Release.gaussian(
                sensitivity=sensitivity, scale=scale, what=what, sampler=sampler, scope=scope
            ),
            array.copy,
            lambda: to_lattice(array, spacing) + self.noise.gaussian(scale, array.shape, spacing),
        )

    def gaussian_symmetric(self, matrix: ArrayLike, **about: Any) -> Released:
        """A symmetric matrix with Gaussian noise of std s on the diagonal, s/sqrt(2) off it.

        The Frobenius norm is the l2 norm of the isometric vector, so `sensitivity` is in Frobenius
        norm: for sums of a a^T with |a| <= b, replacing one term moves it by at most sqrt(2) b^2.
        """
        vector = symmetric_to_vector(finite("matrix", matrix))
        value, release = self.gaussian(vector, **about)
        return Released(vector_to_symmetric(value), release)

    def laplace(self, value: ArrayLike, **about: Any) -> Released:
        """`value` + Laplace noise of scale sensitivity / epsilon, sensitivity in l1: epsilon-DP."""
        return self.k_norm(value, norm="l1", **about)

    def k_norm(
        self,
        value: ArrayLike,
        *,
        sensitivity: float,
        epsilon: float,
        norm: str,
        what: str = "value",
        scope: str | None = None,
    ) -> Released:
        """`value` + noise of density exp(-norm(z)/s), s = sensitivity / epsilon: epsilon-DP.

        In l1 this is Laplace noise; in l2 and linf it is far smaller than Laplace noise calibrated
        for the same ball (Hardt and Talwar 2010).
        """
        array = finite("value", value)
        sensitivity = positive("sensitivity", sensitivity)
        epsilon = positive("epsilon", epsilon, allow_inf=True)
        mechanism = k_norm_name(norm)
        spacing = self.noise.spacing(mechanism, sensitivity / epsilon)
        # Only Laplace noise lives on a lattice; in l1 rounding adds one spacing per coordinate.
        sensitivity += spacing * array.size
        scale = sensitivity / epsilon

        def noisy() -> Array:
            drawn = draw_k_norm(norm, scale, 1, array.size, self.noise, spacing)
            return to_lattice(array, spacing) + drawn.reshape(array.shape)

        return self._released(
            Release.pure(
                mechanism=mechanism,
                norm=norm,
                sensitivity=sensitivity,
                scale=scale,
                what=what,
                sampler=self.noise.sampler(mechanism),
                scope=scope,
            ),
            array.copy,
            noisy,
        )

    def select(
        self,
        scores: ArrayLike,
        *,
        sensitivity: float,
        epsilon: float,
        minimize: bool = False,
        what: str = "choice",
        scope: str | None = None,
    ) -> Released:
        """The index of a high score (a low one if `minimize`) by the exponential mechanism.

        Each score may move by `sensitivity`. P(i) is proportional to exp(epsilon score_i / (2 D)),
        drawn as argmax(score + Gumbel(2 D / epsilon)); it is epsilon-DP and epsilon-bounded-range,
        hence costs only rho = epsilon^2 / 8.
        """
        array = finite("scores", scores)
        if array.ndim != 1 or array.size == 0:
            raise ValueError(f"scores must be a non-empty vector, got shape {array.shape}")
        sensitivity = positive("sensitivity", sensitivity)
        scale = 2 * sensitivity / positive("epsilon", epsilon, allow_inf=True)
        # Gumbel noise is not symmetric: a minimum is the maximum of the negated scores.
        signed = -array if minimize else array
        sampler = self.noise.sampler("exponential")
        return self._released(
            Release.selection(
                sensitivity=sensitivity, scale=scale, what=what, sampler=sampler, scope=scope
            ),
            lambda: int(np.argmax(signed)),
            lambda: self.noise.select(signed, scale),
        )

    def _released(
        self, release: Release, exact: Callable[[], Any], noisy: Callable[[], Any]
    ) -> Released:
        """Ask, draw, book: a draw that failed costs nothing. Without noise, what is exact."""
        if self.ledger is not None:
            self.ledger.check(release)
        value = noisy() if release.scale else exact()
        if self.ledger is not None:
            self.ledger.spend(release)
        observe("release", value, release)
        return Released(value, release)


def k_norm_name(norm: str) -> str:
    """The mechanism's name in records: K-norm noise in l1 is Laplace noise."""
    return "laplace" if one_of("norm", norm, NORMS) == "l1" else "k-norm"


def draw_k_norm(
    norm: str, scale: float, count: int, dim: int, noise: Noise, spacing: float = 0.0
) -> Array:  # (count, dim)
    """Rows of density exp(-norm(z)/scale): a gamma radius times a uniform point.

    Each row takes its own stretch of the stream, so n rows at once equal n single rows.
    """
    if norm == "l1":
        return noise.laplace(scale, (count, dim), spacing)
    # Volume grows like radius^dim: the radius is Gamma(dim + 1) for a point inside the ball,
    # Gamma(dim) for a point on its surface; a gamma variable is a sum of exponentials.
    uniforms = noise.uniform((count, 2 * dim + (norm == "linf")))
    point = uniforms[:, :dim]
    radius = -scale * np.log(uniforms[:, dim:]).sum(axis=1)
    if norm == "linf":
        point = 2 * point - 1
    else:
        point = scipy.special.ndtri(point)
        point /= np.linalg.norm(point, axis=1, keepdims=True)
    return np.asarray(radius[:, None] * point)


def draw_generalized(
    r: float, scale: float, count: int, dim: int, noise: Noise
) -> Array:  # (count, dim)
    """Rows of density exp(-|z|_r^2 / (2 scale^2)), the generalised Gaussian of l_r, r >= 2."""
    shape = (count, dim)
    if r == 2:
        return np.asarray(scale * noise.normal(shape))
    # Direction by the cone measure of l_r; |z|_r^2 ~ 2 s^2 Gamma(d/2).
    signs = np.where(noise.uniform(shape) < 0.5, -1.0, 1.0)
    rows = signs * noise.gamma(1 / r, shape) ** (1 / r)
    rows /= (np.abs(rows) ** r).sum(axis=1, keepdims=True) ** (1 / r)
    radius = scale * np.sqrt(2 * noise.gamma(dim / 2, count))
    return np.asarray(rows * radius[:, None])


def k_norm_std(norm: str, scale: float, dim: int) -> float:
    """The standard deviation of one coordinate of K-norm noise."""
    if norm == "l1":
        return scale * math.sqrt(2)
    return scale * math.sqrt(dim + 1 if norm == "l2" else (dim + 1) * (dim + 2) / 3)
