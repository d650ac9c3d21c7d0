"""Attacks on online learners: decisions that follow one person's loss, at its worst.

A loss (1, 0, 1, 0) against (0, 1, 0, 1) is the whole sensitivity apart, in every coordinate, and
nothing of it is lost to the simplex, on which only differences of sums show. `attainable` is 1
where what follows one release of the whole move shows all of it, or its sign, which is as good.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.audit.attack import Claim, attack
from discreet.audit.attacks.sums import views, whitening
from discreet.domains import Ball, Simplex
from discreet.online import (
    FTPL,
    FTRL,
    AdversarialBandit,
    BarrierBandit,
    Doubling,
)
from discreet.online.adversarial import Exp2
from discreet.online.reduction import PrivateReduction
from discreet.privacy import Noise, SeededNoise
from discreet.privacy.observation import observed, values

CANARY = (np.array([0.0, 1.0]), np.array([1.0, 0.0]))  # for two experts
ROUNDS = 6


def _first_decision(learner: Any, loss: Array) -> Array:
    """The decision that follows the first loss."""
    learner.learn(loss)
    return np.asarray(learner.decide())


def _ftrl(name: str, canary: tuple[int, ...], attainable: float) -> None:
    @attack(name, room="online", kind="gaussian", attainable=attainable, contributions=len(canary))
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
        return views(sums.T, whitening("blt", move), canary[0])


# The fraction of mu of the best linear score, |B^-1 A move| over the most that any k rounds cost:
# 1 for first rounds; a last round is in one sum only.
_ftrl("ftrl", (0,), 1.0)
_ftrl("ftrl, last round", (ROUNDS - 1,), 0.76)
_ftrl("ftrl, three rounds of one user", (0, 1, 2), 1.0)


@attack("ftrl pure", room="online", kind="pure")
def ftrl_pure(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """One round of K-norm noise: the difference of two coordinates, from one decision."""
    seen = []
    for _ in range(runs):
        learner = FTRL(Simplex(2), 1, claim.epsilon, 0.0, mechanism="tree", seed=0, noise=noise)
        seen.append(_first_decision(learner, CANARY[neighbour]))
    return np.round(np.log(seen) @ [-1.0, 1.0], 9)


@attack("ftrl on the ball", room="online", kind="gaussian")
def ftrl_ball(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """Opposite unit losses; a decision on the sphere shows where the noisy sum points."""
    canary = (2 * neighbour - 1) * np.eye(2)[0]
    seen = []
    for _ in range(runs):
        learner = FTRL(Ball(2), 1, claim.epsilon, claim.delta, mechanism="blt", seed=0, noise=noise)
        seen.append(_first_decision(learner, canary))
    return np.array(seen)


@attack("ftpl", room="online", kind="gaussian")
def ftpl(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """Which of two experts is followed after the canary's round."""
    seen = []
    for _ in range(runs):
        learner = FTPL(
            Simplex(2), 1, claim.epsilon, claim.delta, mechanism="blt", seed=0, noise=noise
        )
        seen.append(_first_decision(learner, CANARY[neighbour])[1])
    return np.array(seen)


@attack("doubling", room="online", kind="gaussian")
def doubling(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """The canary's round is the last before a restart: the decision on either side of it."""
    seen = []
    for _ in range(runs):
        learner = Doubling(
            lambda rounds: FTRL(
                Simplex(2), rounds, claim.epsilon, claim.delta, mechanism="blt", noise=noise
            ),
            first=1,
        )
        learner.learn(CANARY[neighbour])
        before = learner.learner.decide()  # of the learner that has had its rounds
        seen.append([np.log(x) @ [-1.0, 1.0] for x in (before, learner.decide())])
    return np.array(seen)


def _two_arms(name: str, contributions: int) -> None:
    @attack(name, room="online", kind="pure", contributions=contributions)
    def two_arms(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """Means of two batches, from the laws published next; the first losses are 0 or 1."""
        scores = []
        canaries = claim.contributions
        horizon = math.ceil(60 * canaries / min(1.0, claim.epsilon))
        for _ in range(runs):
            bandit = AdversarialBandit(
                2,
                horizon,
                claim.epsilon,
                trust="central",
                contributions=canaries,
                seed=0,
                noise=noise,
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
            scores.append((means[0], means[0] - means[1]))  # one noise for both would cancel
        return np.round(scores, 9)


_two_arms("adversarial bandit central", 1)
_two_arms("adversarial bandit central, three rounds of one user", 3)


@attack("barrier bandit central", room="online", kind="pure")
def barrier_central(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """Where the bandit stands after one batch; the first loss is the least or the largest."""
    scores = []
    for _ in range(runs):
        bandit = BarrierBandit(Ball(1), 60, claim.epsilon, trust="central", seed=0, noise=noise)
        for t in range(bandit.batch_size):
            bandit.learn(bandit.decide(), 0.0 if t else 2.0 * neighbour - 1.0)
        scores.append(float(bandit.decide().choice.centre[0]))
    return np.round(scores, 9)


def _wiretapped(
    name: str, make: Callable[[int, Claim, Noise], Any], losses: tuple[float, float]
) -> None:
    @attack(name, room="online", kind="pure")
    def wiretap(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """Every loss is the least, or the largest: reports of single losses, from the wire."""
        learner = make(runs, claim, noise)
        with observed("report") as heard:
            for _ in range(runs):
                learner.learn(learner.decide(), losses[neighbour])
        return np.concatenate([np.ravel(sent) for sent in values(heard)])


_wiretapped(
    "adversarial bandit local",
    lambda runs, claim, noise: AdversarialBandit(3, runs, claim.epsilon, seed=0, noise=noise),
    (0.0, 1.0),
)
_wiretapped(
    "barrier bandit local",
    lambda runs, claim, noise: BarrierBandit(Ball(3), runs, claim.epsilon, seed=0, noise=noise),
    (-1.0, 1.0),
)
_wiretapped(
    "private reduction",
    lambda runs, claim, noise: PrivateReduction(
        Exp2(2, rate=0.05, explore=0.1, seed=0), claim.epsilon, noise=noise
    ),
    (0.0, 1.0),
)
