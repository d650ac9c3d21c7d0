"""Attacks on online learners: decisions that follow one person's loss, at its worst.

A loss (1, 0, 1, 0) against (0, 1, 0, 1) is the whole sensitivity apart, in every coordinate, and
nothing of it is lost to the simplex, on which only differences of sums show. `attainable` is 1
where what follows one release of the whole move shows all of it, or its sign, which is as good.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.audit.attack import Claim, Fits, always, attack
from discreet.audit.attacks.sums import summed_by
from discreet.audit.views import each, rounded, summed, whitening, wiretapped
from discreet.domains import Ball, Simplex
from discreet.online import FTPL, FTRL, AdversarialBandit, BarrierBandit, Doubling
from discreet.online.adversarial import Exp2
from discreet.online.reduction import PrivateReduction
from discreet.privacy import Guarantee, Noise, SeededNoise

CANARY = (np.array([0.0, 1.0]), np.array([1.0, 0.0]))  # for two experts
ROUNDS = 6


online = partial(attack, room="online")


def leader_on(domain: type, mechanism: str = "") -> Fits:
    """Leaders on such a domain, with this noise of their sums."""

    def fits(learner: Any, promise: Guarantee) -> bool:
        same = not mechanism or summed_by(mechanism)(learner, promise)
        return same and isinstance(learner.domain, domain)

    return fits


def trusting(trust: str, domain: type = object) -> Fits:
    """Learners under this trust, on such a domain."""

    def fits(learner: Any, promise: Guarantee) -> bool:
        return promise.trust == trust and isinstance(getattr(learner, "domain", None), domain)

    return fits


def _first_decision(learner: Any, loss: Array) -> Array:
    """The decision that follows the first loss."""
    learner.learn(loss)
    return np.asarray(learner.decide())


def _ftrl(name: str, canary: tuple[int, ...], attainable: float) -> None:
    @online(
        name,
        FTRL,
        kind="gaussian",
        fits=leader_on(Simplex, "blt"),
        attainable=attainable,
        contributions=len(canary),
    )
    def ftrl(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """Decisions show the noisy sums exactly, log(x_2/x_1) = rate (L_1 - L_2): whitened sums."""
        rounds = max(ROUNDS, claim.contributions)
        own = slice(canary[0], canary[0] + claim.contributions)
        losses = np.full((rounds, 4), 0.5)
        move = np.zeros(rounds)
        seen = []
        move[own] = 1.0
        losses[own] = np.tile(CANARY[neighbour], 2)
        for _ in range(runs):
            learner = FTRL(
                Simplex(4),
                rounds,
                claim.epsilon,
                claim.delta,
                contributions=claim.contributions,
                mechanism="blt",
                noise=noise,
            )
            seen.append([_first_decision(learner, loss) for loss in losses])
        rates = learner.learning_rate(np.arange(2, rounds + 2))
        sums = np.log(np.maximum(seen, 1e-300)) @ [-1.0, 1.0, -1.0, 1.0] / rates
        return summed(sums.T, whitening("blt", move), canary[0])


# The fraction of mu of the best linear score, |B^-1 A move| over the most that any k rounds cost:
# 1 for first rounds; a last round is in one sum only.
_ftrl("ftrl", (0,), 1.0)
_ftrl("ftrl, last round", (ROUNDS - 1,), 0.76)
_ftrl("ftrl, three rounds of one user", (0, 1, 2), 1.0)


@online("ftrl pure", FTRL, kind="pure", fits=leader_on(Simplex))
@each
def ftrl_pure(claim: Claim, neighbour: int, noise: SeededNoise) -> Any:
    """One round of K-norm noise: the difference of two coordinates, from one decision."""
    learner = FTRL(Simplex(2), 1, claim.epsilon, 0.0, mechanism="tree", seed=0, noise=noise)
    return rounded(np.log(_first_decision(learner, CANARY[neighbour])) @ [-1.0, 1.0])


@online("ftrl on the ball", FTRL, kind="gaussian", fits=leader_on(Ball, "blt"))
@each
def ftrl_ball(claim: Claim, neighbour: int, noise: SeededNoise) -> Any:
    """Opposite unit losses; a decision on the sphere shows where the noisy sum points."""
    canary = (2 * neighbour - 1) * np.eye(2)[0]
    learner = FTRL(Ball(2), 1, claim.epsilon, claim.delta, mechanism="blt", seed=0, noise=noise)
    return _first_decision(learner, canary)


@online("ftpl", FTPL, kind="gaussian", fits=leader_on(Simplex, "blt"))
@each
def ftpl(claim: Claim, neighbour: int, noise: SeededNoise) -> Any:
    """Which of two experts is followed after the canary's round."""
    learner = FTPL(Simplex(2), 1, claim.epsilon, claim.delta, mechanism="blt", seed=0, noise=noise)
    return _first_decision(learner, CANARY[neighbour])[1]


