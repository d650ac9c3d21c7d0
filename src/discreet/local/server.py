"""The server's side: it asks, adds reports up, and learns from sums. It never sees a record.

Chen, Li, Rakhlin, Simchi-Levi (2025); symbols in `discreet.local.questions`. What a server does
with sums is post-processing: nothing in it can break a promise.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np

from discreet.arrays import Array, integer, positive
from discreet.least_squares import (
    Posterior,
    Whitening,
    discounted_eigenvalues,
    gram_error_covariance,
)
from discreet.local.questions import Channel
from discreet.local.report import Answers, BatchSum, Report, ReportSum, add_up, empty_sums
from discreet.local.state import PublicState
from discreet.privacy import Guarantee, Shuffled
from discreet.privacy.noise import Noise, source
from discreet.privacy.release import Release
from discreet.state.claims import Live

UNPROTECTED = (
    "that a report was sent, when, and which question it answers",
    "the public bounds",
)
SHUFFLED = (
    "that a report was sent, and which window it belongs to",
    "when and from where it was sent, to the relay",
    "the public bounds and the sizes of batches",
    "several reports of one person in one batch",
)
SHUFFLED_REFERENCE = "Balle, Bell, Gascon and Nissim (2019), numerically"
REFERENCE = "Chen, Li, Rakhlin, Simchi-Levi (2025), with residual reports"
Belief = TypeVar("Belief")
State = TypeVar("State", bound=PublicState)


class Server(ABC, Generic[State, Belief]):
    """`ask` publishes, `take` adds reports up, `close` learns from the sums and asks anew.

    Under shuffled trust a window takes one batch, as a relay forwards it (`aggregate`), and no
    single report: one that comes alone hides in no crowd.

    A report of an earlier window, or such as no device sends, is left out alone and counted
    (`refused`): its sender must not answer again, which would spend the budget twice. A subclass
    says what is learned (`_learn`), from sums of reports and from nothing else.

    dim             number of features
    epsilon         of all reports of one person together
    contributions   the most reports of one person
    delta           of all reports, where they are shuffled
    crowd           where reports are shuffled: what batches are counted on for; None: they are not
    """

    _published: State | None  # what is asked; None: no window is open
    _belief: Belief
    _sums: dict[str, ReportSum]

    def __init__(
        self, dim: int, epsilon: float, contributions: int, delta: float, crowd: Shuffled | None
    ) -> None:
        if not hasattr(self, "_live"):
            self._live = Live()
        self.dim = integer("dim", dim)
        self.epsilon = positive("epsilon", epsilon, allow_inf=True)
        self.contributions = integer("contributions", contributions)
        self.delta = float(delta)
        self.crowd = crowd
        if (crowd is None) != (self.delta == 0):
            raise ValueError("delta and crowd belong together: both where reports are shuffled")
        self.taken = 0  # reports
        self.refused = 0
        self._batches: tuple[Release, ...] = ()  # that were released, under shuffled trust

    def _publish(self, belief: Belief, state: State | None) -> None:
        """What is known and what is asked, from now on; first by the constructor of a subclass."""
        sums = {} if state is None else empty_sums(state)
        self._belief, self._published, self._sums = belief, state, sums

    def _cost(self, size: int) -> dict[str, Any]:
        """What the state of a window of this size says about privacy."""
        if self.crowd is None:
            return {"epsilon": self.epsilon}
        batch = self.crowd.batch(size, self.epsilon, self.delta)
        k = self.contributions
        return {"epsilon": k * batch.report_epsilon(k), "batch": batch}

    @property
    def done(self) -> bool:
        """Whether nothing is asked any more."""
        return self._published is None

    @property
    def belief(self) -> Belief:
        """What closed windows have taught: made of private reports, safe to publish."""
        return self._belief

    def ask(self) -> State:
        """The questions of the open window."""
        if self._published is None:
            raise ValueError("all windows are closed: nothing is asked; read the estimate")
        return self._published

    def take(self, report: Report) -> bool:
        """Add a device's report: one answer. False if it was left out."""
        if not isinstance(report, Report) or not isinstance(report.values, np.ndarray):
            raise TypeError(f"the server takes a Report, never a {type(report).__name__}")
        return self.take_many([report]) == 0

    def take_many(self, reports: Iterable[Report]) -> int:
        """Add reports; returns how many were left out. What is none is left out alone."""
        return self._take(reports, many=False)

    def take_answers(self, answers: Iterable[Answers]) -> int:
        """Add what many people answered in this process; returns how many were left out."""
        return self._take(answers, many=True)

    def _take(self, told: Iterable[Report | Answers], *, many: bool) -> int:
        with self._live:
            self._expect_single()
            before = self.refused
            for each in told:
                kept, left_out = add_up(self._sums, each, self._published, many=many)
                self.taken += kept
                self.refused += left_out
            return self.refused - before

    def take_sum(self, window: int, question: str, reports: ReportSum, refused: int) -> int:
        """Add reports that were checked and added up elsewhere; returns how many were left out."""
        with self._live:
            self._expect_single()
            left_out = reports.count
            is_open = self._published is not None and window == self._published.window
            if is_open and question in self._sums:
                self._sums[question].merge(reports)
                left_out = 0
            self.taken += reports.count - left_out
            self.refused += refused + left_out
            return refused + left_out

    def aggregate(self, batch: Iterable[Report] | BatchSum) -> bool:
        """Take the shuffled batch of the open window; False if it was dropped.

        Reports that no device sends do not count, nor does what is no report. With fewer than the
        minimum of its state the batch is dropped whole and nothing changes but `refused`; so is a
        second one of a window.
        """
        with self._live:
            state = self.ask()
            if state.batch is None:
                raise ValueError("reports of this state are not shuffled: use take")
            if not isinstance(batch, BatchSum):
                batch = BatchSum.empty(state).plus(batch, state)
            fits = batch.window == state.window and not self.holds_batch
            if not fits or batch.count < state.batch.minimum:
                self.refused += batch.count + batch.refused
                return False
            released = (*self._batches, window_release(state))
            taken = self.taken + batch.count
            refused = self.refused + batch.refused
            self._sums, self._batches, self.taken, self.refused = (
                batch.sums,
                released,
                taken,
                refused,
            )
            return True

    @property
    def sums(self) -> dict[str, ReportSum]:
        """Of the open window's reports, by question."""
        return self._sums

    @property
    def batches(self) -> tuple[Release, ...]:
        """The batches that were released, under shuffled trust."""
        return self._batches

    @property
    def holds_batch(self) -> bool:
        """Whether the open window has its batch."""
        return any(reports.count for reports in self._sums.values())

    def close(self) -> State | None:
        """End the window: learn from its sums, and publish the next questions (None: the end)."""
        with self._live:
            if self._published is None:
                raise ValueError("all windows are closed; read the estimate")
            belief, state = self._learn()
            # All or nothing: an interrupted close has learned nothing and can be repeated.
            self._publish(belief, state)
            return state

    @abstractmethod
    def _learn(self) -> tuple[Belief, State | None]:
        """What is known after this window and the next state; changes nothing."""

    def _posterior(
        self,
        theta: Array,
        covariance: Array,
        gram: Array,
        gram_std: float,
        discount: float = 1.0,
    ) -> tuple[Array, Array]:
        """theta and the covariance of its error, after the moments of the open window.

        They were asked for around the published theta, in the published whitening:
        clip moment = H w + noise  with  w = whitening^-1 (theta* - published theta).
        """
        state = self.ask()
        clip = state.question_of("moment").clip
        moment = self._sums["moment"]
        whitening = Whitening(state.whitening)
        prior = whitening.of_parameters(covariance)
        before = whitening.inverse @ (theta - state.theta)
        noise = clip**2 * moment.variance
        w, left = posterior(prior, gram, gram_std, clip * moment.mean, noise, before, discount)
        return state.theta + whitening.matrix @ w, whitening.to_parameters(left)

    def _expect_single(self) -> None:
        if self._published is not None and self._published.batch is not None:
            raise ValueError(
                "under shuffled trust reports come in batches: use aggregate; a report that comes "
                "alone hides in no crowd"
            )


