"""Attacks on contextual bandits: what they release, or send.

Joint trust: the attacker sees everything but the canary's own action, hence every release. The
canary is offered one action, so that its own choice tells nothing; everybody else is known and has
nothing to say. Local trust: the attacker hears one report.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.audit.attacks.sums import summed_by
from discreet.audit.rows import Claim, Fits, attack
from discreet.audit.staged import staged
from discreet.audit.views import Likelihood, Make, each, log_ratio, rounded, whitening, wiretapped
from discreet.bandits import Holdout, LinearBandit, LocalServer, People
from discreet.bandits.baselines import ContinualLinUCB, LocalLinUCB, LocalSGDBandit
from discreet.bandits.belief import Point
from discreet.bandits.window import APART, EARNED, Transform, totals
from discreet.privacy import BallChannel, Guarantee, SeededNoise, Tree
from discreet.privacy.mechanisms import symmetric_to_vector
from discreet.privacy.noise import Noise
from discreet.privacy.observation import observed, values

E1 = np.eye(2)[:1]  # on the boundary of the ball
NOBODY = np.zeros((1, 2))  # features that tell nothing
bandit = partial(attack, room="bandits")


def windows(link: str = "identity", visits: str | None = None, *, descent: bool = False) -> Fits:
    """Learners under joint trust with this link, these visits that count and this estimator."""

    def fits(learner: Any, promise: Guarantee) -> bool:
        return (
            promise.trust == "joint"
            and (learner.policy_name == "descent") == descent
            and learner.model.link == link
            and learner.people.visits == visits
        )

    return fits


linear = partial(bandit, kind="gaussian", fits=windows())


def canary_term(view: Transform, reward: float) -> Array:
    """What the canary adds to a window's sum under its transform; the attacker knows both."""
    v, weight = view.rows(E1, np.array([reward]))
    beside = totals(weight, np.array([reward]))[0]
    return np.append(symmetric_to_vector(np.outer(v[0], v[0])), beside)


def canary_direction(learner: Any) -> Array:
    """How a reward of 1 in place of -1 moves the sum of the open window."""
    view = learner.window.transform
    return canary_term(view, 1.0) - canary_term(view, -1.0)


def released(learner: Any) -> Array:
    """What is published when a window is full and somebody comes."""
    with observed("release") as seen:
        learner.decide(NOBODY)
    return np.asarray(seen[0].value)


def fill(learner: Any, people: int | None = None) -> None:
    """People who have nothing to say, up to the release."""
    many = learner.rounds_until_release if people is None else people
    learner.decide_many(np.tile(NOBODY, (many, 1, 1)))


def joint_bandit(claim: Claim, noise: Noise, **options: Any) -> LinearBandit:
    """A learner of two features, with what the claim says."""
    return LinearBandit(2, epsilon=claim.epsilon, delta=claim.delta, seed=0, noise=noise, **options)


# Rewards 1 and -1 move v v' by |v|^2 sqrt(2) = sqrt(8) and their sum by 2 VALUE: of what is booked,
# sqrt(8.25 / 8.75).
@linear("linear bandit", LinearBandit, attainable=0.97)
@each
def linear_bandit(claim: Claim, neighbour: int, noise: SeededNoise) -> tuple[Any, ...]:
    """Reward 1 or -1 for a row on the boundary: the window's sum, theta, others' later actions.

    Others show the same row, with rewards 1 and -1 in turn: what is learned from one row alone
    would mostly be held back.
    """
    learner: Any = joint_bandit(claim, noise, policy="greedy")
    learner.learn(learner.decide(E1), 2.0 * neighbour - 1.0)
    others = learner.decide_many(np.tile(E1, (learner.rounds_until_release, 1, 1)))
    learner.learn_many(others, (-1.0) ** np.arange(len(others)))
    direction = canary_direction(learner)
    value = released(learner)
    later = learner.decide_many(np.tile([-E1[0], E1[0]], (3, 1, 1)))
    return value @ direction, learner.theta[0], later.action.sum()


@linear("linear bandit, old log", LinearBandit, attainable=0.97)
@each
def old_log(claim: Claim, neighbour: int, noise: SeededNoise) -> float:
    """Reward 1 or -1 for a row of the log: the log's release, in the direction that it moves."""
    learner: Any = joint_bandit(claim, noise, policy="greedy")
    twin: Any = joint_bandit(claim, SeededNoise(0), policy="greedy")
    twin.decide(NOBODY)  # the first window's transform, of as many rows
    rewards = (-1.0) ** np.arange(twin.rounds_until_release + 1)
    rewards[0] = 2.0 * neighbour - 1.0
    with observed("release") as seen:
        learner.warm_start(np.tile(E1, (len(rewards), 1)), rewards, public=False)
    return float(np.asarray(seen[0].value) @ canary_direction(twin))


