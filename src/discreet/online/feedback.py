"""How losses reach a bandit learner in private: as single reports, or as noisy means of batches."""

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from discreet.privacy import BinaryChannel, Budget, Guarantee, Noise
from discreet.privacy.checks import Array
from discreet.privacy.ledger import Ledger
from discreet.privacy.release import Release

UNPROTECTED = ("that a loss came, and when", "the horizon and the public bounds")
ONE_PROCESS = (
    "the decision served, to whoever serves it",
    "anything, against whoever runs this process: device and learner are one here",
)


class ScalarBandit(Protocol):
    """A bandit learner that chooses something, then sees one number: less is better."""

    def decide(self) -> Any:
        """Choose; the choice holds all that `learn` needs to know about this round."""

    def learn(self, choice: Any, loss: float) -> None:
        """Take the loss of a choice, at any later time; any finite number must do."""


class BatchBandit(ScalarBandit, Protocol):
    """A bandit learner whose choices can be held for a whole batch."""

    def again(self, choice: Any) -> Any:
        """The same choice for one more round; only `sign`, +1 or -1, may be drawn afresh."""

    def pack(self, choice: Any) -> Array:
        """A choice as numbers, the same count for each."""

    def unpack(self, numbers: Array) -> Any:
        """The choice that `pack` wrote."""

    def state_dict(self) -> dict[str, Any]:
        """Arrays and plain values."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""


@dataclass(frozen=True, eq=False, slots=True)
class Decision:
    """One choice. Keep it until its loss comes."""

    round: int
    learner: str = field(repr=False)  # whose decision this is
    choice: Any  # what the bandit chose


class Feedback(ABC):
    """How losses reach the bandit: the only place where private data meets anything else."""

    @abstractmethod
    def choose(self, t: int) -> Any:
        """The choice of round t."""

    @abstractmethod
    def take(self, decision: Decision, loss: float) -> bool:
        """Take a loss; False if it came too late to count."""

    @abstractmethod
    def guarantee(self, taken: bool) -> Guarantee:
        """The computed promise."""

    def state(self) -> dict[str, Any]:
        """Arrays and plain values that `read` understands."""
        return {}

    def read(self, state: dict[str, Any]) -> dict[str, Any]:
        """The attributes that `state` described; changes nothing."""
        return {}


class Reports(Feedback):
    """Local trust: the loss becomes a report at once, and the bandit sees the report."""

    def __init__(self, bandit: ScalarBandit, channel: BinaryChannel, noise: Noise) -> None:
        self.bandit, self.channel, self.noise = bandit, channel, noise

    def choose(self, t: int) -> Any:
        """Whatever the bandit chooses."""
        return self.bandit.decide()

    def take(self, decision: Decision, loss: float) -> bool:
        """Forward a report of the loss (Algorithm 4, lines 3 to 5)."""
        self.bandit.learn(decision.choice, self.channel.report(loss, self.noise))
        return True

    def guarantee(self, taken: bool) -> Guarantee:
        """The channel's."""
        if taken and not self.channel.off:
            self.channel._source(self.noise)
        promise, k = self.channel.guarantee, self.channel.contributions
        limit = f"people in more than {k} rounds (whoever calls must enforce that limit)"
        return replace(
            promise,
            releases=promise.releases if taken else (),
            unprotected=(*UNPROTECTED, *ONE_PROCESS, *((limit,) if k > 1 else ())),
            reference="Agarwal and Singh (2017), Algorithm 4, noise on the scalar loss",
        )


@dataclass(slots=True)
class _Batch:
    choice: Any
    total: float  # noise + sum of sign (loss - middle)
    due: int = 0  # losses that have not come


