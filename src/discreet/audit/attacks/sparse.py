"""Attacks on SparseBandit: choices of entries, measurements, an arm switch.

A budget in zCDP, turned into (epsilon, delta), is loose for a single release. So selections and
measurements are held to their own prices: the learner gets the budget at which one of them costs
exactly the claim. `attainable` is 1 where every entry of a measurement moves as far as it can.
"""

import math
from functools import partial
from typing import Any

import numpy as np

from discreet.audit.rows import Claim, attack
from discreet.audit.staged import staged
from discreet.audit.views import Likelihood, each
from discreet.bandits import SparseBandit
from discreet.optimization.sparse_windows import CURVATURE, SELECTING
from discreet.privacy import SeededNoise
from discreet.privacy.gaussian import zcdp_epsilon
from discreet.privacy.noise import Noise

attacked = partial(attack, room="bandits")
ARMS = 2
FORCED = 4
DELTA = 1e-6
RIVALS = 12  # entries that the canary pushes down while it pushes one up


def _made(dim: int, rho: float, noise: Noise, **options: Any) -> SparseBandit:
    """A learner whose window costs rho in all."""
    own = {
        "horizon": 3 * ARMS * FORCED,
        "forced": FORCED,
        "seed": 0,
        "noise": noise,
        **options,
    }
    return SparseBandit(ARMS, dim, epsilon=zcdp_epsilon(rho, DELTA), delta=DELTA, **own)


def _selection(name: str, contributions: int) -> None:
    # The canary moves the entry's odds from e^(-epsilon/2)/12 to e^(epsilon/2)/12; at epsilon = 1
    # its chance is so many times what it was, in logarithms:
    attainable = math.log((1 + RIVALS * math.exp(0.5)) / (1 + RIVALS * math.exp(-0.5)))

    @attacked(name, kind="pure", attainable=attainable, contributions=contributions)
    @each
    def selection(claim: Claim, neighbour: int, noise: SeededNoise) -> bool:
        """Which of 13 entries an arm changes; the canary pushes the first up, the others down."""
        rho = claim.epsilon**2 / 8 / SELECTING  # bounded range: one choice costs epsilon^2/8
        canaries = claim.contributions
        forced = canaries + 3
        options = {"forced": forced, "horizon": 2 * ARMS * forced, "contributions": canaries}
        x = -np.ones(RIVALS + 1)
        known = np.ones(RIVALS + 1)
        x[0] = 1.0
        bandit = _made(RIVALS + 1, rho, noise, **options)
        for t in range(ARMS * forced):
            mine = t % ARMS == 0 and t < ARMS * canaries
            decision = bandit.decide(x if mine else known)
            bandit.learn(decision, 2.0 * neighbour - 1.0 if mine else 1.0)
        bandit.decide(known)  # the release
        return bool(bandit.theta[0, 0] != 0)


_selection("sparse bandit selection", 1)
_selection("sparse bandit selection, three rounds of one user", 3)


@attacked("sparse bandit measurement", kind="gaussian")
@Likelihood
def measurement(claim: Claim, neighbour: int, noise: Noise) -> None:
    """Slopes and curvatures of one window, by exact likelihood: all move as far as they can.

    The residual is -1 or just the bound: slopes move by twice that, only the second has curvature.
    """
    rho = claim.mu**2 / 2  # of one entry nothing is selected: all is measured
    # As if released before: there is a slope along the last step.
    bandit = staged(_made(1, rho, noise), {"_arms._step": np.full((ARMS, 1), 0.1)})
    for t in range(ARMS * FORCED):
        x, reward = (1.0, (-1.0, bandit.bound)[neighbour]) if t == 0 else (0.0, 0.0)
        bandit.learn(bandit.decide([x]), reward)
    bandit.decide([0.0])  # the release


# Two arms move by the bound in two slopes and by CURVATURE times it in one curvature each, against
# one arm that moves by twice the bound and CURVATURE times it.
_SWITCH = math.sqrt((2 * 2 + 2 * CURVATURE**2) / (4 * 2 + CURVATURE**2))


@attacked("sparse bandit, arm switch", kind="gaussian", attainable=_SWITCH)
@Likelihood
def arm_switch(claim: Claim, neighbour: int, noise: Noise) -> float:
    """A person's context chooses arm 0 or arm 1: measurements of both arms by exact likelihood.

    Beside it, which arms moved: that must not depend on who was in the window.
    """
    rho = claim.mu**2 / 2  # of one entry nothing is selected: all is measured
    known = {  # as if released before, by the first window
        "_arms._theta": np.array([[0.5], [-0.5]]),
        "_arms._step": np.full((ARMS, 1), 0.1),
        "_arms._slope": np.zeros(ARMS),
    }
    bandit = _made(1, rho, noise)
    for _ in range(ARMS * FORCED):
        bandit.learn(bandit.decide([0.0]), 0.0)
    bandit.decide([0.0])
    staged(bandit, known)
    mine = bandit.decide([2.0 * neighbour - 1.0])  # arm 1 for -1, arm 0 for 1
    bandit.learn(mine, 0.5 + bandit.bound)  # 0.5 is predicted: a residual of just the bound
    before = bandit.theta
    while bandit.learning:  # until the second window, the last, is released
        bandit.decide([0.0])
    first, second = bandit.theta[:, 0] != before[:, 0]
    return float(first) - float(second)
