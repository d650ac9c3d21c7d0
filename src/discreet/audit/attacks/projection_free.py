"""Attacks on ProjectionFreeBandit: the sums that it releases, and the point that follows.

The canary has the whole first batch; its losses are 0 and 1, or 1 and 0: the range, in opposite
directions. Other losses equal their baseline. Baselines come from earlier releases: whoever sees
these knows what all others add.
"""

import math
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.audit.attack import Claim
from discreet.audit.attacks.online import online
from discreet.audit.views import each, rounded, whitening
from discreet.domains import Cube
from discreet.online import ProjectionFreeBandit
from discreet.online.projection_free import LEVEL
from discreet.privacy import SeededNoise
from discreet.privacy.observation import observed, values

DIM = 9  # for fewer dimensions K-norm noise is the smaller one: a claim of another kind
MIDDLE = 0.5  # of the losses


def _played(bandit: ProjectionFreeBandit, neighbour: int) -> tuple[Array, Array]:
    """Released sums less what others add, and how the canary moves them; in units of a loss."""
    size = bandit.batch_size
    rounds = bandit.horizon or 0
    others = np.zeros((rounds // size, bandit.bandit.dim + 1))
    move = np.zeros(bandit.bandit.dim + 1)
    with observed("sum") as seen:
        for t in range(rounds):
            decision = bandit.decide()
            aim = decision.choice
            if t < size:  # the baseline is the middle
                along = 1.0 if aim.direction @ move[:-1] >= 0 else -1.0
                move += along * np.append(aim.direction, LEVEL)
                bandit.learn(decision, MIDDLE + along * (neighbour - MIDDLE))
            else:
                bandit.learn(decision, aim.baseline)
                others[t // size, -1] += LEVEL * (aim.baseline - MIDDLE)
    sums = np.array(values(seen)) * bandit.radius / bandit.bandit.dim
    return sums - np.cumsum(others, axis=0)[: len(sums)], move


def _projection_free(name: str, batches: int, contributions: int, attainable: float) -> None:
    @online(
        name,
        ProjectionFreeBandit,
        kind="gaussian",
        fits=lambda learner, promise: promise.contributions <= 2,
        attainable=attainable,
        contributions=contributions,
    )
    @each
    def projection_free(claim: Claim, neighbour: int, noise: SeededNoise) -> tuple[Any, ...]:
        """The canary's losses are 0 or 1, others equal their baseline: the sums, and the point."""
        if claim.contributions != contributions:
            raise ValueError(f"this attack needs batches of {contributions} round(s) of one person")
        rounds = batches * contributions
        weights = whitening("blt", np.eye(batches - 1)[0])
        bandit = ProjectionFreeBandit(
            Cube(DIM),
            rounds,
            claim.epsilon,
            claim.delta,
            directions="frames",  # in one batch a direction and then its opposite
            contributions=contributions,
            seed=0,
            noise=noise,
        )
        sums, move = _played(bandit, neighbour)
        along = sums @ move
        centre = bandit.bandit.centre @ move[:-1]
        return (weights @ along, along.mean(), -centre)


# The best linear score of filtered sums shows the whole mu for a change of the first row.
_projection_free("projection-free bandit", 8, 1, 1.0)
# Batches of two rounds. In opposite directions gradients add up, and levels cancel.
_projection_free("projection-free bandit, two rounds of one user", 9, 2, 1 / math.hypot(1, LEVEL))


@online("projection-free bandit pure", ProjectionFreeBandit, kind="pure")
@each
def projection_free_pure(claim: Claim, neighbour: int, noise: SeededNoise) -> Array:
    """K-norm noise in one node: the exact likelihood of the released sum, and the point."""
    bandit = ProjectionFreeBandit(Cube(1), 2, claim.epsilon, 0.0, seed=0, noise=noise)
    (released,), move = _played(bandit, neighbour)
    # Neighbours are -move/2 and move/2; the density falls with the l2 distance.
    ratio = np.linalg.norm(released + move / 2) - np.linalg.norm(released - move / 2)
    return rounded((ratio, -bandit.bandit.centre[0] * move[0]))
