"""Estimators: each makes one private release from the rewarded rows of a window.

    information-weighted   Gram matrix, moment and residuals, weighted; O(d^2) state
                           (window.py transforms rows, release.py reads what they release)
    sgd                    one pass of gradient steps; O(d) state, for very many features
                           (descent.py)

An estimator is a recipe: `open` makes a window from what is known, and `close` of that window gives
what is known afterwards. Neither changes anything that exists, so that a turn is all or nothing.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from discreet.arrays import Array, upper_triangle
from discreet.bandits.belief import Belief
from discreet.bandits.holdout import Holdout
from discreet.bandits.learner import RESUMED_TWICE
from discreet.bandits.parts import Model, People
from discreet.bandits.policies import POLICIES, Stage, Uniform
from discreet.bandits.release import learned
from discreet.bandits.tuning import TUNING
from discreet.bandits.window import (
    APART,
    BESIDE,
    COUNT,
    EARNED,
    HELD,
    KEPT,
    TOTALS,
    VALUE,
    Transform,
    bounded,
    sensitivity,
    transform,
)
from discreet.decisions import Policy
from discreet.evaluation.intervals import SPREAD
from discreet.evaluation.worth import Totals
from discreet.least_squares.blocks import SHARED, Blocks
from discreet.links import link as link_named
from discreet.privacy import Budget, Guarantee, Ledger
from discreet.privacy.accumulator import NoisySum
from discreet.privacy.noise import Noise
from discreet.privacy.release import Release
from discreet.state import Stateful

BLOCK = 4096  # rows that are folded together: what is computed from them stays in the cache
UNPROTECTED = (
    "one's own action, to whoever sees it",
    "decision records and probabilities, which hold the person's own features",
    "the horizon, the number of rounds and of actions",
    "arrival times",
    "what `learn` and `learn_many` tell their caller about single rewards",
    "the public bounds",
    RESUMED_TWICE,
)
VISITORS = {  # what a person's many visits add to that
    "first": (
        "who has had a reward counted so far (keyed hashes, with their key), to whoever steals a "
        "state",
        "a person under several ids, as one person",
    ),
    "all": (
        "who has had a reward counted in the open window (keyed hashes, with their key), to "
        "whoever steals a state",
        "a person under several ids, as one person",
    ),
}


class EstimatorWindow(Stateful, ABC):
    """An open window: its sums, and what they will teach.

    Internal: rows in the unit ball, rewards in [-1, 1], both checked before. Callers of a bandit
    see `OpenWindow` alone, through which nothing can be read.
    """

    size: int  # decisions
    noise: Noise  # the learner's

    @property
    def opening(self) -> tuple[Release, ...]:
        """What is booked when the window opens, and covers its release."""
        return ()

    @property
    def released(self) -> bool:
        """Whether its value is out, in a turn that was interrupted: nothing more may enter."""
        return False

    def attach(self, estimator: Any, noise: Noise) -> Self:
        """Work for this learner: when the window opens, and when it is resumed."""
        self.noise = noise
        return self

    @abstractmethod
    def fold(self, rows: Array, rewards: Array, held: Any = None, late: Any = None) -> None:
        """Add rewarded rows (n, d) in the unit ball with rewards (n,) in [-1, 1].

        Where there is a hold-out, `held` (n,) says which of them are of held-out rounds, and `late`
        (n,) which are of decisions of earlier windows.
        """

    def fold_one(self, row: Array, reward: float) -> None:
        """`fold` for one row."""
        self.fold(row[None], np.array([reward]))

    @abstractmethod
    def close(self, belief: Any) -> tuple[Any, Totals | None]:
        """Release: the belief after this window, and what was released about rewards, if anything.

        Asked again it releases the same value.
        """


class Estimator(ABC):
    """How windows are made, and how long they are."""

    budget: Budget
    share: float | None  # of mu^2, about, that each window has; None: all, windows are disjoint
    prior: Any  # Belief or Point
    first: int  # decisions in the first window
    stolen: ClassVar[tuple[str, ...]] = ("a stolen state",)

    @abstractmethod
    def open(
        self, belief: Any, size: int, noise: Noise, share: float | None = None
    ) -> EstimatorWindow:
        """A window of so many decisions, which spends this share of mu^2; None: all of it."""

    def size(self, rounds: int, windows: int) -> int:
        """How many decisions the next window wants: at least the first, then a fraction of all."""
        return max(self.first, math.ceil(self.growth * rounds))

    @property
    def growth(self) -> float:
        """The length of a window, as a fraction of the rounds before it."""
        return TUNING.growth if self.share is None else TUNING.shared_growth

    def planned(self, belief: Any, rounds: int, windows: int) -> int:
        """`size`, if what is known is all that will be known by then."""
        return self.size(rounds, windows)

    def size_after(self, belief: Any, rounds: int, windows: int) -> int:
        """`size`, when so much is known."""
        return self.planned(belief, rounds, windows)

    def mu(self, share: float | None) -> float:
        """What a window with this share of mu^2 spends."""
        return self.budget.mu if share is None else math.sqrt(share) * self.budget.mu

    def policy(self, name: str, stage: Stage) -> Policy:
        """The policy of a window: uniform until something is known."""
        return POLICIES[name](stage) if stage.belief.informed else Uniform()

    def guarantee(self, ledger: Ledger, noise: Noise, visits: str = "") -> Guarantee:
        """The computed promise, from the windows so far."""
        return ledger.guarantee(
            trust="joint",
            unprotected=(*UNPROTECTED, *VISITORS.get(visits, ()), *self.stolen),
            reference="Chen, Li, Rakhlin and Simchi-Levi (2025), Algorithms 6 and 17",
            visits=visits,
        )


def scope(belief: Any, share: float | None) -> str | None:
    """The rows of the window that opens after this belief; None if other windows see the same."""
    return f"window {belief.windows + 1}" if share is None else None


@dataclass(frozen=True)
class InformationWeighted(Estimator):
    """Weighted normal equations around what is known already, in one noisy sum."""

    dim: int  # number of features
    budget: Budget  # of one person
    limits: tuple[float, float]  # of rewards, in units of the largest
    scale: float  # the largest reward
    model: Model  # what is assumed of rewards
    people: People  # what is protected
    holdout: Holdout | None  # its rounds are counted apart
    share: float | None = None  # of mu^2, about, that each window has; None: all
    stolen: ClassVar[tuple[str, ...]] = (
        "which decisions have had their reward, to whoever steals a state",
        "more than one stolen state, or one beside what is published later",
    )

    @property
    def structure(self) -> Blocks | None:
        """Which features may occur together, a constant with all; None if any may with any."""
        if not self._apart:
            return None
        return Blocks((*(self.model.blocks or ()), *[SHARED] * (self.prior.constant > 0)))

    @property
    def _apart(self) -> bool:
        """Whether some features never occur together."""
        return len({*(self.model.blocks or ())} - {SHARED}) > 1

    @property
    def first(self) -> int:  # type: ignore[override]
        """After so many rounds an estimate is about as large as its noise."""
        mu = self.mu(self.share) / self.budget.contributions
        return max(8, math.ceil(TUNING.first * self.dim / (mu * min(self.unit, 1.0))))

    @property
    def typical(self) -> float | None:
        """The stated size of rewards, in units of the largest."""
        stated = self.model.typical_reward
        return None if stated is None else stated / self.scale

    @property
    def unit(self) -> float:
        """About how much features change rewards, in halves of their range; publicly assumed."""
        if self.typical is None:
            return 1.0 if self.model.link == "identity" else TUNING.steep
        low, high = self.limits
        return 2 * self.typical / (high - low)

    def size(self, rounds: int, windows: int) -> int:
        """As always, but no longer than half of the half-life."""
        return self._shortened(super().size(rounds, windows), rounds)

    def planned(self, belief: Belief, rounds: int, windows: int) -> int:
        """Shorter once theta was seen to move."""
        return self._shortened(super().size(rounds, windows), rounds, belief)

    def size_after(self, belief: Belief, rounds: int, windows: int) -> int:
        """Where rewards come late or seldom: as many decisions as make a first window of them."""
        if belief.steady or not belief.answered:
            return self.planned(belief, rounds, windows)
        wanted = self.first / belief.answered
        if belief.informed:
            wanted = max(wanted, self.growth * (rounds - belief.waited))
        return self._shortened(math.ceil(wanted), rounds, belief)

    def policy(self, name: str, stage: Stage) -> Policy:
        """Uniform until something is known; where rewards are few, until it is convincing."""
        belief = stage.belief
        if belief.informed and not belief.steady and not belief.convincing:
            return Uniform()
        if self.model.half_life == "auto":  # windows are short, but no more is explored for that
            usual = max(stage.size, math.ceil(self.growth * stage.rounds))
            stage = replace(stage, size=usual)
        return super().policy(name, stage)

    def _shortened(self, size: int, rounds: int, belief: Belief | None = None) -> int:
        half_life = self.model.half_life
        if half_life is None:
            return size
        if isinstance(half_life, str):
            if belief is not None and belief.moved:
                longest = max(TUNING.moving * self.first, TUNING.still * belief.calm)
            elif rounds < TUNING.begin * self.first:
                return size
            else:
                longest = max(4 * self.first, TUNING.still * rounds)
            return min(size, math.ceil(longest))
        return min(size, max(1, int(half_life / 2)))

    @property
    def prior(self) -> Belief:
        """Before anything was released."""
        low, high = self.limits
        half = (high - low) / 2
        linear = self.model.link == "identity"
        blocks = len({*(self.model.blocks or ())} - {SHARED}) if self._apart else 1
        has_intercept = not linear or low + high != 0
        return Belief.prior(
            self.dim + has_intercept,
            TUNING.noise if has_intercept else TUNING.noise * half**2,
            radius=self.unit * math.sqrt(blocks),  # as much in every block
            may_clip=not self.budget.off and self.unit >= 1,  # else few rewards are as large
            constant=TUNING.constant / math.hypot(1, TUNING.constant) if has_intercept else 0.0,
            intercept_std=self.unit,
        )

    def open(
        self, belief: Belief, size: int, noise: Noise, share: float | None = None
    ) -> "WeightedWindow":
        """A window whose sum holds its noise from now on."""
        dim = len(belief.mean)
        total = NoisySum(
            (dim + 2) * (dim + 3) // 2 + TOTALS + APART * (self.holdout is not None),
            sensitivity=sensitivity(self.holdout, self.people),  # l2, of all its entries
            mu=self.mu(share),
            noise=noise,
            what="weighted Gram matrix, moment and residuals; count and sum of rewards"
            + (", apart where held out, with their spreads" if self.holdout is not None else ""),
            scope=scope(belief, share),
            contributions=self.budget.contributions,
        )
        link = bounded(link_named(self.model.link), self.scale)
        rows = (
            size if belief.steady else min(size, max(self.first, math.ceil(belief.answered * size)))
        )
        view = transform(
            belief, rows, total.release.scale, self.limits, link, self.structure, self.typical
        )
        return WeightedWindow(size, view, total)


class WeightedWindow(EstimatorWindow):
    """The noisy sum of v v', weights, counts and rewards; nothing else remembers a row.

    size        decisions of the window
    transform   from a row to v
    total       the sum
    """

    _state: ClassVar[tuple[str, ...]] = ("size", "transform", "total")

    def __init__(self, size: int, transform: Transform, total: NoisySum) -> None:
        self.size = size
        self.transform = transform
        self.total = total

    @property
    def opening(self) -> tuple[Release, ...]:
        """The sum, whose noise is drawn."""
        return (self.total.release,)

    @property
    def released(self) -> bool:
        """Whether the sum is out."""
        return self.total._published

    def attach(self, estimator: Any, noise: Noise) -> Self:
        """And compute once what every row needs."""
        n = len(self.transform.mean) + 2
        first, second, isometry = upper_triangle(n)
        self._upper = (first, second)
        self._apart = estimator.holdout is not None
        low, high = estimator.limits
        self._zero = min(max(0.0, low), high)
        self._earned = [VALUE]
        if self._apart:  # in units of the range of rewards
            weights = [each / (high - low) for each in (EARNED, HELD)]
            self._earned = [*weights, *(SPREAD / (high - low) * each for each in weights)]
            self._reflected = low + high - 2 * self._zero
        self._factors = np.concatenate([isometry, [COUNT, VALUE, *self._earned]])
        # What one row adds: products of two entries of [v; weight; reward; 1], times factors.
        # One row by itself is not beside a hold-out.
        self._entries, place, self._write = self.transform.one_by_one(self._zero)
        weight, reward, one = range(n, n + BESIDE)
        pairs = np.append((first, second), [[weight, one, reward], [one, one, one]], axis=1)
        self._pairs = pairs + place  # writable: `take` copies indices that are not
        self._terms = np.empty(self._pairs.shape)
        self._one, self._other = self._terms
        self._scale = estimator.scale
        self._half_life = estimator.model.half_life
        self._blocks = estimator.structure
        return super().attach(estimator, noise)

    def fold(self, rows: Array, rewards: Array, held: Any = None, late: Any = None) -> None:
        """Add the statistics of rows."""
        n = len(self.transform.mean) + 2
        gram = np.zeros((n, n))
        weight = 0.0
        kept = np.where(held, KEPT, 1.0) if self._apart else None
        for start in range(0, len(rows), BLOCK):
            end = start + BLOCK
            v, weights = self.transform.rows(rows[start:end], rewards[start:end])
            if kept is None:
                gram += v.T @ v
                weight += float(weights.sum())
            else:
                gram += (v * kept[start:end, None]).T @ v
                weight += float(weights @ kept[start:end])
        earned = rewards - self._zero
        if kept is None:
            sums = [weight, len(rows), float(earned.sum())]
        else:
            counted = np.where(late, 0.0, earned)
            apart = np.where(held, 1.0, 0.0)
            calm = counted * (self._reflected - counted)
            groups = [float(each @ some) for each in (counted, calm) for some in (1 - apart, apart)]
            sums = [weight, float(kept.sum()), *groups]
        term = np.concatenate([gram[self._upper], sums])
        term *= self._factors
        self.total.add(term)

    def fold_one(self, row: Array, reward: float) -> None:
        """`fold` for one row, which is not held out; the learner holds its guard."""
        one = self._one
        self._write(row, reward)
        # mode="clip" for speed only. (BLAS's dspr gains no more than .2 microseconds, and
        # scipy.linalg takes 80 milliseconds to import.)
        self._entries.take(self._pairs, None, self._terms, "clip")
        np.multiply(one, self._other, one)
        np.multiply(one, self._factors, one)
        self.total._add(one)

    def close(self, belief: Belief) -> tuple[Belief, Totals]:
        """The sum as it is: its noise was drawn, and booked, when the window opened."""
        std = self.total.release.scale
        released = self.total.publish()
        after = learned(
            belief,
            self.transform,
            released[: len(self._upper[0]) + TOTALS],
            std,
            self.size,
            self._half_life,
            self._blocks,
        )
        return after, self._totals(released, std)

    def _totals(self, released: Array, noise_std: float) -> Totals:
        """Number of rewards, and what decisions have earned, in the user's units."""
        n = len(self._upper[0])
        count = float(released[n + 1]) / VALUE
        unit = self._scale
        earned = [unit * float(x) / w for x, w in zip(released[n + 2 :], self._earned, strict=True)]
        stds = [noise_std / VALUE, *(unit * noise_std / w for w in self._earned)]
        held_sum, held_std = (earned[1], stds[2]) if self._apart else (0.0, 0.0)
        calm = (unit * earned[2], unit * earned[3]) if self._apart else None
        return Totals(
            rounds=self.size,
            held=0,
            count=count,
            sum=earned[0],
            held_sum=held_sum,
            variances=(stds[0] ** 2, stds[1] ** 2, held_std**2),
            zero=unit * self._zero,
            spreads=calm,
        )
