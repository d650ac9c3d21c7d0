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
from discreet.audit.attacks.sums import summed_by
from discreet.audit.registry import REGISTRY
from discreet.audit.rows import Claim, Fits, always, attack
from discreet.audit.views import each, rounded, summed, whitening, wiretapped
from discreet.domains import Ball, Cube, Domain, Polytope, Simplex
from discreet.online import (
    FTPL,
    FTRL,
    AdversarialBandit,
    BarrierBandit,
    Doubling,
    ProjectionFreeBandit,
)
from discreet.online.adversarial import Exp2
from discreet.online.feedback import Batches, Reports
from discreet.online.projection_free import LEVEL
from discreet.online.reduction import PrivateReduction
from discreet.privacy import Guarantee, SeededNoise
from discreet.privacy.noise import Noise
from discreet.privacy.observation import observed, values

CANARY = (np.array([0.0, 1.0]), np.array([1.0, 0.0]))  # for two experts
ROUNDS = 6
BOX = Polytope(np.vstack([np.eye(2), -np.eye(2)]), np.ones(4))


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


def leader(
    claim: Claim,
    noise: Noise,
    domain: Domain,
    rounds: int,
    mechanism: str = "blt",
    of: str = "FTRL",
) -> Any:
    """One that promises the claim."""
    sizes = {"domain": domain, "horizon": rounds, "mechanism": mechanism}
    return REGISTRY[f"{of} simplex"].claiming(claim, noise, **sizes)


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
            learner = leader(claim, noise, Simplex(4), rounds)
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
    learner = leader(claim, noise, Simplex(2), 1, mechanism="tree")
    return rounded(np.log(_first_decision(learner, CANARY[neighbour])) @ [-1.0, 1.0])


@online("ftrl on the ball", FTRL, kind="gaussian", fits=leader_on(Ball, "blt"))
@each
def ftrl_ball(claim: Claim, neighbour: int, noise: SeededNoise) -> Any:
    """Opposite unit losses; a decision on the sphere shows where the noisy sum points."""
    canary = (2 * neighbour - 1) * np.eye(2)[0]
    learner = leader(claim, noise, Ball(2), 1)
    return _first_decision(learner, canary)


@online("ftpl", FTPL, kind="gaussian", fits=leader_on(Simplex, "blt"))
@each
def ftpl(claim: Claim, neighbour: int, noise: SeededNoise) -> Any:
    """Which of two experts is followed after the canary's round."""
    learner = leader(claim, noise, Simplex(2), 1, of="FTPL")
    return _first_decision(learner, CANARY[neighbour])[1]


def _doubling(name: str, kind: str, mechanism: str) -> None:
    @online(
        name,
        Doubling,
        kind=kind,
        fits=lambda learner, promise: (
            isinstance(learner.learner, FTRL) and isinstance(learner.learner.domain, Simplex)
        ),
    )
    @each
    def doubling(claim: Claim, neighbour: int, noise: SeededNoise) -> Any:
        """The canary's round is the last before a restart: the decision on either side of it."""
        learner = Doubling(
            lambda rounds: leader(claim, noise, Simplex(2), rounds, mechanism), first=1
        )
        learner.learn(CANARY[neighbour])
        before = learner.learner.decide()  # of the learner that has had its rounds
        return rounded([np.log(x) @ [-1.0, 1.0] for x in (before, learner.decide())])


_doubling("doubling", "gaussian", "blt")
_doubling("doubling pure", "pure", "tree")


class _BatchedBandit(AdversarialBandit):
    """Under central trust by batches at every epsilon, also where reports would tell it more."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, trust="central")

    def _is_held(self, mean: float, report: float) -> bool:
        return True


def hearing(feedback: type) -> Fits:
    """Arms that hear of losses so."""
    return lambda learner, promise: issubclass(learner.heard_by, feedback)


def _two_arms(name: str, contributions: int) -> None:
    @online(
        name, AdversarialBandit, kind="pure", fits=hearing(Batches), contributions=contributions
    )
    @each
    def two_arms(claim: Claim, neighbour: int, noise: SeededNoise) -> Any:
        """Means of two batches, from the laws published next; the first losses are 0 or 1."""
        canaries = claim.contributions
        horizon = math.ceil(60 * canaries / min(1.0, claim.epsilon))
        bandit = _BatchedBandit(
            n_arms=2,
            horizon=horizon,
            epsilon=claim.epsilon,
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
        # One noise for both would cancel.
        return rounded((means[0], means[0] - means[1]))


_two_arms("adversarial bandit central", 1)
_two_arms("adversarial bandit central, three rounds of one user", 3)


@online("barrier bandit central", BarrierBandit, kind="pure", fits=trusting("central", Ball))
@each
def barrier_central(claim: Claim, neighbour: int, noise: SeededNoise) -> Any:
    """Where the bandit stands after one batch; the first loss is the least or the largest."""
    central = REGISTRY["BarrierBandit ball central"]
    bandit = central.claiming(claim, noise, domain=Ball(1), seed=0)
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
    hearing(Reports),
)


def _barrier(runs: int, claim: Claim, noise: Noise, *, domain: Domain) -> BarrierBandit:
    return BarrierBandit(domain, runs, claim.epsilon, seed=0, noise=noise)


for _where, _domain in {"": Ball(3), " on a polytope": BOX}.items():
    _wiretapped(
        f"barrier bandit local{_where}",
        BarrierBandit,
        partial(_barrier, domain=_domain),
        (-1.0, 1.0),
        trusting("local", type(_domain)),
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


def _projection_free(
    name: str, batches: int, contributions: int, attainable: float, seed: int
) -> None:
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
        cube = REGISTRY["ProjectionFreeBandit cube"]
        bandit = cube.claiming(claim, noise, domain=Cube(DIM), horizon=rounds, seed=seed)
        sums, move = _played(bandit, neighbour)
        along = sums @ move
        centre = bandit.bandit.centre @ move[:-1]
        return (weights @ along, along.mean(), -centre)


# The best linear score of filtered sums shows the whole mu for a change of the first row.
_projection_free("projection-free bandit", 8, 1, 1.0, seed=0)
# Batches of two rounds. Terms (u, LEVEL) add up in full where both have the same direction; with
# this seed the cosine between those of the first batch is .9287.
_projection_free(
    "projection-free bandit, two rounds of one user",
    9,
    2,
    math.hypot(math.sqrt(2 + 2 * 0.9287), 2 * LEVEL) / (2 * math.hypot(1, LEVEL)),
    seed=1465,
)


@online("projection-free bandit pure", ProjectionFreeBandit, kind="pure")
@each
def projection_free_pure(claim: Claim, neighbour: int, noise: SeededNoise) -> Array:
    """K-norm noise in one node: the exact likelihood of the released sum, and the point."""
    cube = REGISTRY["ProjectionFreeBandit cube"]
    bandit = cube.claiming(claim, noise, domain=Cube(1), horizon=2, seed=0)
    (released,), move = _played(bandit, neighbour)
    # Neighbours are -move/2 and move/2; the density falls with the l2 distance.
    ratio = np.linalg.norm(released + move / 2) - np.linalg.norm(released - move / 2)
    return rounded((ratio, -bandit.bandit.centre[0] * move[0]))
