"""Mechanisms that are deaf: each runs on a stand-in for the private value that it was given.

The stand-ins are zeros, or what the mechanisms were given in a run on a third data set, so that
releases look real. What comes out of a deaf mechanism says nothing about the people at hand: two
data sets must give the same decisions, parameters and state, and whatever differs did not come
through a release. The values that were meant to enter are written down (`Transcript`), so that two
runs can be compared: `Transcript.spent` says which fraction of the budget one replaced person uses.

Everything that adds noise to data is in `deaf`; a new mechanism belongs there.
"""

import functools
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from discreet.online.feedback import Batch, Batches
from discreet.optimization.directions import VertexDirection
from discreet.optimization.sparse_windows import WindowArms
from discreet.privacy import BallChannel, IntervalChannel, PrefixSum
from discreet.privacy.accumulator import NoisySum, RunningSum
from discreet.privacy.channels import BinaryChannel
from discreet.privacy.mechanisms import Mechanisms
from discreet.privacy.release import _inside


@contextmanager
def replaced(owner: Any, name: str, new: Callable[[Any], Any]) -> Iterator[None]:
    """`owner.name` becomes new(what it was), wherever the library has imported it."""
    kept = getattr(owner, name)
    made = functools.wraps(kept)(new(kept))
    places = [(owner, name)]
    if isinstance(owner, type(sys)):
        modules = [m for key, m in list(sys.modules.items()) if key.startswith("discreet")]
        places = [(m, alias) for m in modules for alias, v in vars(m).items() if v is kept]
    for place, alias in places:
        setattr(place, alias, made)
    try:
        yield
    finally:
        for place, alias in places:
            setattr(place, alias, kept)


@dataclass
class Given:
    """What one release, or one row of a running sum, was given; `unit` is what it may cost."""

    kind: str  # gaussian, pure, selection, row or report
    value: Any
    scale: float = 1.0
    norm: Any = "l2"
    round: Any = None  # the round that was being learned, None outside `learn`
    release: Any = None  # the record of its cost

    def reached(self, other: "Given") -> float:
        """How much of the booked sensitivity the change from this value to the other is."""
        move = (self.value - other.value).ravel()
        if self.kind == "report":  # of any two records
            return float(np.any(move != 0))
        if self.kind == "selection":
            return float(move.max() - move.min()) / 2 / self.release.sensitivity
        # Of a running sum what is booked is for all sums; its scale is the sensitivity of a row.
        booked = self.scale if self.kind == "row" else self.release.sensitivity
        return _size(move, self.norm) / booked


