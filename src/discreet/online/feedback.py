"""How losses reach a bandit in private: as single reports, or as noisy means of batches.

A feedback is asked in this order, so that a failure at any place counts no loss twice:

    report(loss)                     draws what has to be drawn; changes nothing else
    (the learner notes that the loss was taken)
    accept(bandit, decision, report) the bandit, or the open batch, takes it
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from discreet.arrays import Array
from discreet.decisions import LossDecision
from discreet.privacy import Budget, Guarantee, Shuffled
from discreet.privacy.channels import BinaryChannel
from discreet.privacy.guarantee import ONE_PROCESS
from discreet.privacy.ledger import Ledger
from discreet.privacy.noise import Noise
from discreet.privacy.release import Release, observe
from discreet.state import Stateful, value

UNPROTECTED = ("that a loss came, and when", "the horizon and the public bounds")
AS_LOCAL = {
    "local": "Agarwal and Singh (2017), Algorithm 4, noise on the scalar loss",
    "central": "Agarwal and Singh (2017), Algorithm 4: reports that local trust would take too",
}
RESUMED_TWICE = "losses that are told again from a state that is resumed twice: they cost twice"
STOLEN_STATE = (
    "anything, against whoever sees a stolen state together with later decisions, or a state that "
    "is resumed twice: the same noise stands in both"
)


class ScalarBandit(Protocol):
    """A bandit learner that chooses something, then sees one number: less is better."""

    def decide(self) -> Any:
        """Choose; the choice holds all that `learn` needs to know about this round."""

    def learn(self, choice: Any, loss: float) -> None:
        """Take the loss of a choice, at any later time; any finite number must do."""


class BatchBandit(ScalarBandit, Protocol):
    """A bandit learner whose choices can be held for a whole batch."""

    updates: int  # losses learned: `learn` adds one in the same step

    def again(self, choice: Any) -> Any:
        """The same choice for one more round; only `sign`, +1 or -1, may be drawn afresh."""


class Feedback(Stateful, ABC):
    """How losses reach the bandit: the only place where private data meets anything else."""

    @abstractmethod
    def choose(self, bandit: Any, t: int) -> Any:
        """The choice of round t, after the releases that are due."""

    @abstractmethod
    def report(self, loss: float) -> float:
        """What is told of a loss in its range."""

    @abstractmethod
    def accept(self, bandit: Any, decision: LossDecision, report: float) -> bool:
        """Take a report; False if it came too late to count."""

    # A report that is private by itself may be told again if the bandit, the caller's code, has
    # failed to take it. What enters a sum may not: there these do nothing.

    def hold(self, t: int, report: float) -> None:
        """The bandit has failed to take the report of round t."""

    def holds(self, t: int) -> bool:
        """Whether there is such a report."""
        return False

    def held(self, t: int) -> float | None:
        """That report, to be told again; it is then no longer held."""
        return None

    @abstractmethod
    def guarantee(self, *, taken: bool) -> Guarantee:
        """The computed promise; `taken` says whether any loss has come."""


class Reports(Feedback):
    """Local trust: the loss becomes a report at once, and the bandit sees the report.

    channel   randomises one loss
    noise     where its coins come from
    trust     that is promised: "local", or "central", which follows from it
    """

    _state = ("_noise", "_held")

    def __init__(self, channel: BinaryChannel, noise: Noise, trust: str = "local") -> None:
        self.channel = channel
        self.trust = trust
        self._noise = noise
        self._held: dict[str, float] = {}  # reports that the bandit failed to take, by round

    def hold(self, t: int, report: float) -> None:
        self._held = {**self._held, str(t): report}

    def holds(self, t: int) -> bool:
        return str(t) in self._held

    def held(self, t: int) -> float | None:
        if not self._held:
            return None
        report = self._held.get(str(t))
        self._held = {name: each for name, each in self._held.items() if name != str(t)}
        return report

    def choose(self, bandit: ScalarBandit, t: int) -> Any:
        return bandit.decide()

    def report(self, loss: float) -> float:
        """A report of the loss (Agarwal and Singh 2017, Algorithm 4, line 4)."""
        return self.channel.report(loss, self._noise)

    def accept(self, bandit: ScalarBandit, decision: LossDecision, report: float) -> bool:
        """The bandit learns the report (line 5)."""
        bandit.learn(decision.choice, report)
        return True

    def guarantee(self, *, taken: bool) -> Guarantee:
        """The channel's: a report is private by itself, so everything that follows from it is."""
        if taken and not self.channel.off:
            self.channel.draws_from(self._noise)
        promise = self.channel.guarantee
        here = ONE_PROCESS if self.trust == "local" else ()
        return replace(
            promise,
            trust=self.trust,
            releases=promise.releases if taken else (),
            unprotected=(*UNPROTECTED, *here, RESUMED_TWICE),
            reference=AS_LOCAL[self.trust],
        )