def posterior(
    prior: Array,
    gram: Array,
    gram_std: float,
    moment: Array,
    noise: Array,
    before: Array | float = 0.0,
    discount: float = 1.0,
) -> tuple[Array, Array]:
    """Mean and covariance of w ~ N(before, prior), after  moment = H w + noise  and  gram = H + Z.

    Z is symmetric, of `gram_std` on the diagonal: its error moves the moment by Z w. What may be
    noise in H is no information about w, so that it shrinks no covariance: `discount` times the
    variance of an eigenvalue, over it, is taken off. (Once: three times, or one standard deviation,
    had more regret on the sphere.)
    """
    d = len(moment)
    w = before + np.zeros(d)
    noise = noise + gram_error_covariance(prior + np.outer(w, w), gram_std)
    values, vectors = np.linalg.eigh(gram)
    # No direction becomes a million times as well known as another: inverses would lose the latter.
    noise = noise + 1e-12 * float(values.max()) ** 2 * float(np.trace(prior)) * np.eye(d)
    unobserved = Posterior.from_covariance(prior)

    def after(times: float) -> Posterior:
        H = (vectors * discounted_eigenvalues(values, gram_std**2, times)) @ vectors.T
        return unobserved.observe(H, moment - H @ w, noise)

    return w + after(0.0).mean, after(discount).covariance


