"""What callers bring to a contextual bandit, checked once: features of actions, and rewards."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.arrays import Array, finite, integer, numbers, public_bound, real_or_nan, within
from discreet.bandits.holdout import Holdout
from discreet.decisions import Indices


class Edge:
    """Offered features become rows in units of the norm bound.

    dim          number of features of a row
    norm_bound   length of the longest row; longer ones are shortened to it
    """

    holdout: Holdout | None = None  # which rounds play a baseline

    def __init__(self, dim: int, norm_bound: float) -> None:
        self.dim = integer("dim", dim)
        self.norm_bound = public_bound("norm_bound", norm_bound)
        self._row_shape = (self.dim,)
        self._ones = np.ones(self.dim)
        self._usual: tuple[int, ...] | None = None  # shape of features that was found right
        self._longest = self.norm_bound**2 * (1 + 1e-14)  # |row|^2, up to the norm's own rounding

    def _offered(self, features: Array) -> Array:  # (actions, dim)
        """One person's features in units of the norm bound; longer rows are shortened to it."""
        if features.shape != self._usual:
            self._check_shape(features, 2)
            self._usual = features.shape  # most often that of the next person too
        squares = np.multiply(features, features).dot(self._ones)
        # argmax finds NaN first; as a scalar it is three times as fast as max.
        if not squares.item(squares.argmax()) <= self._longest:
            features = within("features", features, self.norm_bound, norm="l2", clip=True)
        return features if self.norm_bound == 1 else features / self.norm_bound

    def _people(self, features: Sequence[ArrayLike] | Array) -> Sequence[ArrayLike] | Array:
        """What n people are offered: an array (n, actions, dim), or what each has brought."""
        features = real_or_nan(features)
        if not isinstance(features, np.ndarray) or features.dtype.kind not in "biuf":
            return list(features)
        array = np.ascontiguousarray(numbers("features", features))
        self._check_shape(array, 3)
        return array

    def _offered_to(
        self, people: Sequence[ArrayLike] | Array
    ) -> tuple[Sequence[Array] | Array, NDArray[np.bool_]]:
        """`_offered` for some of them, and whose features can be used: others get zeros."""
        if not isinstance(people, np.ndarray):
            found = [self._usable(each) for each in people]
            usable = np.array([each is not None for each in found], dtype=bool)
            nothing = np.zeros((1, self.dim))
            return [nothing if each is None else each for each in found], usable
        usable = np.ones(len(people), dtype=bool)
        squares = np.einsum("ijk,ijk->ij", people, people).ravel()
        if not squares.item(squares.argmax()) <= self._longest:  # also with NaN or infinity
            usable = np.asarray(np.isfinite(people).all(axis=(1, 2)))
            people = np.where(usable[:, None, None], people, 0.0)
            people = within("features", people, self.norm_bound, norm="l2", clip=True)
        return people if self.norm_bound == 1 else people / self.norm_bound, usable

    def _usable(self, features: ArrayLike) -> Array | None:
        try:
            return self._offered(np.ascontiguousarray(finite("features", features)))
        except ValueError:
            return None

    def _check_shape(self, features: Array, ndim: int) -> None:
        shape = features.shape
        least = 1 if self.holdout is None else self.holdout.actions  # the baseline is one of them
        if len(shape) == ndim and shape[-1] == self.dim and shape[-2] >= least:
            return
        expected = ("n", "actions", str(self.dim))[-ndim:]
        raise ValueError(
            f"features must have shape ({', '.join(expected)}) with at least {least} "
            f"action{'s' * (least > 1)}, got {shape}"
        )


def chosen_rows(offered: Sequence[Array] | Array, actions: Indices) -> Array:  # (n, dim)
    """Of each person's rows, the one that was chosen."""
    if not isinstance(offered, np.ndarray):
        return np.array([each[a] for each, a in zip(offered, actions, strict=True)])
    n, size, dim = offered.shape
    return np.asarray(offered.reshape(n * size, dim).take(actions + size * np.arange(n), axis=0))