@dataclass
class Transcript:
    """What all mechanisms were given, in order; sums are one entry each, under their own name."""

    given: list[Given] = field(default_factory=list)
    sums: dict[int, Given] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)  # so that no id is used twice
    round: Any = None  # set by whoever drives the learner
    told: list[Any] = field(default_factory=list)  # every private value, in order
    script: list[Any] | None = None  # what takes their places; zeros if there is none
    hears: bool = False  # mechanisms that are not deaf

    def restart(self) -> None:
        """Forget everything but the script: a new run begins."""
        self.given, self.sums, self.kept, self.told, self.round = [], {}, [], [], None

    def stand_in(self, value: Any) -> Any:
        """What a mechanism gets in place of a private value."""
        place = len(self.told)
        self.told.append(np.array(value, dtype=float))
        if self.hears:
            return value
        if self.script is not None and place < len(self.script):
            found = self.script[place]
            if found.shape == np.shape(value):
                return found.copy() if found.ndim else float(found)
        return np.zeros(np.shape(value)) if np.ndim(value) else 0.0

    def ended(self) -> "Transcript":
        """What was heard so far; then a new run begins."""
        run = Transcript(self.given, self.sums, self.kept)
        self.restart()
        return run

    def note(
        self, kind: str, value: Any, scale: float = 1.0, norm: Any = "l2", release: Any = None
    ) -> None:
        """One release, or one row."""
        made = Given(kind, np.array(value, dtype=float), scale, norm, self.round, release)
        self.given.append(made)

    def add(self, owner: Any, kind: str, term: Any, release: Any, norm: Any = "l2") -> None:
        """One term of a sum that is released as a whole."""
        self.note("term", term)
        if id(owner) not in self.sums:
            self.kept.append(owner)
            zeros = np.zeros(np.shape(term))
            self.sums[id(owner)] = Given(kind, zeros, release.scale, norm, release=release)
            self.given.append(self.sums[id(owner)])
        self.sums[id(owner)].value += term

    def terms(self) -> dict[Any, int]:
        """In how many sums, rows and reports each round is."""
        count: dict[Any, int] = {}
        for each in self.given:
            if each.round is not None and each.kind in ("term", "row", "report"):
                more = len(each.value) if each.kind == "report" and each.value.ndim else 1
                count[each.round] = count.get(each.round, 0) + more
        return count

    def releases(self) -> int:
        """How many one-shot releases were made outside `learn`."""
        once = ("gaussian", "pure", "selection")
        own = {id(each) for each in self.sums.values()}
        return sum(
            each.kind in once and each.round is None and id(each) not in own for each in self.given
        )

    def spent(self, other: "Transcript", promise: Any) -> float:
        """The fraction of a promise that the change from this run to the other costs.

        Both ran on the same releases. Gaussian: sum |a - b|^2/s^2 over mu^2 (2 rho in zCDP);
        selections: their bounded range, epsilon^2/8; pure noise and reports: sums of epsilon.
        """
        if len(self.given) != len(other.given):
            return math.inf
        k = promise.contributions
        square, linear = 0.0, 0.0
        for mine, theirs in zip(self.given, other.given, strict=True):
            if mine.value.shape != theirs.value.shape or mine.scale != theirs.scale:
                return math.inf
            move = mine.value - theirs.value
            if mine.kind == "term" or not move.any():
                continue
            if mine.kind == "gaussian":
                square += float((move**2).sum()) / mine.scale**2
            elif mine.kind == "selection":
                square += ((float(move.max()) - float(move.min())) / mine.scale) ** 2 / 4
            elif mine.kind == "pure":
                linear += _size(move, mine.norm) / mine.scale / promise.epsilon
            elif mine.kind == "row":  # of a running sum, whose scale is its sensitivity
                linear += _size(move, mine.norm) / mine.scale / k
            else:  # as many reports as people
                rows = move.reshape(-1, *move.shape[1:]) if move.ndim else move.reshape(1)
                linear += float(np.any(rows.reshape(len(rows), -1) != 0, axis=1).sum()) / k
        return linear + (square / _square_budget(promise) if square else 0.0)


def _size(move: Any, norm: Any) -> float:
    return float(np.linalg.norm(move.ravel(), float(norm.removeprefix("l"))))


def _square_budget(promise: Any) -> float:
    from discreet.privacy.gaussian import gaussian_mu, zcdp_rho

    if promise.delta == 0:
        return promise.epsilon**2 / 4  # one selection that spends all
    zcdp = any(r.mechanism == "exponential" for r in promise.releases)
    if zcdp:
        return 2 * zcdp_rho(promise.epsilon, promise.delta)
    return gaussian_mu(promise.epsilon, promise.delta) ** 2