class Batches(Feedback):
    """Central trust: one choice is held for `size` rounds, and one noisy mean is released.

    A batch is released when a new one begins and all its losses have come; one that misses losses
    is released without them when the batch `patience` places later has ended. A missing loss
    counts as the middle of the range. Which round is in which batch is public, so the batches
    are disjoint and each has the whole budget.
    """

    def __init__(
        self,
        bandit: BatchBandit,
        size: int,
        horizon: int,
        budget: Budget,
        loss_range: tuple[float, float],
        noise: Noise,
    ) -> None:
        self.bandit, self.size, self.noise = bandit, size, noise
        self.patience = min(64, max(1, horizon // size // 32))
        self.ledger = Ledger(budget)
        low, high = loss_range
        self.middle, k = (low + high) / 2, budget.contributions
        self._spacing = noise.spacing("laplace", k * (high - low) / budget.epsilon, size * high)
        # A replaced loss moves its batch's sum by at most high - low, whatever its sign, and by
        # one spacing more when losses are rounded to the lattice; k rounds of one person by k
        # times that, in one batch or spread over several (their costs k_i/k epsilon add up).
        sensitivity = k * (high - low + self._spacing)
        self.release = Release.pure(
            what=f"sum of the losses of {size} round(s), for every batch; a round is in one batch",
            mechanism="laplace",
            norm="l1",
            sensitivity=sensitivity,
            scale=sensitivity / budget.epsilon,
            sampler=noise.sampler("laplace"),
        )
        self._open: dict[int, _Batch] = {}

    def choose(self, t: int) -> Any:
        """The batch's choice; the first round of a batch makes it, after the releases due."""
        if t % self.size == 0:
            return self._turn(t // self.size)
        batch = self._open[t // self.size]
        batch.due += 1
        return self.bandit.again(batch.choice)

    def take(self, decision: Decision, loss: float) -> bool:
        """Add a loss to its batch, unless the batch has been released."""
        batch = self._open.get(decision.round // self.size)
        if batch is None:
            return False
        term = loss - self.middle
        if self._spacing:
            term = round(term / self._spacing) * self._spacing
        batch.total += term if decision.choice.sign > 0 else -term
        batch.due -= 1
        return True

    def guarantee(self, taken: bool) -> Guarantee:
        """The ledger's."""
        return self.ledger.guarantee(
            trust="central",
            unprotected=UNPROTECTED,
            reference="Asi, Raman and Talwar (2025), batches; Agarwal and Singh (2017)",
        )

    def _turn(self, index: int) -> Any:
        """Release what is due, then open the next batch with its noise already in the sum."""
        if not index:
            self.ledger.spend(self.release)
        for old, batch in list(self._open.items()):
            if batch.due == 0 or index - old > self.patience:
                del self._open[old]
                mean = batch.choice.sign * batch.total / self.size
                self.bandit.learn(batch.choice, self.middle + mean)
        scale, start = self.release.scale, 0.0
        if scale:
            start = float(self.noise.laplace(scale, 1, self._spacing)[0])
        batch = self._open[index] = _Batch(self.bandit.decide(), start, due=1)
        return batch.choice

    def state(self) -> dict[str, Any]:
        """The noisy sums of open batches, and what was spent."""
        batches = self._open.values()
        return {
            "batch.index": np.array(list(self._open), dtype=np.int64),
            "batch.total": np.array([batch.total for batch in batches]),
            "batch.due": np.array([batch.due for batch in batches], dtype=np.int64),
            "batch.choice": np.array([self.bandit.pack(batch.choice) for batch in batches]),
            "ledger": json.dumps(self.ledger.state_dict()),
        }

    def read(self, state: dict[str, Any]) -> dict[str, Any]:
        """The attributes that `state` described."""
        ledger = Ledger(self.ledger.budget)
        ledger.load_state_dict(json.loads(state["ledger"]))
        rows = zip(state["batch.choice"], state["batch.total"], state["batch.due"], strict=True)
        batches = [_Batch(self.bandit.unpack(row), float(x), int(due)) for row, x, due in rows]
        index = [int(i) for i in state["batch.index"]]
        return {"ledger": ledger, "_open": dict(zip(index, batches, strict=True))}
