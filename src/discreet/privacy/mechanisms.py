"""Mechanisms: each adds noise to one private value, given its sensitivity, and says what it cost.

    gaussian              N(0, s^2 I),             s = D / mu,         D in l2
    gaussian_symmetric    the same on a symmetric matrix, kept symmetric, D in Frobenius norm
    laplace               exp(-|z|_1 / s),         s = D / epsilon,    D in l1
    k_norm                exp(-|z| / s),           s = D / epsilon,    D in l1, l2 or linf
    select                argmax(score + Gumbel(s)), s = 2 D / epsilon, D for each score

The sensitivity is for everything one person contributes. A mechanism that is given a `ledger` asks
it before any noise is drawn and books its release last, when the value is ready: a draw that failed
costs nothing. An infinite mu or epsilon means no noise, and the record says so.
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from discreet.arrays import Array, finite, one_of, positive
from discreet.privacy.ledger import Ledger
from discreet.privacy.noise import Noise, source, to_lattice
from discreet.privacy.observation import observe
from discreet.privacy.release import Release

NORMS = ("l1", "l2", "linf")


class Released(NamedTuple):
    """A private value as published, and the record of its cost."""

    value: Any  # as published
    release: Release  # its cost


def gaussian(
    value: ArrayLike,
    *,
    sensitivity: float,
    mu: float,
    noise: Noise | None = None,
    ledger: Ledger | None = None,
    what: str = "vector",
    scope: str | None = None,
) -> Released:
    """`value` + N(0, s^2 I) with s = sensitivity / mu: mu-GDP.

    >>> from discreet.privacy import SeededNoise
    >>> total, release = gaussian([3.0, 4.0], sensitivity=2.0, mu=0.5, noise=SeededNoise(0))
    >>> release.scale, release.mu
    (4.0, 0.5)
    """
    array = finite("value", value)
    noise = source(noise)
    sensitivity = positive("sensitivity", sensitivity)
    mu = positive("mu", mu, allow_inf=True)
    spacing = noise.spacing("gaussian", sensitivity / mu)
    # Rounding two values to the lattice can move each coordinate apart by one spacing more.
    sensitivity += spacing * math.sqrt(array.size)
    release = Release.gaussian(
        sensitivity=sensitivity,
        scale=sensitivity / mu,
        what=what,
        sampler=noise.sampler("gaussian"),
        scope=scope,
    )
    _check(ledger, release)
    if release.scale == 0:
        return _book(ledger, array.copy(), release)
    drawn = noise.gaussian(release.scale, array.shape, spacing)
    return _book(ledger, to_lattice(array, spacing) + drawn, release)


def gaussian_symmetric(
    matrix: ArrayLike,
    *,
    sensitivity: float,
    mu: float,
    noise: Noise | None = None,
    ledger: Ledger | None = None,
    what: str = "symmetric matrix",
    scope: str | None = None,
) -> Released:
    """A symmetric matrix with Gaussian noise of std s on the diagonal, s/sqrt(2) off it.

    The Frobenius norm is the l2 norm of the isometric vector, so `sensitivity` is in Frobenius
    norm: for sums of a a^T with |a| <= b, replacing one term moves it by at most sqrt(2) b^2.

    >>> from discreet.privacy import SeededNoise
    >>> gram, _ = gaussian_symmetric(np.eye(3), sensitivity=1.0, mu=1.0, noise=SeededNoise(0))
    >>> bool((gram == gram.T).all())
    True
    """
    vector = symmetric_to_vector(finite("matrix", matrix))
    value, release = gaussian(
        vector, sensitivity=sensitivity, mu=mu, noise=noise, ledger=ledger, what=what, scope=scope
    )
    return Released(vector_to_symmetric(value), release)


def laplace(
    value: ArrayLike,
    *,
    sensitivity: float,
    epsilon: float,
    noise: Noise | None = None,
    ledger: Ledger | None = None,
    what: str = "vector",
    scope: str | None = None,
) -> Released:
    """`value` + Laplace noise of scale sensitivity / epsilon, sensitivity in l1: epsilon-DP.

    >>> from discreet.privacy import SeededNoise
    >>> count, release = laplace(10.0, sensitivity=1.0, epsilon=0.5, noise=SeededNoise(0))
    >>> release.epsilon
    0.5
    """
    return k_norm(
        value,
        sensitivity=sensitivity,
        epsilon=epsilon,
        norm="l1",
        noise=noise,
        ledger=ledger,
        what=what,
        scope=scope,
    )


def k_norm(
    value: ArrayLike,
    *,
    sensitivity: float,
    epsilon: float,
    norm: str,
    noise: Noise | None = None,
    ledger: Ledger | None = None,
    what: str = "vector",
    scope: str | None = None,
) -> Released:
    """`value` + noise of density exp(-norm(z)/s), s = sensitivity / epsilon: epsilon-DP.

    In l1 this is Laplace noise; in l2 and linf it is far smaller than Laplace noise calibrated
    for the same ball (Hardt and Talwar 2010).

    >>> from discreet.privacy import SeededNoise
    >>> _, release = k_norm([1.0, 0.5], sensitivity=1.0, epsilon=1.0, norm="linf",
    ...                     noise=SeededNoise(0))
    >>> release.mechanism, release.epsilon
    ('k-norm', 1.0)
    """
    array = finite("value", value)
    noise = source(noise)
    sensitivity = positive("sensitivity", sensitivity)
    epsilon = positive("epsilon", epsilon, allow_inf=True)
    mechanism = k_norm_name(norm)
    spacing = noise.spacing(mechanism, sensitivity / epsilon)
    # Only Laplace noise lives on a lattice; in l1 rounding adds one spacing per coordinate.
    sensitivity += spacing * array.size
    release = Release.pure(
        mechanism=mechanism,
        norm=norm,
        sensitivity=sensitivity,
        scale=sensitivity / epsilon,
        what=what,
        sampler=noise.sampler(mechanism),
        scope=scope,
    )
    _check(ledger, release)
    if release.scale == 0:
        return _book(ledger, array.copy(), release)
    drawn = draw_k_norm(norm, release.scale, 1, array.size, noise, spacing).reshape(array.shape)
    return _book(ledger, to_lattice(array, spacing) + drawn, release)


def select(
    scores: ArrayLike,
    *,
    sensitivity: float,
    epsilon: float,
    minimize: bool = False,
    noise: Noise | None = None,
    ledger: Ledger | None = None,
    what: str = "choice",
    scope: str | None = None,
) -> Released:
    """The index of a high score (a low one if `minimize`) by the exponential mechanism.

    Each score may move by `sensitivity`. P(i) is proportional to exp(epsilon score_i / (2 D)),
    drawn as argmax(score + Gumbel(2 D / epsilon)); it is epsilon-DP and epsilon-bounded-range,
    hence costs only rho = epsilon^2 / 8.

    >>> from discreet.privacy import SeededNoise
    >>> select([0.0, 0.0, 90.0], sensitivity=1.0, epsilon=1.0, noise=SeededNoise(0)).value
    2
    """
    array = finite("scores", scores)
    noise = source(noise)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"scores must be a non-empty vector, got shape {array.shape}")
    sensitivity = positive("sensitivity", sensitivity)
    epsilon = positive("epsilon", epsilon, allow_inf=True)
    release = Release.selection(
        sensitivity=sensitivity,
        scale=2 * sensitivity / epsilon,
        what=what,
        sampler=noise.sampler("exponential"),
        scope=scope,
    )
    _check(ledger, release)
    # Gumbel noise is not symmetric: a minimum is the maximum of the negated scores.
    signed = -array if minimize else array
    if release.scale == 0:
        return _book(ledger, int(np.argmax(signed)), release)
    return _book(ledger, noise.select(signed, release.scale), release)


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


def k_norm_std(norm: str, scale: float, dim: int) -> float:
    """The standard deviation of one coordinate of K-norm noise."""
    if norm == "l1":
        return scale * math.sqrt(2)
    return scale * math.sqrt(dim + 1 if norm == "l2" else (dim + 1) * (dim + 2) / 3)


@functools.lru_cache(maxsize=4)
def upper_triangle(dim: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    """Rows and columns of the upper triangle, and 1 on the diagonal, sqrt(2) beside it."""
    rows, columns = np.triu_indices(dim)
    isometry = np.where(rows == columns, 1.0, math.sqrt(2))
    for each in (rows, columns, isometry):
        each.setflags(write=False)
    return rows, columns, isometry


def symmetric_to_vector(matrix: Array) -> Array:  # (..., d, d) -> (..., d (d + 1) / 2)
    """The upper triangle, off-diagonal entries times sqrt(2): an isometry (Frobenius to l2).

    >>> symmetric_to_vector(np.array([[1.0, 2.0], [2.0, 3.0]])).round(3)
    array([1.   , 2.828, 3.   ])
    """
    if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2]:
        raise ValueError(f"expected a square matrix, got shape {matrix.shape}")
    rows, columns, isometry = upper_triangle(matrix.shape[-1])
    both = (matrix[..., rows, columns] + matrix[..., columns, rows]) / 2
    return np.asarray(both * isometry)


def vector_to_symmetric(vector: Array) -> Array:  # (..., d (d + 1) / 2) -> (..., d, d)
    """The inverse of `symmetric_to_vector`."""
    dim = (math.isqrt(8 * vector.shape[-1] + 1) - 1) // 2
    if dim * (dim + 1) // 2 != vector.shape[-1]:
        raise ValueError(f"expected d (d + 1) / 2 entries, got {vector.shape[-1]}")
    rows, columns, isometry = upper_triangle(dim)
    entries = vector / isometry
    matrix = np.empty((*vector.shape[:-1], dim, dim))
    matrix[..., rows, columns] = entries
    matrix[..., columns, rows] = entries
    return matrix


def _check(ledger: Ledger | None, release: Release) -> None:
    if ledger is not None:
        ledger.check(release)


def _book(ledger: Ledger | None, value: Any, release: Release) -> Released:
    if ledger is not None:
        ledger.spend(release)
    observe("release", value, release)
    return Released(value, release)