class ShuffledReports(Feedback):
    """Shuffled trust: reports of `size` rounds with one policy are a batch.

    A device draws its arm from the public probabilities and sends (arm, report) through a relay:
    one channel for everybody, as long as nobody else sees which arm a person has played. So the
    coin of the arm is private: it comes from `noise`, as that of the report does. A loss
    that comes after its batch was closed is too late: the others' arms are drawn by another policy
    by then. A batch with fewer losses than its minimum is dropped.

    size      rounds of a batch; the last one has up to twice as many
    crowd     what batches are counted on for
    noise     where the coins of arms and reports come from
    """

    _state = ("_noise", "_index", "_sums", "_count", "_told", "_batches")

    def __init__(
        self, n_arms: int, size: int, horizon: int, budget: Budget, crowd: Shuffled, noise: Noise
    ) -> None:
        self.size = min(size, horizon)
        self.horizon = horizon
        self.budget = budget
        self.crowd = crowd
        self.batch = crowd.batch(self.size, budget.epsilon, budget.delta)
        each = self.batch.report_epsilon(budget.contributions)
        self.channel = BinaryChannel(each, low=0.0, high=1.0)
        self._noise = noise
        self._index = 0  # of the open batch
        self._sums: Array = np.zeros(n_arms)  # of report - 1/2, for each arm
        self._count = 0  # reports in the open batch
        self._told = 0  # batches that the bandit has learned of
        self._batches = 0  # of these, that were large enough

    def choose(self, bandit: Any, t: int) -> Any:
        """Whatever the bandit chooses; the policy is the same until the batch ends."""
        index = min(t // self.size, self.horizon // self.size - 1) + (t >= self.horizon)
        if index > self._index:
            self._release(bandit, index)
        return bandit.decide(float(self._noise.uniform(())))

    def report(self, loss: float) -> float:
        return self.channel.report(loss, self._noise)

    def accept(self, bandit: Any, decision: LossDecision, report: float) -> bool:
        """Add a report to the open batch; False if it belongs to an earlier one."""
        if min(decision.round // self.size, self.horizon // self.size - 1) != self._index:
            return False
        sums = self._sums.copy()
        sums[decision.choice.action] += report - 0.5
        self._commit(_sums=sums, _count=self._count + 1)
        return True

    def guarantee(self, *, taken: bool) -> Guarantee:
        release = Release.channel(
            math.inf if self.channel.off else self.channel.report_epsilon,
            what=f"one batch of {self.size} reports, planned; a round is in one batch",
            mechanism=self.channel.mechanism,
            crowd=self.batch.honest,
            sampler=self._noise.sampler(self.channel.mechanism),
            scope="each batch",
        )
        return Guarantee(
            epsilon=self.budget.epsilon,
            delta=self.budget.delta,
            trust="shuffled",
            contributions=self.budget.contributions,
            releases=(release,) if self._batches else (),
            unprotected=(
                *UNPROTECTED,
                *ONE_PROCESS,
                "which arm a person played, and anything beyond epsilon_0 against whoever sees it",
                "several rounds of one person in one batch",
                RESUMED_TWICE,
            ),
            reference="Agarwal and Singh (2017), Algorithm 4; Balle et al. (2019), numerically",
            crowd=self.crowd,
        )

    def _release(self, bandit: Any, index: int) -> None:
        """Close the batch; the bandit learns its sums once, also if retried."""
        enough = self._count >= self.batch.minimum
        if enough and bandit.updates == self._told:
            observe("release", self._sums)
            bandit.learn_sums(self._sums)
        self._commit(
            _index=index,
            _sums=np.zeros_like(self._sums),
            _count=0,
            _told=self._told + enough,
            _batches=self._batches + enough,
        )


@value
@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """Rounds that share one choice."""

    index: int  # of the batch
    choice: Any  # of the learner, for all its rounds
    total: float  # noise + sum of sign (loss - middle)
    count: int = 0  # losses that have come

    def plus(self, term: float) -> "Batch":
        return Batch(self.index, self.choice, self.total + term, self.count + 1)


class Batches(Feedback):
    """Central trust: one choice is held for `size` rounds, and one noisy mean is released.

    A batch is released when a new one begins and all its losses have come; one that misses losses
    is released without them when the batch `patience` places later has ended. A missing loss
    counts as the middle of the range. Which round is in which batch is public, so the batches
    are disjoint and each has the whole budget. At the horizon everything open is released; after
    that nothing is learned.

    size   rounds in a batch
    """

    _state = ("_noise", "_open", "_due", "_told", "_start", "_ledger")

    def __init__(
        self,
        size: int,
        horizon: int,
        budget: Budget,
        loss_range: tuple[float, float],
        noise: Noise,
    ) -> None:
        self.size = size
        self.horizon = horizon
        self.patience = min(64, max(1, horizon // size // 32))
        low, high = loss_range
        self.middle = (low + high) / 2
        k = budget.contributions
        self._noise = noise
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
        self._ledger = Ledger(budget)
        self._open: tuple[Batch, ...] = ()
        self._due: tuple[Batch, ...] = ()  # closed: the bandit is about to learn of them
        self._told = 0  # batches that the bandit has learned of
        self._start: tuple[int, float] | None = None  # a batch to begin, and its noise

    def choose(self, bandit: BatchBandit, t: int) -> Any:
        """The batch's choice; the first round of a batch makes it, after the releases due."""
        if t >= self.horizon:
            self._release(bandit, self._open)
            return bandit.decide()
        index = t // self.size
        if t % self.size:
            return bandit.again(self._batch(index).choice)
        start = self._start
        if start is None or start[0] != index:  # before the bandit, which may fail
            scale = self.release.scale
            drawn = float(self._noise.laplace(scale, (), self._spacing)) if scale else 0.0
            ledger = (
                self._ledger if self._ledger.releases else self._ledger._including(self.release)
            )
            start = (index, drawn)
            self._commit(_start=start, _ledger=ledger)
        self._release(
            bandit,
            tuple(
                batch
                for batch in self._open
                if batch.count == self.size or index - batch.index > self.patience
            ),
        )
        batch = Batch(index, bandit.decide(), start[1])
        others = tuple(each for each in self._open if each.index != index)
        self._commit(_open=(*others, batch), _start=None)
        return batch.choice

    def report(self, loss: float) -> float:
        """loss - middle, on the lattice of the noise."""
        term = loss - self.middle
        return round(term / self._spacing) * self._spacing if self._spacing else term

    def accept(self, bandit: BatchBandit, decision: LossDecision, report: float) -> bool:
        """Add a loss to its batch, unless the batch has been released."""
        index = decision.round // self.size
        term = report if decision.choice.sign > 0 else -report
        batches = self._open
        for place, batch in enumerate(batches):
            if batch.index == index:
                self._open = (*batches[:place], batch.plus(term), *batches[place + 1 :])
                return True
        return False

    def guarantee(self, *, taken: bool) -> Guarantee:
        return self._ledger.guarantee(
            trust="central",
            unprotected=(*UNPROTECTED, STOLEN_STATE),
            reference="Asi, Raman and Talwar (2025), batches; Agarwal and Singh (2017)",
        )

    def _batch(self, index: int) -> Batch:
        (batch,) = [each for each in self._open if each.index == index]
        return batch

    def _release(self, bandit: BatchBandit, due: tuple[Batch, ...]) -> None:
        """Close these batches; the bandit learns their noisy means, each once, also if retried."""
        kept = tuple(batch for batch in self._open if batch not in due)
        self._commit(_open=kept, _due=(*self._due, *due))
        while self._due:
            batch = self._due[0]
            if bandit.updates == self._told:
                observe("release", batch.total, self.release)
                mean = batch.choice.sign * batch.total / self.size
                bandit.learn(batch.choice, self.middle + mean)
            self._commit(_due=self._due[1:], _told=self._told + 1)