@contextmanager
def deaf() -> Iterator[Transcript]:
    """The library with mechanisms that hear nothing, and a record of what they were told."""
    heard = Transcript()
    with ExitStack() as stack:

        def change(owner: Any, name: str, new: Callable[[Any], Any]) -> None:
            stack.enter_context(replaced(owner, name, new))

        def additive(kept: Any) -> Any:
            def release(self: Any, value: Any, **about: Any) -> Any:
                if _inside.get():  # a part of the value of a later release
                    return kept(self, value, **about)
                out = kept(self, heard.stand_in(value), **about)
                kind = "gaussian" if out.release.mechanism == "gaussian" else "pure"
                heard.note(kind, value, out.release.scale, out.release.norm, out.release)
                return out

            return release

        def selecting(kept: Any) -> Any:
            def release(self: Any, scores: Any, **about: Any) -> Any:
                out = kept(self, heard.stand_in(scores), **about)
                heard.note("selection", scores, out.release.scale, release=out.release)
                return out

            return release

        change(Mechanisms, "gaussian", additive)
        change(Mechanisms, "k_norm", additive)
        change(Mechanisms, "select", selecting)

        def noisy_sum(kept: Any) -> Any:
            def plus(self: Any, term: Any) -> Any:
                heard.add(self, "gaussian", term, self.release)
                return kept(self, heard.stand_in(term))

            return plus

        change(NoisySum, "_plus", noisy_sum)

        def running(kept: Any) -> Any:
            return lambda self, x: kept(self, heard.stand_in(x))

        change(RunningSum, "add", running)
        change(RunningSum, "add_many", running)

        def told(kept: Any) -> Any:
            def add(self: Any, x: Any) -> Any:
                out = kept(self, x)
                (made,) = self.guarantee.releases
                for row in np.reshape(np.asarray(x, dtype=float), (-1, self.dim)):
                    heard.note("row", row, self.sensitivity, self.norm, made)
                return out

            return add

        change(PrefixSum, "add", told)
        change(PrefixSum, "add_many", told)

        made: list[Any] = [None]  # the release of the batch that a loss is about to enter
        batches: dict[int, list[int]] = {}  # one owner for each

        def accepting(kept: Any) -> Any:
            def accept(self: Any, *about: Any) -> bool:
                made[0] = self.release
                return bool(kept(self, *about))

            return accept

        def batch(kept: Any) -> Any:
            def plus(self: Any, term: float) -> Any:
                owner = batches.setdefault(self.index, [self.index])
                heard.add(owner, "pure", term, made[0], "l1")
                return kept(self, heard.stand_in(term))

            return plus

        change(Batches, "accept", accepting)
        change(Batch, "plus", batch)

        def peel(kept: Any) -> Any:
            def chosen(self: Any, scores: Any, k: int, scale: float) -> Any:
                out = kept(self, heard.stand_in(scores), k, scale)
                # Each of k choices, whichever are left, costs at most the range of all scores.
                booked = 2 * self.bound * self.budget.contributions
                release = SimpleNamespace(what="entries of each arm", sensitivity=booked)
                heard.note("selection", scores, scale / math.sqrt(k), release=release)
                return out

            return chosen

        change(WindowArms, "_peel", peel)

        def vertex(kept: Any) -> Any:
            def chosen(self: Any, total: Any, t: int) -> Any:
                out = kept(self, heard.stand_in(total), t)
                both = np.concatenate([total, -total]) if self.signed else -total
                heard.note("selection", both, self.scale(t), release=self._release)
                return out

            return chosen

        change(VertexDirection, "_choose", vertex)

        def channel(kept: Any) -> Any:
            def privatize(self: Any, V: Any, *rest: Any, **more: Any) -> Any:
                rows = np.asarray(V, dtype=float)
                centre = _middle(self)
                out = kept(self, centre + heard.stand_in(rows - centre), *rest, **more)
                lone = rows.ndim == (1 if isinstance(self, BallChannel) else 0)
                heard.note("report", rows[None] if lone else rows)
                return out

            return privatize

        change(BallChannel, "send", channel)  # what `privatize` and devices send
        change(IntervalChannel, "privatize", channel)
        change(BinaryChannel, "report", channel)  # in numbers of its own
        yield heard


def _middle(channel: Any) -> float:
    """A public value that every channel takes."""
    return 0.0 if isinstance(channel, BallChannel) else (channel.low + channel.high) / 2