@linear("linear bandit, reward in another window", LinearBandit)
@each
def other_window(claim: Claim, neighbour: int, noise: SeededNoise) -> float:
    """The reward comes at once, or after the first release: likelihood ratio of both releases."""
    return _moved(joint_bandit(claim, noise), neighbour, (canary_term, canary_term))


def _moved(
    learner: Any, neighbour: int, terms: tuple[Callable[[Transform, float], Array], ...]
) -> float:
    """The ratio; `terms` are what the canary adds to the first window, or to the second."""
    ratio = 0.0
    decisions = []
    for window in (0, 1):
        rest = learner.rounds_until_release - 1
        decisions.append(learner.decide(E1))
        if window == neighbour:
            learner.learn(decisions[0], 1.0)
        fill(learner, rest)
        added = terms[window](learner.window.transform, 1.0)
        value = released(learner)
        # log p(release | with) - log p(release | without), up to what is the same in both
        apart = float(value @ value - (value - added) @ (value - added))
        ratio += apart if window else -apart
    return float(ratio / (2 * learner.guarantee.releases[0].scale ** 2))


def _measured_apart(learner: Any, promise: Guarantee) -> bool:
    return windows()(learner, promise) and learner.holdout is not None


# A late reward counts no more for what its decision has earned: sqrt(8.875 / 9.125) is attainable.
@bandit(
    "linear bandit beside a hold-out", LinearBandit, kind="gaussian", fits=_measured_apart,
    attainable=0.986,
)  # fmt: skip
@each
def beside_holdout(claim: Claim, neighbour: int, noise: SeededNoise) -> float:
    """A reward at once or after the first release, where what decisions earn is released too."""
    learner = joint_bandit(claim, noise, reward_range=(0.0, 1.0), holdout=Holdout(0.05))

    def at_once(view: Transform, reward: float) -> Array:
        return np.append(canary_term(view, reward)[:-1], [EARNED * reward, 0.0, 0.0, 0.0])

    def late(view: Transform, reward: float) -> Array:
        return np.append(canary_term(view, reward)[:-1], np.zeros(1 + APART))

    return _moved(learner, neighbour, (at_once, late))


@linear("linear bandit, three rounds of one user", LinearBandit, attainable=0.97, contributions=3)
@each
def user(claim: Claim, neighbour: int, noise: SeededNoise) -> float:
    """contributions=k: one person has k rounds of one window, all rewards 1 or all -1."""
    k = claim.contributions
    learner: Any = joint_bandit(claim, noise, people=People(rounds=k))
    own = learner.decide_many(np.tile(E1, (k, 1, 1)))
    learner.learn_many(own, np.full(k, 2.0 * neighbour - 1.0))
    fill(learner)
    direction = canary_direction(learner)
    return float(released(learner) @ direction)


LONG = 1000  # decisions of a window, as it has after 2000: there the noise of theta is small


# The mean of the realised mu over 400 runs; no run has more than 1/sqrt(2).
@bandit(
    "linear bandit sgd", LinearBandit, kind="gaussian", fits=windows(descent=True), attainable=0.685
)
@Likelihood
def linear_bandit_sgd(claim: Claim, neighbour: int, noise: Noise) -> None:
    """Gradient steps: a reward at once or in the next window, by the likelihood of both averages.

    The canary's features point away from what is known, where a residual is the largest: 2. Each
    window moves by 2 steps, sqrt(2) 2 together; booked are 4, for a replacement whose two steps
    point in opposite directions at full length: no such pair of rows is known.
    """
    new = joint_bandit(claim, noise, policy="descent")
    # As if released before: a window has half as many decisions as there were rounds.
    known = {"rounds": 2 * LONG, "_end": 2 * LONG, "_belief": Point(E1[0], 1.0)}
    learner = staged(new, known)
    own = learner.decide(-E1)
    for window in (0, 1):
        if window == neighbour:
            learner.learn(own, 1.0)
        fill(learner)
        learner.decide(NOBODY)


