"""Attacks on online learners: decisions that follow one person's loss, at its worst.

Two experts and a loss (1, 0) against (0, 1) are the whole sensitivity apart, and nothing of it is
lost to the simplex, on which only differences of sums show.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from discreet.audit.attack import Claim, attack
from discreet.audit.attacks_sums import whitening
from discreet.audit.wire import listening
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
from discreet.privacy.checks import Array

CANARY = (np.array([0.0, 1.0]), np.array([1.0, 0.0]))
KNOWN = np.full(2, 0.5)
ROUNDS = 6


def _decisions(learner: Any, first: Array, known: Array, rounds: int) -> Array:
    """All decisions after the canary's loss; the other losses are known."""
    learner.learn(first)
    later = [learner.decide()]
    for _ in range(rounds - 1):
        learner.learn(known)
        later.append(learner.decide())
    return np.array(later)


@attack("ftrl", room="online", kind="gaussian")
def ftrl(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """Decisions show the noisy sums exactly, log(x_2/x_1) = rate (L_1 - L_2): whitened sums."""
    seen = []
    for _ in range(runs):
        learner = FTRL(
            Simplex(2), ROUNDS, claim.epsilon, claim.delta, mechanism="blt", seed=0, noise=noise
        )
        seen.append(_decisions(learner, CANARY[world], KNOWN, ROUNDS))
    rates = learner.learning_rate(np.arange(2, ROUNDS + 2))
    sums = np.log(seen) @ [-1.0, 1.0] / rates
    weights = whitening(learner._sums._plan.design, np.eye(ROUNDS)[0])
    return np.column_stack([sums @ weights, sums[:, 0], sums.mean(axis=1)])


@attack("ftrl, last round", room="online", kind="gaussian", near=0.79)
def ftrl_last(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """The canary comes last: one decision after it, and the noise of those before is known."""
    seen = []
    for _ in range(runs):
        learner = FTRL(
            Simplex(2), ROUNDS, claim.epsilon, claim.delta, mechanism="blt", seed=0, noise=noise
        )
        path = _decisions(learner, KNOWN, KNOWN, ROUNDS - 1)
        learner.learn(CANARY[world])
        seen.append(np.vstack([path, learner.decide()]))
    rates = learner.learning_rate(np.arange(2, ROUNDS + 2))
    sums = np.log(seen) @ [-1.0, 1.0] / rates
    weights = whitening(learner._sums._plan.design, np.eye(ROUNDS)[-1])
    return np.column_stack([sums @ weights, sums[:, -1] - sums[:, -2]])


@attack("ftrl pure", room="online", kind="pure")
def ftrl_pure(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """One round of K-norm noise: the difference of two coordinates, from one decision."""
    seen = []
    for _ in range(runs):
        learner = FTRL(Simplex(2), 1, claim.epsilon, 0.0, mechanism="tree", seed=0, noise=noise)
        seen.append(_decisions(learner, CANARY[world], KNOWN, 1)[0])
    return np.round(np.log(seen) @ [-1.0, 1.0], 9)


@attack("ftrl on the ball", room="online", kind="gaussian")
def ftrl_ball(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """Opposite unit losses; a decision on the sphere shows where the noisy sum points."""
    canary, seen = (2 * world - 1) * np.eye(2)[0], []
    for _ in range(runs):
        learner = FTRL(Ball(2), 1, claim.epsilon, claim.delta, mechanism="blt", seed=0, noise=noise)
        seen.append(_decisions(learner, canary, np.zeros(2), 1)[0])
    return np.array(seen)


@attack("ftpl", room="online", kind="gaussian")
def ftpl(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """Which of two experts is followed after the canary's round."""
    seen = []
    for _ in range(runs):
        learner = FTPL(
            Simplex(2), 1, claim.epsilon, claim.delta, mechanism="blt", seed=0, noise=noise
        )
        seen.append(_decisions(learner, CANARY[world], KNOWN, 1)[0, 1])
    return np.array(seen)


@attack("doubling", room="online", kind="gaussian")
def doubling(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """The canary's round is the last before a restart: the decision on either side of it."""
    seen = []
    for _ in range(runs):
        learner = Doubling(
            lambda rounds: FTRL(
                Simplex(2), rounds, claim.epsilon, claim.delta, mechanism="blt", noise=noise
            ),
            first=1,
        )
        learner.learn(CANARY[world])
        before = learner.learner.decide()  # of the learner that has had its rounds
        seen.append([np.log(x) @ [-1.0, 1.0] for x in (before, learner.decide())])
    return np.array(seen)


def _central(name: str, make: Callable[[Claim, Noise], Any], losses: tuple[float, ...]) -> None:
    @attack(name, room="online", kind="pure")
    def central(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
        """Where the bandit stands after one batch; the first loss is the least or the largest."""
        scores = []
        for _ in range(runs):
            bandit = make(claim, noise)
            for t in range(bandit.batch_size):
                decision = bandit.decide()
                bandit.learn(decision, losses[world] if t == 0 else sum(losses) / 2)
            after = bandit.decide()
            if isinstance(bandit, BarrierBandit):
                scores.append(float(after.choice.centre[0]))
            else:  # the log odds of the arm that was held, in the law published next
                odds = after.probabilities[decision.action] - bandit.bandit.explore / 2
                scores.append(float(np.log(odds / (1 - bandit.bandit.explore - odds))))
        return np.round(scores, 9)


_central(
    "adversarial bandit central",
    lambda claim, noise: AdversarialBandit(
        2, 60, claim.epsilon, trust="central", seed=0, noise=noise
    ),
    (0.0, 1.0),
)
_central(
    "barrier bandit central",
    lambda claim, noise: BarrierBandit(
        Ball(1), 60, claim.epsilon, trust="central", seed=0, noise=noise
    ),
    (-1.0, 1.0),
)


def _wiretapped(
    name: str, make: Callable[[int, Claim, Noise], Any], losses: tuple[float, float]
) -> None:
    @attack(name, room="online", kind="pure")
    def wiretap(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
        """Every loss is the least, or the largest: reports of single losses, from the wire."""
        learner = make(runs, claim, noise)
        with listening() as heard:
            for _ in range(runs):
                learner.learn(learner.decide(), losses[world])
        return np.concatenate([np.ravel(sent) for sent in heard])


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
