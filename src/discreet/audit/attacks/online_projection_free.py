"""Attacks on ProjectionFreeBandit.

Steps come after the release and have no part in the promise: the attacker chooses them small, so
that points show the noisy sums and nothing is cut off at the border. `attainable` is 1 where a move
of the full sensitivity is seen in all its releases: centres are |a0 - a1|/s = mu apart, densities
of K-norm noise by e^epsilon. Too few releases are served better by a tree than by filtered sums:
here, and nowhere else, an attack puts another part into a learner.
"""

import math
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.audit.attack import Claim, attack
from discreet.audit.attacks.sums import whitening
from discreet.domains import Cube
from discreet.online import ProjectionFreeBandit
from discreet.online.projection_free import LEVEL
from discreet.online.smoothed_descent import SMOOTH
from discreet.privacy import PrefixSum, SeededNoise

RATE = 1e-4  # of ProjectionFreeBandit's steps


def _sums_seen(bandit: Any, neighbour: int, canaries: int) -> tuple[Array, Array]:
    """Running sums along the canary's terms and in units of them, as the points show; the terms.

    The canary's losses are the worst two in each of its rounds, the first ones, and all come after
    the last of these: into one batch. Other losses equal their baseline.
    """
    inner: Any = bandit.bandit
    inner.rate, inner.gap = RATE, 1e-18  # small steps, exactly made
    term, centres, mine = np.zeros(inner.dim), [], []
    for t in range(bandit.horizon):
        decision = bandit.decide()
        aim = decision.choice
        centres.append(aim.point - bandit.radius * (inner.basis @ aim.direction))
        if t >= canaries:
            bandit.learn(decision, aim.baseline)
            continue
        along = 1.0 if t == 0 or aim.direction @ term > 0 else -1.0
        term = term + along * aim.direction
        mine.append((decision, 0.5 + along * (neighbour - 0.5)))
        if t == canaries - 1:
            for late, loss in mine:
                bandit.learn(late, loss)
    smooth = (inner.origin - np.array(centres)) @ inner.basis / RATE
    sums = smooth[:-1] + np.diff(smooth, axis=0) / SMOOTH
    return np.asarray(sums @ term / (term @ term) * bandit.radius / inner.dim), term


def _projection_free(name: str, dim: int, rounds: int, canaries: int, fraction: float) -> None:
    # A term moves by (direction, LEVEL), of which the points show the direction.
    @attack(name, room="online", kind="gaussian", attainable=fraction / math.hypot(1.0, LEVEL))
    def projection_free(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """The canary's loss is 0 or 1, others equal their baseline: sums, read off the points."""
        out = []
        for _ in range(runs):
            bandit: Any = ProjectionFreeBandit(
                Cube(dim),
                rounds,
                claim.epsilon,
                claim.delta,
                contributions=canaries,
                seed=0,
                noise=noise,
            )
            # Few releases are better served by a tree; long runs have these filtered sums.
            sums = bandit._feedback.sums
            bandit._feedback.sums = PrefixSum(
                sums.horizon,
                sums.dim,
                sums.budget,
                sensitivity=sums.sensitivity,
                bound=sums.bound,
                mechanism="blt",
                noise=noise,
            )
            out.append(_sums_seen(bandit, neighbour, canaries)[0])
        seen = np.array(out)
        weights = whitening("blt", np.eye(seen.shape[1])[canaries - 1])
        return np.column_stack([seen @ weights, seen.mean(axis=1)])


# The best linear score of filtered sums reaches the whole mu for a change of the first row, and
# |B^-1 A e_3| over |B^-1 A e_1| of it for the third of seven.
_projection_free("projection-free bandit", 3, 3, 1, 1.0)
_projection_free("projection-free bandit, three rounds of one user", 1, 8, 3, 0.965)


@attack("projection-free bandit pure", room="online", kind="pure")
def projection_free_pure(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """K-norm noise in one node: the exact likelihood of the released sum, and the point's view."""
    scores = []
    for _ in range(runs):
        bandit: Any = ProjectionFreeBandit(Cube(1), 2, claim.epsilon, 0.0, seed=0, noise=noise)
        shown, direction = _sums_seen(bandit, neighbour, 1)
        released = bandit._feedback.sums.estimate * bandit.radius  # in units of a loss
        # Neighbours are -c and c, for the baseline is 1/2; the density falls with the l2 distance.
        c = 0.5 * np.append(direction, LEVEL)
        ratio = np.linalg.norm(released + c) - np.linalg.norm(released - c)
        scores.append((ratio, shown[0]))
    return np.round(scores, 9)