@online(
    "doubling",
    Doubling,
    kind="gaussian",
    fits=lambda learner, promise: (
        isinstance(learner.learner, FTRL) and isinstance(learner.learner.domain, Simplex)
    ),
)
@each
def doubling(claim: Claim, neighbour: int, noise: SeededNoise) -> Any:
    """The canary's round is the last before a restart: the decision on either side of it."""
    learner = Doubling(
        lambda rounds: FTRL(
            Simplex(2), rounds, claim.epsilon, claim.delta, mechanism="blt", noise=noise
        ),
        first=1,
    )
    learner.learn(CANARY[neighbour])
    before = learner.learner.decide()  # of the learner that has had its rounds
    return [np.log(x) @ [-1.0, 1.0] for x in (before, learner.decide())]


def _two_arms(name: str, contributions: int) -> None:
    @online(
        name, AdversarialBandit, kind="pure", fits=trusting("central"), contributions=contributions
    )
    @each
    def two_arms(claim: Claim, neighbour: int, noise: SeededNoise) -> Any:
        """Means of two batches, from the laws published next; the first losses are 0 or 1."""
        canaries = claim.contributions
        horizon = math.ceil(60 * canaries / min(1.0, claim.epsilon))
        bandit = AdversarialBandit(
            2, horizon, claim.epsilon, trust="central", contributions=canaries, seed=0, noise=noise
        )
        decision = bandit.decide()
        means = []
        apart = 0.0
        for batch in range(2):
            held = decision
            for t in range(bandit.batch_size):
                loss = 0.5 if batch or t >= canaries else float(neighbour)
                bandit.learn(decision, loss)
                decision = bandit.decide()
            rate = bandit.bandit.policy_rate()
            explore = min(0.5, bandit.bandit.explore * rate)
            q = (decision.probabilities - explore / 2) / (1 - explore)
            before = apart
            # q = 4/(rate (total - x))^2; an estimate (mean - 1/2)/p moves the total of its arm.
            apart = float(2 / math.sqrt(q[0]) - 2 / math.sqrt(q[1])) / rate
            rise = apart - before if held.action == 0 else before - apart
            means.append(rise * held.probability)
        # One noise for both would cancel.
        return rounded((means[0], means[0] - means[1]))


_two_arms("adversarial bandit central", 1)
_two_arms("adversarial bandit central, three rounds of one user", 3)


@online("barrier bandit central", BarrierBandit, kind="pure", fits=trusting("central", Ball))
@each
def barrier_central(claim: Claim, neighbour: int, noise: SeededNoise) -> Any:
    """Where the bandit stands after one batch; the first loss is the least or the largest."""
    bandit = BarrierBandit(Ball(1), 60, claim.epsilon, trust="central", seed=0, noise=noise)
    for t in range(bandit.batch_size):
        bandit.learn(bandit.decide(), 0.0 if t else 2.0 * neighbour - 1.0)
    return rounded(float(bandit.decide().choice.centre[0]))


def _wiretapped(
    name: str,
    of: type,
    make: Callable[[int, Claim, Noise], Any],
    losses: tuple[float, float],
    fits: Fits,
) -> None:
    def play(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> None:
        """Every loss is the least, or the largest: reports of single losses, from the wire."""
        learner = make(runs, claim, noise)
        for _ in range(runs):
            learner.learn(learner.decide(), losses[neighbour])

    read = wiretapped(play, lambda claim, heard: np.concatenate([np.ravel(x) for x in heard]))
    online(name, of, kind="pure", fits=fits)(read)


_wiretapped(
    "adversarial bandit local",
    AdversarialBandit,
    lambda runs, claim, noise: AdversarialBandit(3, runs, claim.epsilon, seed=0, noise=noise),
    (0.0, 1.0),
    trusting("local"),
)
_wiretapped(
    "barrier bandit local",
    BarrierBandit,
    lambda runs, claim, noise: BarrierBandit(Ball(3), runs, claim.epsilon, seed=0, noise=noise),
    (-1.0, 1.0),
    trusting("local", Ball),
)
_wiretapped(
    "private reduction",
    PrivateReduction,
    lambda runs, claim, noise: PrivateReduction(
        Exp2(2, rate=0.05, explore=0.1, seed=0), claim.epsilon, noise=noise
    ),
    (0.0, 1.0),
    always,
)
