"""From any JSON to feature rows in the unit ball, by a public hash: nothing needs to be declared.

A context and an action are read as sparse features: a number is a feature with that value, a
string or a boolean is a feature of its own with value 1, nested names are joined.

    row(x, a) = sum over pairs (f of x, g of a) of  f g sign(h) e[h mod dim],  to unit length

with h a public 64-bit hash of the pair, and a constant among the features of both: so the action's
own features stand alone too. A context alone would tell no action from another. Collisions blur;
more columns blur less and cost more privacy, because the noise of a private learner grows with the
dimension.

Weinberger et al. (2009), "Feature hashing for large scale multitask learning".
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array, integer, positive

Words = NDArray[np.uint64]

_CONSTANT = "\x00constant"
_DEEPEST = 16  # levels of nesting
_MOST = 1000  # features of one context or action


class HashedFeatures:
    """Rows for any context and any actions, never longer than 1.

    dim           number of columns
    number_bound  numbers count as value / number_bound, cut at 1: a public bound

    Guarantee  l2 norm at most 1 for every input; a row depends on its own context and action only.

    >>> phi = HashedFeatures(32)
    >>> rows = phi({"age": 40, "plan": "gold"}, [{"channel": "mail"}, {"channel": "phone"}])
    >>> rows.shape
    (2, 32)
    >>> np.linalg.norm(rows, axis=1).round(6)
    array([1., 1.])
    """

    def __init__(self, dim: int, *, number_bound: float = 1.0) -> None:
        self.dim = integer("dim", dim, least=2)
        self.number_bound = positive("number_bound", number_bound)

    def __repr__(self) -> str:
        return f"HashedFeatures({self.dim}, number_bound={self.number_bound:g})"

    def __call__(self, context: Any, actions: Sequence[Any]) -> Array:  # (actions, dim)
        """One row for each action: an action is its features, or a string that names it."""
        if not actions:
            raise ValueError("no action is available: pass at least one")
        words, values = self._read(context)
        own = [self._read(action) for action in actions]
        sizes = [len(each) for each, _ in own]
        own_words = np.concatenate([each for each, _ in own])
        own_values = np.concatenate([each for _, each in own])
        # The constant of the context, first of its words, stands for the action's features alone.
        hashes = _mixed(words[:, None], own_words[None, :])
        signs = 1.0 - 2.0 * (hashes >> np.uint64(63)).astype(np.float64)
        places = (hashes % np.uint64(self.dim)).astype(np.intp)
        places += np.repeat(np.arange(len(actions)) * self.dim, sizes)
        products = signs * values[:, None] * own_values
        flat = np.bincount(
            places.ravel(), weights=products.ravel(), minlength=len(actions) * self.dim
        )
        rows = flat.reshape(len(actions), self.dim)
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        return np.asarray(rows / np.where(lengths > 0, lengths, 1.0)[:, None])

    def _read(self, item: Any) -> tuple[Words, Array]:
        """Hashes and values of the features of a JSON value, a constant first."""
        found: dict[str, float] = {_CONSTANT: 1.0}
        self._collect(item, "", found, 0)
        words = np.array([_word(name) for name in found], dtype=np.uint64)
        return words, np.array(list(found.values()))

    def _collect(self, item: Any, name: str, found: dict[str, float], depth: int) -> None:
        if depth > _DEEPEST or len(found) > _MOST:
            raise ValueError(
                f"features must have at most {_MOST} entries and {_DEEPEST} levels of nesting"
            )
        if isinstance(item, Mapping):
            for key, each in item.items():
                self._collect(each, f"{name}\x1f{key}", found, depth + 1)
        elif isinstance(item, str | bool):
            found[f"{name}\x1e{item}"] = 1.0
        elif isinstance(item, int | float):
            try:
                number = float(item) / self.number_bound
            except OverflowError:
                number = math.inf if item > 0 else -math.inf
            if number != number:
                raise ValueError("features must not be NaN: leave out what is missing")
            found[name] = min(max(number, -1.0), 1.0)
        elif isinstance(item, Sequence):
            for at, each in enumerate(item):
                # Objects in a list are merged (namespaces); numbers keep their place.
                place = f"{name}\x1d{at}" if isinstance(each, int | float) else name
                self._collect(each, place, found, depth + 1)
        elif item is not None:
            raise ValueError("features must be JSON: objects, lists, strings, numbers, booleans")


def _word(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")


def _mixed(a: Words, b: Words) -> Words:
    """A hash of two hashes: splitmix64 of a combination in which order counts."""
    with np.errstate(over="ignore"):
        z = a * np.uint64(0x9E3779B97F4A7C15) + b
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
