"""Attacks on bandits under central trust that hear means of batches, or sums of gradients.

One person's loss is the least or the largest; what follows one release of the whole move shows all
of it, hence `attainable` is 1.
"""

import math
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.audit.registry import REGISTRY
from discreet.audit.rows import Claim, attack
from discreet.audit.views import each, rounded, whitening
from discreet.domains import Ball, Cube
from discreet.online import AdversarialBandit, BarrierBandit, ProjectionFreeBandit
from discreet.online.feedback import Batches
from discreet.online.projection_free import LEVEL
from discreet.privacy import SeededNoise
from discreet.privacy.release import observed, values

CENTRAL = REGISTRY["BarrierBandit ball central"]
CUBE = REGISTRY["ProjectionFreeBandit cube"]


class _BatchedBandit(AdversarialBandit):
    """Under central trust by batches at every epsilon, also where reports would tell it more."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, trust="central")

    def _is_held(self, mean: float, report: float) -> bool:
        return True


def _two_arms(name: str, canaries: int) -> None:
    @attack(
        name, AdversarialBandit, room="online", kind="pure", contributions=canaries,
        fits=lambda learner, promise: issubclass(learner.heard_by, Batches),
    )  # fmt: skip
    @each
    def two_arms(claim: Claim, neighbour: int, noise: SeededNoise) -> Array:
        """Totals of two batches, and the probability that follows; the first losses are 0 or 1."""
        k = claim.contributions
        bandit = _BatchedBandit(
            n_arms=2,
            horizon=math.ceil(60 * k / min(1.0, claim.epsilon)),
            epsilon=claim.epsilon,
            contributions=k,
            seed=0,
            noise=noise,
        )
        signs = []
        with observed("release") as seen:
            for t in range(2 * bandit.batch_size):
                decision = bandit.decide()
                signs.append(decision.choice.sign)
                bandit.learn(decision, float(neighbour) if t < k else 0.5)
            after = bandit.decide()
        totals = signs[:: bandit.batch_size] * np.array(values(seen))
        # One noise for both would cancel.
        return rounded([totals[0], totals[0] - totals[1], after.probabilities[0]])


_two_arms("adversarial bandit central", 1)
_two_arms("adversarial bandit central, three rounds of one user", 3)


@attack("barrier bandit central", BarrierBandit, room="online", kind="pure", fits=CENTRAL.resembles)
@each
def barrier_central(claim: Claim, neighbour: int, noise: SeededNoise) -> Array:
    """Where the bandit stands after one batch; the first loss is the least or the largest."""
    bandit = CENTRAL.claiming(claim, noise, domain=Ball(1), seed=0)
    for t in range(bandit.batch_size):
        bandit.learn(bandit.decide(), 0.0 if t else 2.0 * neighbour - 1.0)
    return rounded(bandit.decide().choice.centre[0])


# -- ProjectionFreeBandit: the sums that it releases, and the point that follows -------------------
#
# The canary has the whole first batch; its losses span the range, each with the sign that moves the
# sum farther. Other losses equal their baseline. Baselines come from earlier releases: whoever sees
# these knows what all others add.

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


def _projection_free(name: str, batches: int, k: int, attainable: float, seed: int) -> None:
    @attack(
        name, ProjectionFreeBandit, room="online", kind="gaussian", attainable=attainable,
        contributions=k, fits=lambda learner, promise: promise.contributions == k,
    )  # fmt: skip
    @each
    def projection_free(claim: Claim, neighbour: int, noise: SeededNoise) -> tuple[Any, ...]:
        """The canary's losses are 0 or 1, others equal their baseline: the sums, and the point."""
        weights = whitening("blt", np.eye(batches - 1)[0])
        bandit = CUBE.claiming(claim, noise, domain=Cube(DIM), horizon=batches * k, seed=seed)
        sums, move = _played(bandit, neighbour)
        along = sums @ move
        return weights @ along, along.mean(), -bandit.bandit.centre @ move[:-1]


_projection_free("projection-free bandit", 8, 1, 1.0, seed=0)
# Batches of two rounds. Terms (u, LEVEL) add up in full where both have the same direction; with
# this seed the cosine between those of the first batch is .9287.
_SHOWN = math.hypot(math.sqrt(2 + 2 * 0.9287), 2 * LEVEL) / (2 * math.hypot(1, LEVEL))
_projection_free("projection-free bandit, two rounds of one user", 9, 2, _SHOWN, seed=1465)


@attack("projection-free bandit pure", ProjectionFreeBandit, room="online", kind="pure")
@each
def projection_free_pure(claim: Claim, neighbour: int, noise: SeededNoise) -> Array:
    """K-norm noise in one node: the exact likelihood of the released sum, and the point."""
    bandit = CUBE.claiming(claim, noise, domain=Cube(1), horizon=2, seed=0)
    (released,), move = _played(bandit, neighbour)
    # Neighbours are -move/2 and move/2; the density falls with the l2 distance.
    ratio = np.linalg.norm(released + move / 2) - np.linalg.norm(released - move / 2)
    return rounded([ratio, -bandit.bandit.centre[0] * move[0]])
