"""Attacks on SparseBandit: choices of entries, measurements, and whole runs with an arm switch.

A budget in zCDP, turned into (epsilon, delta), is loose for a single release. So selections and
measurements are held to their own prices: the learner gets the budget at which one of them costs
exactly the claim.
"""

import copy
import math
from typing import Any

import numpy as np

from discreet.audit.attack import Claim, attack
from discreet.audit.transcript import likelihood_ratio
from discreet.online import SparseBandit
from discreet.online.arms import SELECTING
from discreet.privacy import Noise, SeededNoise
from discreet.privacy.checks import Array
from discreet.privacy.gaussian import zcdp_epsilon

ARMS, FORCED, DELTA, CLIP = 2, 4, 1e-6, 0.2


def _made(dim: int, epsilon: float, horizon: int = 2 * ARMS * FORCED) -> SparseBandit:
    return SparseBandit(ARMS, dim, horizon, epsilon, DELTA, forced=FORCED, clip=CLIP, seed=0)


def _copied(unused: SparseBandit, noise: Noise) -> Any:
    """A new learner with this noise; calibrating anew takes longer than a run."""
    bandit: Any = copy.deepcopy(unused)
    bandit._arms._noise = noise
    return bandit


def _first_window(bandit: Any, canary: tuple[Array, float], others: tuple[Array, float]) -> Any:
    """The forced rounds, the canary first, and the release at the decision that follows."""
    for t in range(ARMS * FORCED):
        x, reward = canary if t == 0 else others
        bandit.learn(bandit.decide(x), reward)
    bandit.decide(0 * others[0])
    return bandit


@attack("sparse bandit selection", room="convex", kind="pure", near=0.87)
def selection(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """Which of 8 entries an arm changes; the canary pushes the first up and the others down."""
    rho = claim.epsilon**2 / 8 / SELECTING  # bounded range: one choice costs epsilon^2/8
    dim, unused = 8, _made(8, zcdp_epsilon(rho, DELTA))
    x = -np.ones(dim)
    x[0] = 1.0
    canary, others = (x, 2.0 * world - 1.0), (np.ones(dim), 1.0)
    seen = []
    for _ in range(runs):
        bandit = _first_window(_copied(unused, noise), canary, others)
        seen.append(bandit.theta[0, 0] != 0)
    return np.array(seen, dtype=np.float64)


@attack("sparse bandit measurement", room="convex", kind="gaussian", near=0.7)
def measurement(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """Slopes and curvatures of one window, by exact likelihood; the reward is 1 or -1."""
    rho = claim.mu**2 / 2 / (1 - SELECTING)
    unused = _made(1, zcdp_epsilon(rho, DELTA))

    def run(which: int, source: Noise) -> None:
        canary = (np.ones(1), 2.0 * which - 1.0)
        _first_window(_copied(unused, source), canary, (np.zeros(1), 0.0))

    return np.array([likelihood_ratio(run, world, noise) for _ in range(runs)])


@attack("sparse bandit, arm switch", room="convex", kind="zcdp")
def arm_switch(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """The first greedy round's person chooses arm 0 or arm 1; all later parameters of both."""
    horizon = ARMS * FORCED * 3
    unused, nobody = _made(1, claim.epsilon, horizon), np.zeros(1)
    scores = []
    for _ in range(runs):
        bandit = _first_window(_copied(unused, noise), (nobody, 0.0), (nobody, 0.0))
        bandit._arms.theta[:] = [[0.5], [-0.5]]  # as if released before
        mine = bandit.decide(np.array([2.0 * world - 1.0]))
        bandit.learn(mine, 1.0)
        while bandit.rounds < horizon:
            bandit.decide(nobody)
        first, second = bandit.theta[:, 0]
        scores.append((first + second, first, second))
    if any(math.isnan(score) for score in scores[0]):
        raise ValueError("expected released parameters")
    return np.array(scores)
