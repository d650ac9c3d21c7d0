"""Attacks on SparseBandit: choices of entries, measurements, an arm switch, the paper's steps.

A budget in zCDP, turned into (epsilon, delta), is loose for a single release. So selections and
measurements are held to their own prices: the learner gets the budget at which one of them costs
exactly the claim. `near` is 1 where every entry of a measurement moves as far as it can.
"""

import math
from typing import Any

import numpy as np

from discreet.audit.attack import Claim, attack
from discreet.audit.attacks_streaming import rare_share, rare_vertex
from discreet.audit.copied import copied
from discreet.audit.transcript import compare, likelihood_ratio
from discreet.bandits import SparseBandit
from discreet.bandits.sparse_windows import CURVATURE, SELECTING
from discreet.privacy import Noise, SeededNoise
from discreet.privacy.checks import Array
from discreet.privacy.gaussian import zcdp_epsilon

ARMS, FORCED, DELTA, CLIP = 2, 4, 1e-6, 0.2
RIVALS = 12  # entries that the canary pushes down while it pushes one up


def _made(dim: int, rho: float, **options: Any) -> SparseBandit:
    """A learner whose window costs rho in all."""
    own = {
        "horizon": 3 * ARMS * FORCED,
        "forced": FORCED,
        "residual_bound": CLIP,
        "seed": 0,
        **options,
    }
    return SparseBandit(ARMS, dim, epsilon=zcdp_epsilon(rho, DELTA), delta=DELTA, **own)


def _copied(unused: SparseBandit, noise: Noise) -> Any:
    """A new learner with this noise; calibrating anew takes longer than a run."""
    bandit: Any = copied(unused)
    bandit._arms._noise = noise
    return bandit


def _selection(name: str, canaries: int) -> None:
    # The canary moves the entry's odds from e^(-epsilon/2)/12 to e^(epsilon/2)/12; at epsilon = 1
    # its chance is so many times what it was, in logarithms:
    near = math.log((1 + RIVALS * math.exp(0.5)) / (1 + RIVALS * math.exp(-0.5)))

    @attack(name, room="convex", kind="pure", near=near)
    def selection(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
        """Which of 13 entries an arm changes; the canary pushes the first up, the others down."""
        rho = claim.epsilon**2 / 8 / SELECTING  # bounded range: one choice costs epsilon^2/8
        forced = canaries + 3
        unused = _made(
            RIVALS + 1, rho, forced=forced, horizon=2 * ARMS * forced, contributions=canaries
        )
        x, known = -np.ones(RIVALS + 1), np.ones(RIVALS + 1)
        x[0], seen = 1.0, []
        for _ in range(runs):
            bandit = _copied(unused, noise)
            for t in range(ARMS * forced):
                mine = t % ARMS == 0 and t < ARMS * canaries
                decision = bandit.decide(x if mine else known)
                bandit.learn(decision, 2.0 * world - 1.0 if mine else 1.0)
            bandit.decide(known)  # the release
            seen.append(bandit.theta[0, 0] != 0)
        return np.array(seen, dtype=np.float64)


_selection("sparse bandit selection", 1)
_selection("sparse bandit selection, three rounds of one user", 3)


@attack("sparse bandit measurement", room="convex", kind="gaussian")
def measurement(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """Slopes and curvatures of one window, by exact likelihood: all move as far as they can.

    The residual is -1 or just the clip: slopes move by 2 clip, and only the second has curvature.
    """
    unused: Any = _made(1, claim.mu**2 / 2 / (1 - SELECTING))
    unused._arms._step[:] = 0.1  # as if released before: there is a slope along the last step

    def run(which: int, source: Noise) -> None:
        bandit = _copied(unused, source)
        for t in range(ARMS * FORCED):
            x, reward = (1.0, (-1.0, CLIP)[which]) if t == 0 else (0.0, 0.0)
            bandit.learn(bandit.decide([x]), reward)
        bandit.decide([0.0])  # the release

    return np.array([likelihood_ratio(run, world, noise) for _ in range(runs)])


# Two arms move by clip in two slopes and by CURVATURE clip in one curvature each, against one arm
# that moves by 2 clip and CURVATURE clip.
_SWITCH = math.sqrt((2 * 2 + 2 * CURVATURE**2) / (4 * 2 + CURVATURE**2))


@attack("sparse bandit, arm switch", room="convex", kind="gaussian", near=_SWITCH)
def arm_switch(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """A person's context chooses arm 0 or arm 1: measurements of both arms by exact likelihood.

    Beside it, which arms moved: that must not depend on who was in the window.
    """
    unused: Any = _made(1, claim.mu**2 / 2 / (1 - SELECTING))
    for _ in range(ARMS * FORCED):
        unused.learn(unused.decide([0.0]), 0.0)
    unused.decide([0.0])
    unused._arms.theta[:] = [[0.5], [-0.5]]  # as if released before, and so were the last steps
    unused._arms._step[:], unused._arms._slope[:] = 0.1, 0.0

    def run(which: int, source: Noise) -> float:
        bandit = _copied(unused, source)
        mine = bandit.decide([2.0 * which - 1.0])  # arm 1 for -1, arm 0 for 1
        bandit.learn(mine, 0.5 + CLIP)  # 0.5 is predicted: a residual of just the clip
        before = bandit.theta
        while bandit._arms.window < 2:
            bandit.decide([0.0])
        first, second = bandit.theta[:, 0] != before[:, 0]
        return float(first) - float(second)

    seen = [compare(run, world, noise) for _ in range(runs)]
    return np.array([(each.log_ratio, each.outcome) for each in seen])


@attack("sparse bandit every round", room="convex", kind="pure", near=rare_share())
def every_round(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """The paper's step: was the vertex -e_1 chosen first, as the canary's gradient asks?"""
    # n = 31 choices for each arm, epsilon_m = sqrt(8 rho/(m H_n)): the first costs the claim.
    rho = claim.epsilon**2 / 8 * sum(1 / m for m in range(1, 32))
    unused = _made(2, rho, forced=1, horizon=32, method="every-round")
    seen = []
    for _ in range(runs):
        bandit: Any = copied(unused)
        choice = bandit._arms._each[0].direction
        choice._noise = noise
        rare_vertex(choice._total, choice.scale(1))
        bandit.learn(bandit.decide([1.0, -1.0]), 1.0 - 2.0 * world)
        bandit.decide([0.0, 0.0])  # the release
        seen.append(bandit.theta[0, 0] < 0)
    return np.array(seen, dtype=np.float64)
