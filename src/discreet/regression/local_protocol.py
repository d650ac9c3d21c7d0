"""Locally private regression as a protocol: what a device sends, and what a server may do with it.

Chen, Li, Rakhlin, Simchi-Levi (2025), Algorithms 2 and 3, with residuals instead of labels.

    paper   U       Phi_t, V_t   psi_t      H_(k)  psi^     theta_(k)
    here    frame   gram         moment     tally of gram, moment   theta

A fit is a sequence of rounds. In each, the server publishes questions (`PublicState`), every
person answers one of them, once (`report`), and the server adds the answers up (`Server`). It keeps
sums only and has no way to take a record: `Server.aggregate` accepts a `Report`.

With z = frame phi, residual r = y - <phi, theta> and reach R(phi) = clip max(1, |z|), people report

    gram     z z^T / (|z| max(1, |z|)) 1{|r| <= R}      mean H
    moment   z/|z| clip(r / R, +-1)                     mean H frame^-1 (theta* - theta) / clip
    scale    1{|r| <= clip}, for several clips          gives the next clip

so that moment = H w / clip for w = frame^-1 (theta* - theta), and w has a posterior. Where nothing
is known yet the frame is large, the report has full length and R covers the error of theta; where
theta is good, R is about the errors' own size. The noise shrinks with it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from discreet.privacy import BallChannel, IntervalChannel, Noise, SymmetricChannel
from discreet.privacy.checks import Array, finite, one_of, positive, row_norms

QUESTIONS = ("gram", "moment", "scale")


@dataclass(frozen=True)
class PublicState:
    """All that a device needs to know to answer: a question, and what was published so far.

    >>> state = PublicState.start("moment", dim=2, epsilon=1.0)
    >>> from discreet.privacy import SeededNoise
    >>> report([[0.6, 0.8]], [0.5], state, SeededNoise(0)).values.shape
    (1, 2)
    """

    question: str
    theta: Array  # (d,)
    frame: Array  # (d, d), symmetric
    clip: float
    epsilon: float
    contributions: int = 1
    round: int = 0
    number: int = 0  # of the question within the round

    def __post_init__(self) -> None:
        one_of("question", self.question, QUESTIONS)
        positive("clip", self.clip)

    @classmethod
    def start(
        cls, question: str, *, dim: int, epsilon: float, contributions: int = 1
    ) -> "PublicState":
        """What is public before anyone has reported: nothing but bounds."""
        return cls(question, np.zeros(dim), np.eye(dim), 1.0, epsilon, contributions)

    @property
    def channel(self) -> BallChannel | IntervalChannel | SymmetricChannel:
        """What the answer goes through before it leaves the device."""
        k = self.contributions
        if self.question == "gram":
            return SymmetricChannel(len(self.theta), self.epsilon, contributions=k)
        if self.question == "scale":
            return IntervalChannel(self.epsilon, low=0.0, high=1.0, contributions=k)
        return BallChannel(len(self.theta), self.epsilon, contributions=k)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one answer."""
        d = len(self.theta)
        shapes: dict[str, tuple[int, ...]] = {"gram": (d, d), "moment": (d,), "scale": ()}
        return shapes[self.question]


@dataclass(frozen=True)
class Report:
    """Answers that have left their devices, already private: (n, d, d), (n, d) or (n,)."""

    round: int
    number: int
    values: Array


def answer(X: Array, y: Array, state: PublicState) -> Array:
    """The answers before the channel: every one has norm at most 1, whatever X and y are."""
    X, y = np.clip(X, -1.0, 1.0), np.clip(y, -1.0, 1.0)  # nothing inside the bounds is changed
    residual = y - X @ state.theta
    if state.question == "scale":
        return (np.abs(residual) <= state.clip).astype(np.float64)
    z = X @ state.frame
    length = row_norms(z, "l2")
    unit = z / np.where(length == 0, 1.0, length)[:, None]  # 0 at phi = 0
    longer = np.maximum(length, 1.0)
    reach = state.clip * longer
    if state.question == "gram":
        # |u u^T|_F = 1, |z| / max(1, |z|) <= 1, and an indicator.
        weight = length / longer * (np.abs(residual) <= reach)
        return np.asarray(unit[:, :, None] * (unit * weight[:, None])[:, None, :])
    return np.asarray(unit * np.clip(residual / reach, -1.0, 1.0)[:, None])  # |u| <= 1


def report(
    X: ArrayLike, y: ArrayLike, state: PublicState, noise: Noise | None = None
) -> Report:  # (n, d), (n,) -> one answer for each person
    """What a device sends (n = 1), or n devices: epsilon-DP before anyone sees it."""
    rows, labels = finite("X", X), finite("y", y)
    if rows.ndim != 2 or rows.shape[1] != len(state.theta) or labels.shape != rows.shape[:1]:
        raise ValueError(
            f"expected X of shape (n, {len(state.theta)}) and y of shape (n,), "
            f"got {rows.shape} and {labels.shape}"
        )
    # clip=True shortens what rounding made longer than 1; nothing else is.
    values = state.channel.privatize(answer(rows, labels, state), noise, clip=True)
    return Report(state.round, state.number, values)


def pieces(n: int, width: int) -> list[slice]:
    """n people in pieces whose answers of this width fit the memory."""
    size = max(1, 2**20 // width)
    return [slice(i, i + size) for i in range(0, n, size)]