def report_release(channel: Channel, scope: str, noise: Noise) -> Release:
    """What is booked for the reports of one person through a channel: all of them in one scope."""
    (release,) = channel.guarantee.releases
    return replace(
        release,
        what=f"{channel.contributions} report(s) of one person, on {scope}",
        sampler=noise.sampler(release.mechanism),
        scope=scope,
    )


def window_release(state: PublicState, noise: Noise | None = None) -> Release:
    """What is booked for the reports of a window, of which each person has one question.

    Of its questions the dearest counts. Under shuffled trust a person is in one batch, with one
    report. `noise` is what reports are drawn from, where devices are in this process.
    """
    channels = state.channels.values()
    if state.batch is None:
        dearest = max(channels, key=lambda channel: channel.report_epsilon)
        return report_release(dearest, f"window {state.window + 1}", source(noise))
    mechanism = " or ".join(sorted({channel.mechanism for channel in channels}))
    return Release.channel(
        max(channel.report_epsilon for channel in channels),
        what=f"one batch of {state.batch.size} reports, planned",
        mechanism=mechanism,
        crowd=state.batch.honest,
        sampler="drawn by devices" if noise is None else noise.sampler(mechanism),
        scope=f"batch {state.window + 1}",
    )


def local_guarantee(
    state: PublicState,
    noise: Noise | None = None,
    *,
    sent: bool = True,
    unprotected: tuple[str, ...] | None = None,
    reference: str = REFERENCE,
    batches: tuple[Release, ...] = (),
    crowd: Shuffled | None = None,
) -> Guarantee:
    """What each person is promised who answers the questions of a state.

    One report answers one question, so the questions are disjoint scopes; k reports of one person
    run at epsilon/k each and add up to epsilon, whichever questions they answer. Under shuffled
    trust `batches` are those that were released, and `crowd` what they are counted on for.
    """
    k = state.contributions
    if unprotected is None:
        unprotected = UNPROTECTED if state.batch is None else SHUFFLED
    drawn = source(noise)
    if state.batch is not None:
        return Guarantee(
            epsilon=state.batch.epsilon,
            delta=state.batch.delta,
            trust="shuffled",
            contributions=k,
            releases=tuple(
                replace(release, sampler=drawn.sampler(release.mechanism)) for release in batches
            ),
            unprotected=unprotected,
            reference=f"{reference}; {SHUFFLED_REFERENCE}",
            crowd=crowd or state.batch.crowd,
        )
    return Guarantee(
        epsilon=state.epsilon,
        delta=0.0,
        trust="local",
        contributions=k,
        releases=tuple(
            report_release(channel, question, drawn) for question, channel in state.channels.items()
        )
        if sent
        else (),
        unprotected=unprotected,
        reference=reference,
    )
