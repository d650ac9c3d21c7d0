"""How losses reach a bandit learner in private: as single reports, or as noisy means of batches."""

import json
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from discreet.privacy import Budget, Guarantee, Noise
from discreet.privacy.checks import Array, one_of
from discreet.privacy.ledger import Ledger
from discreet.privacy.local import _Channel
from discreet.privacy.mechanisms import laplace
from discreet.privacy.release import Release

RESPONSE, LAPLACE = "randomized response", "laplace"
UNPROTECTED = ("that a loss came, and when", "the horizon and the public bounds")
ONE_PROCESS = (
    "the decision served, to whoever serves it",
    "anything, against whoever runs this process: device and learner are one here",
)


class ScalarChannel(_Channel):
    """Unbiased, pure epsilon-LDP reports of one number in [low, high].

    Randomised response reports one of two values, c half widths from the middle,
    c = (e^epsilon + 1)/(e^epsilon - 1); Laplace noise has scale (high - low)/epsilon.
    mechanism="auto" takes the smaller second moment for a number that is uniform on the interval:
    randomised response up to epsilon = 3.

    >>> from discreet.privacy import SeededNoise
    >>> channel = ScalarChannel(1.0, low=0.0, high=1.0)
    >>> reports = [channel.report(0.3, SeededNoise(seed)) for seed in range(1000)]
    >>> channel.mechanism, abs(sum(reports) / 1000 - 0.3) < 0.15
    ('randomized response', True)
    """

    reference = "Warner (1965); Dwork, McSherry, Nissim and Smith (2006)"

    def __init__(
        self,
        epsilon: float,
        *,
        low: float,
        high: float,
        contributions: int = 1,
        mechanism: str = "auto",
    ) -> None:
        super().__init__(epsilon, contributions)
        self.low, self.high = float(low), float(high)
        if not -math.inf < self.low < self.high < math.inf:
            raise ValueError(f"expected finite low < high, got low={low!r}, high={high!r}")
        self.middle, self.half = (self.low + self.high) / 2, (self.high - self.low) / 2
        self._c = 1 / math.tanh(self.report_epsilon / 2)
        # Two numbers in [-1, 1] differ by at most 2, so Laplace noise has scale 2/epsilon.
        spread = 2 / self.report_epsilon
        smaller = RESPONSE if self._c**2 <= 1 / 3 + 2 * spread**2 else LAPLACE
        one_of("mechanism", mechanism, ("auto", RESPONSE, LAPLACE))
        self.mechanism = smaller if mechanism == "auto" else mechanism
        if self.off:
            moment, reach = 1.0, 1.0
        elif self.mechanism == RESPONSE:
            moment, reach = self._c**2, self._c
        else:
            moment, reach = 1 + 2 * spread**2, 1 + 2 * spread
        self.second_moment = self.half**2 * moment  # of report - middle, at the worst number
        self.reach = self.half * reach  # |report - middle|; Laplace goes beyond it 1 time in 7

    def report(self, value: float, noise: Noise) -> float:
        """One report of a number that lies in [low, high]."""
        if self.off:
            return value
        if not self._samplers:
            self._source(noise)
        if self.mechanism == LAPLACE:
            # Two numbers in [low, high] differ by at most its length.
            width = self.high - self.low
            released = laplace(value, sensitivity=width, epsilon=self.report_epsilon, noise=noise)
            return float(released.value)
        x = min(max((value - self.middle) / self.half, -1.0), 1.0)
        up = float(noise.uniform(1)[0]) < (1 + x / self._c) / 2
        return self.middle + (self._c if up else -self._c) * self.half


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

    def __init__(self, bandit: ScalarBandit, channel: ScalarChannel, noise: Noise) -> None:
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
        self._spacing = noise.spacing(LAPLACE, k * (high - low) / budget.epsilon, size * high)
        # A replaced loss moves its batch's sum by at most high - low, whatever its sign, and by
        # one spacing more when losses are rounded to the lattice; k rounds of one person by k
        # times that, in one batch or spread over several (their costs k_i/k epsilon add up).
        sensitivity = k * (high - low + self._spacing)
        self.release = Release.pure(
            what=f"sum of the losses of {size} round(s), for every batch; a round is in one batch",
            mechanism=LAPLACE,
            norm="l1",
            sensitivity=sensitivity,
            scale=sensitivity / budget.epsilon,
            sampler=noise.sampler(LAPLACE),
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
