"""What a device may be asked, and the one function that answers.

Chen, Li, Rakhlin, Simchi-Levi (2025), Algorithms 2 and 3, with residuals instead of labels.

    paper   U           phi_t   r_t, y_t   H_(k)            psi^
    here    whitening   x       y          mean of "gram"   mean of "moment"

With z = whitening x, the residual r = y - <x, theta> and its bound B = clip max(1, |z|):

    gram     z z^T / (|z| max(1, |z|)) min(1, B / |r|)   mean H
    moment   z/|z| clip(r / B, +-1)                      mean H whitening^-1 (theta* - theta) / clip
    within   1{|r| <= clip}, yes or no                   which clip holds how many residuals
    square   min(1, (r / clip)^2)                        their mean square
    joint    (sqrt .3 gram, sqrt .65 moment, sqrt .05 square), one vector: all three at once

`joint` is asked where reports are shuffled: epsilon_0 is large there, and then one vector on the
sphere costs little more noise than each of its parts alone would.

min(1, B / |r|) is the chord of the clipped residual: exact where residuals are errors of theta.
(Its slope 1{|r| <= B}, exact where they are noise, was no better in regression and slightly worse
in bandits.)

Where nothing is known yet the whitening is large, an answer has full length and B covers the error
of theta; where theta is good, B is about the errors' own size. The noise shrinks with it.

A record is brought to public bounds first (`scaled_rows`, `scaled_outcomes`). An exception or a
missing report would tell something about it, so nothing raises for what a number is. Only a wrong
shape does, and shapes are public.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import (
    Array,
    numbers_or_nan,
    one_of,
    symmetric_to_vector,
    vector_to_symmetric,
)
from discreet.privacy import BallChannel, IntervalChannel
from discreet.privacy.channels import BinaryChannel
from discreet.privacy.portable import dot
from discreet.state import value

Channel = BallChannel | IntervalChannel
Shape = tuple[int, ...]

# Numbers of a public state beyond these bounds are refused: within them nothing that a device
# computes from a record can overflow, and no honest server comes near them.
LARGEST = 1e8
SMALLEST_CLIP = 1e-6
NAME = 40  # characters

# Of the squared length of a joint answer: which sum, which kind of answer, how much.
PARTS = (("gram", "gram", 0.3), ("moment", "moment", 0.65), ("scale", "square", 0.05))


def _entries(d: int) -> int:
    return d * (d + 1) // 2


# kind: the shape of an answer in dimension d.
KINDS: dict[str, Callable[[int], Shape]] = {
    "gram": lambda d: (_entries(d),),  # the isometric vector of a symmetric matrix
    "moment": lambda d: (d,),
    "within": lambda d: (),
    "square": lambda d: (),
    "joint": lambda d: (_entries(d) + d + 1,),
}


@value
@dataclass(frozen=True)
class Question:
    """One question of a public state.

    name       what a report refers to; unique within a state
    kind       which function of the record is asked for
    clip       where residuals are clipped, in units of the largest outcome
    fraction   of the people, who answer this question; a coin decides who
    """

    name: str
    kind: str
    clip: float
    fraction: float

    def __post_init__(self) -> None:
        one_of("kind", self.kind, tuple(KINDS))
        if not isinstance(self.name, str) or not 0 < len(self.name) <= NAME:
            raise ValueError(f"the name of a question must have 1 to {NAME} characters")
        object.__setattr__(self, "clip", float(self.clip))
        object.__setattr__(self, "fraction", float(self.fraction))
        if not SMALLEST_CLIP <= self.clip <= LARGEST:  # False for NaN
            raise ValueError(f"clip must lie in [{SMALLEST_CLIP:g}, {LARGEST:g}]")
        if not 0 <= self.fraction <= 1:
            raise ValueError("the fraction of a question must lie in [0, 1]")

    def shape(self, dim: int) -> Shape:
        return KINDS[self.kind](dim)

    def channel(self, dim: int, epsilon: float, contributions: int) -> Channel:
        """What an answer goes through before it leaves the device."""
        if self.kind == "within":
            return BinaryChannel(epsilon, contributions=contributions)
        if self.kind == "square":
            return IntervalChannel(epsilon, low=0.0, high=1.0, contributions=contributions)
        (entries,) = self.shape(dim)
        return BallChannel(entries, epsilon, contributions=contributions)

    @property
    def totals(self) -> dict[str, float]:
        """The sums that an answer enters, and which part of its squared length each has."""
        if self.kind != "joint":
            return {self.name: 1.0}
        return {name: part for name, _, part in PARTS}

    def split(self, reports: Array, dim: int) -> dict[str, Array]:  # (n, *shape) -> (n, ...) each
        """Reports as the values of each sum; those of a Gram matrix as matrices."""
        if self.kind == "gram":
            return {self.name: vector_to_symmetric(reports)}
        if self.kind != "joint":
            return {self.name: reports}
        ends = np.cumsum([_entries(dim), dim])
        scaled = [
            values / math.sqrt(part)
            for values, (_, _, part) in zip(np.split(reports, ends, axis=1), PARTS, strict=True)
        ]
        gram, moment, square = scaled
        return {"gram": vector_to_symmetric(gram), "moment": moment, "scale": square[:, 0]}


def scaled_rows(features: ArrayLike, dim: int, bound: float) -> Array:  # (n, dim) -> (n, dim)
    """Rows in units of `bound`: longer ones are shortened to 1, those not finite become 0."""
    rows = numbers_or_nan(features)
    if rows.ndim != 2 or rows.shape[1] != dim or len(rows) == 0:
        raise ValueError(f"features must have shape (n, {dim}), got {rows.shape}")
    with np.errstate(all="ignore"):
        largest = np.abs(rows).max(axis=1)[:, None]
        usable = np.isfinite(largest) & (largest > 0)
        units = np.where(usable, rows / np.where(usable, largest, 1.0), 0.0)
        norms = np.sqrt(dot(units, units))[:, None]  # 1 to sqrt(dim), or 0
        size = np.minimum(largest / bound, 1 / np.maximum(norms, 1.0))
        return np.where(usable, units * size, 0.0)


def scaled_outcomes(outcomes: ArrayLike, limits: tuple[float, float]) -> Array:  # (n,)
    """Outcomes clipped to `limits`, in units of the larger; those not finite are NaN."""
    values = numbers_or_nan(outcomes)
    low, high = limits
    clipped = np.clip(values, low, high) / max(abs(low), abs(high))
    return np.where(np.isfinite(values), clipped, np.nan)


def answer(
    rows: Array, outcomes: Array, question: Question, theta: Array, whitening: Array
) -> Array:  # (n, d) in the unit ball, (n,) in [-1, 1]
    """Answers before the channel: each has norm at most 1, whatever the record is.

    Total: an answer that is not finite is 0, and nothing raises or warns.
    """
    with np.errstate(all="ignore"):
        values = _answer(rows, outcomes, question, theta, whitening)
        flat = values.reshape(len(values), -1)
        usable = np.isfinite(flat).all(axis=1)
        flat[~usable] = 0.0
    return values


def _answer(
    rows: Array, outcomes: Array, question: Question, theta: Array, whitening: Array
) -> Array:
    if question.kind == "joint":
        # Each part has norm at most 1, and the parts of the squared length add up to 1.
        gram, moment, square = (
            math.sqrt(part)
            * _statistic(rows, outcomes, replace(question, kind=kind), theta, whitening)
            for _, kind, part in PARTS
        )
        return np.column_stack([symmetric_to_vector(gram), moment, square])
    values = _statistic(rows, outcomes, question, theta, whitening)
    return symmetric_to_vector(values) if question.kind == "gram" else values


def _statistic(
    rows: Array, outcomes: Array, question: Question, theta: Array, whitening: Array
) -> Array:
    # The same bits in every language (portable.py): no product of the platform's library.
    X, y = np.clip(rows, -1.0, 1.0), np.clip(outcomes, -1.0, 1.0)  # no change inside the bounds
    residual = y - dot(X, theta)
    if question.kind == "within":
        return np.where(np.isnan(residual), np.nan, np.abs(residual) <= question.clip)
    if question.kind == "square":
        ratio = residual / question.clip
        return np.asarray(np.minimum(ratio * ratio, 1.0))
    z = X[:, :1] * whitening[0]
    for column in range(1, X.shape[1]):
        z = z + X[:, column : column + 1] * whitening[column]
    largest = np.abs(z).max(axis=1)[:, None]
    unit = z / np.where(largest == 0, 1.0, largest)  # squares of tiny numbers would lose digits
    length = np.sqrt(dot(unit, unit))
    unit /= np.where(length == 0, 1.0, length)[:, None]  # 0 at z = 0
    length *= largest[:, 0]
    ratio = residual / (question.clip * np.maximum(length, 1.0))
    if question.kind == "moment":
        return np.asarray(unit * np.clip(ratio, -1.0, 1.0)[:, None])  # |u| <= 1
    # |u u^T|_F = 1, |z| / max(1, |z|) <= 1 and min(1, B / |r|) <= 1.
    weight = np.minimum(length, 1.0) / np.maximum(np.abs(ratio), 1.0)
    return np.asarray(unit[:, :, None] * (unit * weight[:, None])[:, None, :])
