"""Attacks on shuffled batches: what the decision server sees, and everybody else's records.

The attacker has the batch as a relay forwards it and knows what all others were asked and said; the
others' reports are drawn from one known distribution. The likelihood of a multiset is the mean of
the likelihoods that the one report is this or that one of it, so the score is

    log mean_i R1(y_i)/R(y_i)  -  log mean_i R0(y_i)/R(y_i) ,

R the others', R0 and R1 the two records'. No other score has more power. Of bits it is a function
of how many said yes, so the best event is known, and what it proves with infinitely many runs
(`Counts`). Places in the batch are views of their own: they must say nothing. A batch has no more
reports here than the honest ones that the promise counts on.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import logsumexp
from scipy.stats import binom

from discreet.arrays import Array
from discreet.audit.registry import REGISTRY
from discreet.audit.rows import Claim, Fits, always, attack
from discreet.audit.views import rounded
from discreet.bandits import LinearBandit, LocalServer
from discreet.local.device import Device, Promise
from discreet.local.questions import Question, answer
from discreet.local.report import pieces, report_many
from discreet.local.state import PublicState
from discreet.online import AdversarialBandit
from discreet.privacy import SeededNoise, Shuffled
from discreet.privacy.channels import BinaryChannel
from discreet.privacy.noise import Noise
from discreet.privacy.release import observed, values
from discreet.regression import PrivateLinearRegression
from discreet.regression.local_server import Server

DELTA = 5e-3
PEOPLE = 400  # of a fit
SIZE = 40  # planned reports of a batch with one bit each: in a larger one losses are rare


def forwarded(reports: Array, noise: Noise) -> Array:
    """A batch as a relay forwards it, in an order that says nothing."""
    return np.asarray(reports[np.argsort(noise.uniform(len(reports)), kind="stable")])


@dataclass(frozen=True)
class Counts:
    """How many of a batch said yes: distributions if one person's answer is no or yes, others' no.

    By Neyman and Pearson the best events are tails: many yes speak for yes, few for no.

    local_epsilon   of a report
    n               reports
    """

    local_epsilon: float
    n: int

    def tails(self) -> list[tuple[int, float, float]]:
        """(k, probability for yes, for no) of at least k yes; then (k, for no, for yes) of less."""
        yes = 1 / (1 + math.exp(self.local_epsilon))  # of a report whose answer is no
        others = binom.pmf(np.arange(self.n), self.n - 1, yes)
        no_record = np.convolve(others, [1 - yes, yes])
        yes_record = np.convolve(others, [yes, 1 - yes])
        above = [
            (k, float(yes_record[k:].sum()), float(no_record[k:].sum()))
            for k in range(1, self.n + 1)
        ]
        return above + [(k, 1 - no, 1 - yes) for k, yes, no in above]

    def epsilon(self, delta: float) -> float:
        """What the best event proves with infinitely many runs."""
        return max(0.0, *(math.log(max(p - delta, 1e-300) / q) for _, p, q in self.tails()))

    def best(self, delta: float, runs: int) -> int:
        """The count from which on the event proves most with so many runs, about."""

        def proved(tail: tuple[int, float, float]) -> float:
            _, p, q = tail
            least = p - delta - 2 * math.sqrt(p * (1 - p) / runs)
            most = q + 2 * math.sqrt(q * (1 - q) / runs) + 4 / runs
            return least / most

        return max(self.tails(), key=proved)[0]


# Randomised response is the worst channel, and a crowd that says no the worst one. At a delta of
# 1e-6 no number of runs would show it, so batches are made for a larger one.
@attack(
    "shuffled batch, one bit each", room="local", kind="approximate", delta=DELTA, attainable=0.95
)
def bits(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """Everybody else answers no, one person yes or no: how many said yes, and who came first."""
    batch = Shuffled().batch(SIZE, claim.epsilon, claim.delta)
    channel = BinaryChannel(batch.report_epsilon(1))
    records = np.zeros(math.floor(Shuffled().honest * SIZE))
    records[0] = neighbour
    best = Counts(channel.report_epsilon, len(records)).best(claim.delta, runs)
    scores = np.empty((runs, 4))
    for run in range(runs):
        seen = forwarded(channel.privatize(records, noise), noise)
        said_yes = int(np.sum(seen > 0.5))
        scores[run] = said_yes >= best, said_yes, seen[0], seen[-1]
    return scores


def _first_batch(
    name: str, room: str, *of: type, start: Callable[[Claim], tuple[PublicState, int]], k: int = 1,
    fits: Fits = always,
) -> None:  # fmt: skip
    """`start(claim)` is what the first batch is asked, and how many people it plans."""

    @attack(
        name, *of, room=room, kind="approximate", delta=DELTA, attainable=0.4, contributions=k,
        effort=1.0 if k == 1 else 0.2,
        lost="our analysis: the promise holds for the worst channel, of one bit",
        fits=lambda learner, promise: promise.trust == "shuffled" and fits(learner, promise),
    )  # fmt: skip
    def batch(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """The first batches: one person's outcome is 1 or -1, all others have features of zero.

        One person is in so many batches as they have contributions; each is asked as the first is,
        which is the worst: later questions are asked around what is known already.
        """
        k = claim.contributions
        state, size = start(claim)
        (question,) = state.questions
        channel: Any = state.channels[question.name]
        n = math.floor(Shuffled().honest * size)
        rows = np.zeros((n, 2))
        rows[0, 0] = 1.0
        outcomes = np.zeros(n)
        pair = [
            answer(rows[:1], np.array([each]), question, state.theta, state.whitening)[0]
            for each in (-1.0, 1.0)
        ]
        outcomes[0] = 2.0 * neighbour - 1.0
        scores = []
        for part in pieces(k * runs, 10 * n):
            many = min(part.stop, k * runs) - part.start
            people = np.tile(rows, (many, 1))
            told = report_many(people, np.tile(outcomes, many), state, np.zeros(many * n), noise)
            every = np.concatenate([each.values for each in told]).reshape(many, n, channel.dim)
            for sent in every:
                seen = forwarded(sent, noise)
                # Those who answer zero report uniformly, against which log_density is.
                ratio = [channel.log_density(seen, v) for v in pair]
                place = ratio[1] - ratio[0]
                scores.append([logsumexp(ratio[1]) - logsumexp(ratio[0]), place[0], place[-1]])
        return rounded(np.reshape(scores, (runs, k, 3)).sum(axis=1))


def _bandit(claim: Claim) -> tuple[PublicState, int]:
    shuffled: dict[str, Any] = {"delta": claim.delta, "crowd": Shuffled()}
    server = LocalServer(2, claim.epsilon, contributions=claim.contributions, **shuffled, seed=0)
    return server.policy, server.size(0)


def _fit(claim: Claim, public_X: Array | None) -> tuple[PublicState, int]:
    about: dict[str, Any] = {"delta": claim.delta, "crowd": Shuffled(), "public_X": public_X}
    server = Server(2, PEOPLE, claim.epsilon, **about)
    return server.ask(), server.size


_first_batch("linear bandit shuffled", "bandits", LinearBandit, LocalServer, start=_bandit)
_first_batch("linear bandit shuffled, two reports of one user", "bandits", LinearBandit,
             start=_bandit, k=2)  # fmt: skip
for _method, _public in {"information-weighted": None, "known-covariates": np.eye(2)}.items():
    _entry = REGISTRY[f"PrivateLinearRegression shuffled {_method}"]
    _first_batch(f"linear regression shuffled {_method}", "regression", PrivateLinearRegression,
                 start=partial(_fit, public_X=_public), fits=_entry.resembles)  # fmt: skip


@attack(
    "adversarial bandit shuffled",
    AdversarialBandit,
    room="online",
    kind="approximate",
    fits=lambda learner, promise: promise.trust == "shuffled",
    delta=DELTA,
    attainable=0.95,
)
def adversarial(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """The first batch: one person's loss is 0 or 1, all others 0; the sums that EXP2 hears.

    Arms say nothing about the loss, so that all that counts is how many reports were 1.
    """
    scores = []
    crowd = Shuffled(minimum=1.0, honest=1.0)  # all are honest here: the promise may count on them
    size = SIZE // 2
    channel = BinaryChannel(crowd.batch(size, claim.epsilon, claim.delta).report_epsilon(1))
    best = Counts(channel.report_epsilon, size).best(claim.delta, runs)
    options: dict[str, Any] = {"trust": crowd, "delta": claim.delta}
    horizon = (size // 2) ** 2  # a batch has 2 sqrt(horizon) rounds
    for _ in range(runs):
        bandit = AdversarialBandit(2, horizon, claim.epsilon, noise=noise, **options)
        with observed("release") as heard:
            for t in range(size):
                bandit.learn(bandit.decide(), 0.0 if t else float(neighbour))
            bandit.decide()
        (sums,) = values(heard)
        said_yes = round(float(sums.sum()) / (2 * channel.report_bound) + size / 2)
        scores.append([said_yes >= best, said_yes, *sums])
    return rounded(scores)


@attack("device, too small a crowd", room="local", kind="approximate", attainable=0.0)
def small_crowd(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """A server states a batch for half of the epsilon_0 that it asks for: does a report come?"""
    batch = Shuffled().batch(SIZE, claim.epsilon, claim.delta)
    question = Question("within", "within", 0.5, 1.0)
    honest = PublicState.start(1, batch.report_epsilon(1), (question,), batch=batch)
    scores = np.empty(runs)
    for run in range(runs):
        device = Device(honest, Promise(claim.epsilon, claim.delta), noise=noise, seed=0)
        try:
            hostile = PublicState.start(1, 2 * honest.epsilon, (question,), batch=batch)
            device.update(hostile)
            scores[run] = device.answer([1.0], float(neighbour)).values[0]
        except ValueError:  # before the device looks at its record
            scores[run] = -1.0
    return scores
