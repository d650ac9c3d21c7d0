"""Estimators: each makes one private release from the rewarded rows of a window.

    information-weighted   Gram matrix, moment and residuals, weighted; O(d^2) state
                           (window.py looks at rows, learning.py reads the release)
    sgd                    one pass of gradient steps; O(d) state, for very many features

`open` begins a window, `add` folds rows into its sums, `close` releases; `belief` is what is known.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import Any

import numpy as np

from discreet.bandits.belief import Belief, Point
from discreet.bandits.learning import learned
from discreet.bandits.window import COUNT, SENSITIVITY, row_transform
from discreet.links import Link
from discreet.privacy import Budget, Guarantee, Ledger, Noise, SeededNoise
from discreet.privacy.accumulator import NoisySum
from discreet.privacy.checks import Array
from discreet.privacy.mechanisms import gaussian

FIRST = 4.0  # times d/mu: after that many rounds an estimate is as large as its noise
GROWTH = 0.5  # a window is this share of the rounds before it, or the first window's length
NOISE = 0.1  # of the largest variance that rewards can have, before anything is known
# In every row beside phi, as a multiple of |phi|, where 0 is not the middle of the rewards; .2 to .4
# are alike on randhie, half and tenth, from .5 on the noise of phi grows.
CONSTANT = 0.3
STEEP = 3.0  # largest |theta| for other links than the identity
REACH = 2.0  # of residuals inside a gradient: no residual is larger
UNPROTECTED = (
    "one's own action, to whoever sees it",
    "decision records and probabilities, which hold the person's own features",
    "the horizon, the number of rounds and of actions",
    "arrival times",
    "what `learn` and `learn_many` tell their caller about single rewards",
    "the public bounds",
    "a saved state that goes on twice: a copy, or one older than what was shown",
)


class Estimator(ABC):
    """What is known, and how a window's rows add to it."""

    belief: Belief | Point

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The computed promise."""

    @abstractmethod
    def size(self, rounds: int) -> int:
        """How many decisions the window after so many rounds wants."""

    @abstractmethod
    def open(self, size: int) -> None:
        """Begin a window of so many decisions."""

    @abstractmethod
    def add(self, rows: Array, rewards: Array) -> None:
        """Take rewarded rows (n, d) in the unit ball and rewards (n,) in [-1, 1]."""

    def add_one(self, row: Array, reward: float) -> None:
        """`add` for one row."""
        self.add(row[None], np.array([reward]))

    @abstractmethod
    def close(self) -> None:
        """End the window: release, and update the belief."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Arrays and plain scalars; a generator's position for SeededNoise only."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state()`."""


class Central(Estimator):
    """One release per window by a trusted server, booked in the ledger before noise is drawn."""

    first: int  # decisions in the first window

    def __init__(self, budget: Budget, noise: Noise) -> None:
        self._ledger, self._noise = Ledger(budget, "gaussian"), noise
        self._mu, self._contributions = budget.mu, budget.contributions
        self._size = 0  # of the open window, in decisions

    @property
    def guarantee(self) -> Guarantee:
        """The computed promise, from the windows opened so far."""
        return self._ledger.guarantee(
            trust="joint",
            unprotected=(*UNPROTECTED, *self._stolen),
            reference="Chen, Li, Rakhlin and Simchi-Levi (2025), Algorithms 6 and 17",
        )

    _stolen: tuple[str, ...] = ("a stolen state",)

    def size(self, rounds: int) -> int:
        """As long as the first window, then a share of all rounds."""
        return max(self.first, math.ceil(GROWTH * rounds))

    @property
    def _scope(self) -> str:
        return f"window {self.belief.windows + 1}"

    @abstractmethod
    def _sums(self) -> dict[str, Any]:
        """What the open window has summed up."""

    @abstractmethod
    def _resume(self, sums: dict[str, Any]) -> None:
        """Go on with the open window."""

    def state(self) -> dict[str, Any]:
        """Ledger, belief, and the open window's sums."""
        parts = {"ledger": self._ledger.state_dict(), "belief": asdict(self.belief)}
        if self._size:
            parts["sums"] = self._sums()
        flat = {
            f"{part}.{k}": value for part, values in parts.items() for k, value in values.items()
        }
        return {"size": self._size, "noise": self._noise.state(), **flat}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state()`."""
        ledger = Ledger(self._ledger.budget, "gaussian")
        ledger.load_state_dict(section(state, "ledger"))
        self._ledger, self._size = ledger, int(state["size"])
        self.belief = type(self.belief)(**section(state, "belief"))
        if isinstance(self._noise, SeededNoise):
            self._noise = SeededNoise.restored(state["noise"])
        if self._size:
            self._resume(section(state, "sums"))


def section(state: dict[str, Any], part: str) -> dict[str, Any]:
    """The entries of a state whose names begin with `part.`, without that."""
    start = len(part) + 1
    return {k[start:]: value for k, value in state.items() if k.startswith(f"{part}.")}


class InformationWeighted(Central):
    """Weighted normal equations around what is known already, in one noisy sum."""

    belief: Belief
    _stolen = (
        "which decisions have had their reward, to whoever steals a state",
        "more than one stolen state, or one beside what is published later",
    )

    def __init__(
        self,
        dim: int,
        budget: Budget,
        noise: Noise,
        *,
        limits: tuple[float, float],
        link: Link,
        scale: float,
    ) -> None:
        super().__init__(budget, noise)
        self._limits, self._link, self._scale = limits, link, scale
        self.first = max(8, math.ceil(FIRST * dim * self._contributions / self._mu))
        radius = 1.0 if link.name == "identity" else STEEP
        low, high = limits
        has_intercept = link.name == "identity" and low + high != 0
        constant = CONSTANT / math.hypot(1, CONSTANT) if has_intercept else 0.0
        variance = NOISE if has_intercept else NOISE * ((high - low) / 2) ** 2
        dim += has_intercept
        self.belief = Belief.prior(
            dim, variance, radius=radius, never_clip=budget.off, constant=constant
        )
        self._upper = np.triu_indices(dim + 2)
        self._isometry = np.where(self._upper[0] == self._upper[1], 1.0, math.sqrt(2))
        self._term = np.empty(len(self._isometry) + 1)
        self._products = self._term[:-1]

    def open(self, size: int) -> None:
        """Begin a window: its sum holds its noise from now on."""
        self._size = size
        # A row adds v v' with |v|^2 <= 2 and COUNT times its weight, in this window or another:
        # replaced or moved, it changes all sums by at most SENSITIVITY (window.py), k rows by k.
        self._sum = NoisySum(
            len(self._isometry) + 1,
            sensitivity=self._contributions * SENSITIVITY,
            mu=self._mu,
            noise=self._noise,
            ledger=self._ledger,
            what="weighted Gram matrix, moment and residuals",
            scope=self._scope,
        )
        self._prepare()

    def _prepare(self) -> None:
        noise_std = self._sum.release.scale
        self._transform = row_transform(
            self.belief, self._size, noise_std, self._limits, self._link, self._scale
        )

    def add(self, rows: Array, rewards: Array) -> None:
        """Fold rows into the sum; nothing else remembers them."""
        v, weights = self._transform(rows, rewards)
        self._fold((v.T @ v)[self._upper], float(weights.sum()))

    def add_one(self, row: Array, reward: float) -> None:
        """`add` for one row."""
        first, second = self._upper
        v, weight = self._transform(row, reward)
        self._fold(v.take(first) * v.take(second), float(weight))

    def _fold(self, products: Array, count: float) -> None:
        np.multiply(products, self._isometry, out=self._products)
        self._term[-1] = COUNT * count
        self._sum.add(self._term)

    def close(self) -> None:
        """Release the sum; what follows is post-processing."""
        noise_std = self._sum.release.scale
        self.belief = learned(self.belief, self._transform, self._sum.value, noise_std, self._size)
        self._size = 0

    def _sums(self) -> dict[str, Any]:
        return self._sum.state()

    def _resume(self, sums: dict[str, Any]) -> None:
        self._sum = NoisySum.restored(sums)
        self._prepare()


class Descent(Central):
    """One pass of projected gradient steps, averaged (Algorithm 16): the dimension does not matter.

    Noise of deviation s in every coordinate moves <phi, theta> by s |phi|, however many there are.
    """

    belief: Point

    def __init__(
        self, dim: int, budget: Budget, noise: Noise, *, limits: tuple[float, float]
    ) -> None:
        super().__init__(budget, noise)
        self._limits = limits
        self.first = max(64, math.ceil(16 * self._contributions / self._mu))
        self.belief = Point(np.zeros(dim), 1.0)

    def open(self, size: int) -> None:
        """Begin at what is known."""
        self._size, self._taken = size, 0
        self._theta, self._total = self.belief.mean.copy(), np.zeros(len(self.belief.mean))
        norm = float(np.linalg.norm(self._theta))
        self._theta /= max(norm, 1.0)

    @property
    def _step(self) -> float:
        """Bias 1/sqrt(step n) against noise step/mu, and no more than the gradients' own noise."""
        n, mu = self._size, self._mu / self._contributions
        return float(min(1 / math.sqrt(n), (mu / (2 * REACH * math.sqrt(n))) ** (2 / 3), 1.0))

    def add(self, rows: Array, rewards: Array) -> None:
        """A step for each row, up to the length of the window."""
        step, (low, high) = self._step, self._limits
        theta = self._theta
        room = self._size - self._taken
        for phi, y in zip(rows[:room], rewards[:room], strict=True):
            expected = min(max(float(phi @ theta), low), high)
            theta += (step * (y - expected)) * phi
            theta /= max(math.sqrt(theta @ theta), 1.0)
            self._total += theta
            self._taken += 1

    def close(self) -> None:
        """Release the average; steps that never came repeat the last iterate."""
        step = self._step
        average = (self._total + (self._size - self._taken) * self._theta) / self._size
        # A residual is at most REACH and |phi| <= 1, so a replaced row moves one step by
        # 2 REACH step, and steps are not expansive. A row that leaves the window lets the later
        # ones move up by one: at most as much; it may enter another window: sqrt(2) for both.
        released, record = gaussian(
            average,
            sensitivity=self._contributions * math.sqrt(2) * 2 * REACH * step,
            mu=self._mu,
            noise=self._noise,
            ledger=self._ledger,
            what="averaged iterate",
            scope=self._scope,
        )
        error = math.sqrt(record.scale**2 + 1 / (step * self._size))
        self.belief = Point(released, min(error, 1.0), self.belief.windows + 1)
        self._size = 0

    def _sums(self) -> dict[str, Any]:
        return {"theta": self._theta.copy(), "total": self._total.copy(), "taken": self._taken}

    def _resume(self, sums: dict[str, Any]) -> None:
        self._theta, self._total = sums["theta"].copy(), sums["total"].copy()
        self._taken = int(sums["taken"])