@bandit("snapshot of a window", kind="gaussian", attainable=0.97)  # as "linear bandit"
@each
def snapshot_window(claim: Claim, neighbour: int, noise: SeededNoise) -> float:
    """One stolen state of LinearBandit in the middle of a window: its sum, along the canary."""
    learner: Any = joint_bandit(claim, noise)
    learner.learn(learner.decide(E1), 2.0 * neighbour - 1.0)
    learner.decide(NOBODY)
    stolen = learner.state_dict()["state"]["_window"]["of"]["total"]["of"]["_value"]
    return float(stolen @ canary_direction(learner))


def _continual(mechanism: str | Tree, name: str) -> None:
    # The first round is in a node of each level, and all of them show in four sums: whitening's
    # sqrt(move . weights), over the reach, is 1.
    @bandit(f"continual linucb {name}", ContinualLinUCB, kind="gaussian", fits=summed_by(name))
    def continual(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """Features e1 or -e1 with reward 1, the worst pair: all sums, whitened by their noise."""
        # Six features: with fewer, PrefixSum finds pure noise the smaller at a large epsilon.
        dim = 6
        rounds = 4
        out = []
        row = np.eye(dim)[:1]
        for _ in range(runs):
            learner = ContinualLinUCB(
                dim, rounds, claim.epsilon, claim.delta, mechanism=mechanism, noise=noise
            )
            with observed("sum") as seen:
                for t in range(rounds):
                    features = 0 * row if t else (2 * neighbour - 1) * row
                    learner.learn(learner.decide(features), 0.0 if t else 1.0)
            out.append([total[dim] for total in values(seen)])  # the moment of the first feature
        sums = np.array(out)
        whitened = sums @ whitening(mechanism, np.eye(rounds)[0])
        return np.column_stack([whitened, sums[:, 0], sums.mean(axis=1)])


_continual("blt", "blt")
_continual("toeplitz", "toeplitz")
_continual(Tree(2), "tree")


def _first_window(
    make: Make, claim: Claim, neighbour: int, noise: Noise, most: int = 10**9
) -> None:
    """Everybody is the same person, reward 1 or -1: reports of moments, as the wire has them.

    Only the first window: later questions depend on what was reported before.
    """
    learner = make(claim, noise)
    people = min(learner.rounds_until_release, most)
    decisions = learner.decide_many(np.tile(E1, (people, 1, 1)))
    learner.learn_many(decisions, np.full(people, 2.0 * neighbour - 1.0))


def _moments(heard: list[Array]) -> list[Array]:
    return [sent for sent in heard if sent.shape[1:] == (2,)]


def _wiretapped(name: str, *of: type, make: Make) -> None:
    draw = wiretapped(
        lambda claim, runs, neighbour, noise: _first_window(make, claim, neighbour, noise),
        lambda claim, heard: np.concatenate([sent @ E1[0] for sent in _moments(heard)]),
    )
    draw.__doc__ = _first_window.__doc__
    bandit(name, *of, kind="pure", fits=lambda learner, promise: promise.trust == "local")(draw)


_wiretapped(
    "linear bandit local",
    LinearBandit,
    LocalServer,
    make=lambda claim, noise: LinearBandit(
        2, 10**5, claim.epsilon, trust="local", seed=0, noise=noise
    ),
)
_wiretapped(
    "local linucb",
    LocalLinUCB,
    make=lambda claim, noise: LocalLinUCB(2, 10**5, claim.epsilon, noise=noise),
)
# At theta = 0 a gradient is at most 1 long, and all of it enters the channel.
_wiretapped(
    "local sgd bandit",
    LocalSGDBandit,
    make=lambda claim, noise: LocalSGDBandit(2, 10**5, claim.epsilon, noise=noise),
)


@bandit("local linucb, three reports of one user", LocalLinUCB, kind="pure", contributions=3)
def local_user(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """contributions=k: reward 1 or -1, k moments of one person; their likelihood ratio."""
    k = claim.contributions

    def make(claim: Claim, noise: Noise) -> Any:
        return LocalLinUCB(2, 10**5, claim.epsilon, contributions=k, noise=noise)

    def window(claim: Claim, reports: int, neighbour: int, noise: SeededNoise) -> None:
        _first_window(make, claim, neighbour, noise, 2 * reports)

    def read(claim: Claim, heard: list[Array]) -> Array:
        channel = BallChannel(2, claim.epsilon, contributions=k)
        return np.concatenate(
            [log_ratio(channel, sent, (-E1[0], E1[0])) for sent in _moments(heard)]
        )

    # Every other report is a moment: k of one person's rounds can all be such.
    ratios = wiretapped(window, read)(claim, k * runs, neighbour, noise)
    return rounded(ratios.reshape(runs, k).sum(axis=1))
