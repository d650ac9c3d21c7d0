"""Attacks on contextual bandits.

Joint trust: the attacker sees everything but the canary's own action, hence every release. The
canary is offered one action, so that its own choice tells nothing; everybody else is known and has
nothing to say. Local trust: the attacker hears one report.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.audit.attack import Claim, attack
from discreet.audit.attacks.sums import whitening
from discreet.audit.staged import staged
from discreet.audit.transcript import likelihood_ratio
from discreet.bandits import LinearBandit
from discreet.bandits.baselines import ContinualLinUCB, LocalLinUCB, LocalSGDBandit
from discreet.bandits.belief import Point
from discreet.bandits.window import Transform, totals
from discreet.privacy import BallChannel, Noise, SeededNoise, Tree
from discreet.privacy.mechanisms import symmetric_to_vector
from discreet.privacy.observation import observed, values

E1 = np.eye(2)[:1]  # on the boundary of the ball
NOBODY = np.zeros((1, 2))  # features that tell nothing


def canary_term(view: Transform, reward: float) -> Array:
    """What the canary adds to a window's sum under its transform; the attacker knows both."""
    v, weight = view.rows(E1, np.array([reward]))
    beside = totals(weight, np.array([reward]))[0]
    return np.append(symmetric_to_vector(np.outer(v[0], v[0])), beside)


def _released(learner: Any) -> Array:
    """What is published when a window is full and somebody comes."""
    with observed("release") as seen:
        learner.decide(NOBODY)
    return np.asarray(seen[0].value)


def _window(learner: Any, reward: float | None, late: Any = None) -> tuple[Any, Transform, Array]:
    """One window with the canary first: its decision, the transform, and the released sum."""
    rest = learner.rounds_until_release - 1
    first = learner.decide(E1)
    if reward is not None:
        learner.learn(first, reward)
    if late is not None:
        learner.learn(*late)
    learner.decide_many(np.tile(NOBODY, (rest, 1, 1)))
    return first, learner._window.transform, _released(learner)


def joint_bandit(claim: Claim, noise: Noise, **options: Any) -> LinearBandit:
    """A learner of two features, with what the claim says."""
    return LinearBandit(2, epsilon=claim.epsilon, delta=claim.delta, seed=0, noise=noise, **options)


# Rewards 1 and -1 move v v' by |v|^2 sqrt(2) = sqrt(8) and their sum by 2 VALUE: of what is booked,
# sqrt(8.25 / 8.75).
@attack("linear bandit", room="bandits", kind="gaussian", attainable=0.97)
def linear_bandit(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """Reward 1 or -1 for a row on the boundary: the window's sum, theta, others' later actions.

    Others show the same row, with rewards 1 and -1 in turn: what is learned from one row alone
    would mostly be held back.
    """
    scores = []
    for _ in range(runs):
        learner: Any = joint_bandit(claim, noise, policy="greedy")
        learner.learn(learner.decide(E1), 2.0 * neighbour - 1.0)
        others = learner.decide_many(np.tile(E1, (learner.rounds_until_release, 1, 1)))
        learner.learn_many(others, (-1.0) ** np.arange(len(others)))
        view = learner._window.transform
        value = _released(learner)
        direction = canary_term(view, 1.0) - canary_term(view, -1.0)
        later = learner.decide_many(np.tile([-E1[0], E1[0]], (3, 1, 1)))
        scores.append((value @ direction, learner.theta[0], later.action.sum()))
    return np.array(scores)


@attack("linear bandit, reward in another window", room="bandits", kind="gaussian")
def other_window(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """The reward comes at once, or after the first release: likelihood ratio of both releases."""
    scores = []
    for _ in range(runs):
        learner = joint_bandit(claim, noise)
        first, view, value = _window(learner, None if neighbour else 1.0)
        _, later, second = _window(learner, None, (first, 1.0) if neighbour else None)
        early = canary_term(view, 1.0)
        late = canary_term(later, 1.0)
        # log p(both | late) - log p(both | at once), up to what is the same in both neighbours
        ratio = (value - early) @ (value - early) + second @ second
        ratio -= value @ value + (second - late) @ (second - late)
        scores.append(ratio / (2 * learner.guarantee.releases[0].scale ** 2))
    return np.array(scores)


@attack(
    "linear bandit, three rounds of one user",
    room="bandits",
    kind="gaussian",
    attainable=0.97,
    contributions=3,
)
def user(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """contributions=k: one person has k rounds of one window, all rewards 1 or all -1."""
    k = claim.contributions
    scores = []
    for _ in range(runs):
        learner: Any = joint_bandit(claim, noise, contributions=k)
        own = learner.decide_many(np.tile(E1, (k, 1, 1)))
        learner.learn_many(own, np.full(k, 2.0 * neighbour - 1.0))
        learner.decide_many(np.tile(NOBODY, (learner.rounds_until_release, 1, 1)))
        view = learner._window.transform
        scores.append(_released(learner) @ (canary_term(view, 1.0) - canary_term(view, -1.0)))
    return np.array(scores)


LONG = 1000  # decisions of a window, as it has after 2000: there the noise of theta is small


# The mean of the realised mu (`Compared.mu`) over 400 runs; no run has more than 1/sqrt(2).
@attack("linear bandit sgd", room="bandits", kind="gaussian", attainable=0.685)
def linear_bandit_sgd(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """Gradient steps: a reward at once or in the next window, by the likelihood of both averages.

    The canary's features point away from what is known, where a residual is the largest: 2. Each
    window moves by 2 steps, sqrt(2) 2 together; booked are 4, for a replacement whose two steps
    point in opposite directions at full length: no such pair of rows is known.
    """

    def run(which: int, source: Noise) -> None:
        new = joint_bandit(claim, source, estimator="sgd", policy="greedy")
        # As if released before: a window has half as many decisions as there were rounds.
        known = {"rounds": 2 * LONG, "_end": 2 * LONG, "_belief": Point(E1[0], 1.0)}
        learner = staged(new, known)
        own = learner.decide(-E1)
        for window in (0, 1):
            if window == which:
                learner.learn(own, 1.0)
            learner.decide_many(np.tile(NOBODY, (learner.rounds_until_release, 1, 1)))
            learner.decide(NOBODY)

    return np.array([likelihood_ratio(run, neighbour, noise) for _ in range(runs)])


def _continual(mechanism: str | Tree, name: str) -> None:
    # The first round is in a node of each level, and all of them show in four sums: whitening's
    # sqrt(move . weights), over the reach, is 1.
    @attack(f"continual linucb {name}", room="bandits", kind="gaussian")
    def continual(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """Features e1 or -e1 with reward 1, the worst pair: all sums, whitened by their noise."""
        # Six features: with fewer, PrefixSum finds pure noise the smaller at a large epsilon.
        dim = 6
        rounds = 4
        out = []
        row = np.eye(dim)[:1]
        nobody = np.zeros((1, dim))
        for _ in range(runs):
            learner = ContinualLinUCB(
                dim, rounds, claim.epsilon, claim.delta, mechanism=mechanism, noise=noise
            )
            with observed("sum") as seen:
                for t in range(rounds):
                    features = nobody if t else (2 * neighbour - 1) * row
                    learner.learn(learner.decide(features), 0.0 if t else 1.0)
            out.append([total[dim] for total in values(seen)])  # the moment of the first feature
        weights = whitening(mechanism, np.eye(rounds)[0])
        sums = np.array(out)
        return np.column_stack([sums @ weights, sums[:, 0], sums.mean(axis=1)])


_continual("blt", "blt")
_continual(Tree(2), "tree")


def _wiretapped(name: str, make: Callable[[Claim, Noise], Any], attainable: float) -> None:
    @attack(name, room="bandits", kind="pure", attainable=attainable)
    def wiretap(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """Everybody is the same person, reward 1 or -1: reports of moments, as the wire has them.

        Only the first window: later questions depend on what was reported before.
        """
        scores: list[Array] = []
        while sum(map(len, scores)) < runs:
            learner = make(claim, noise)
            people = learner.rounds_until_release
            with observed("report") as heard:
                decisions = learner.decide_many(np.tile(E1, (people, 1, 1)))
                learner.learn_many(decisions, np.full(people, 2.0 * neighbour - 1.0))
            scores += [sent @ E1[0] for sent in values(heard) if sent.shape[1:] == (2,)]
        return np.concatenate(scores)[:runs]


_wiretapped(
    "linear bandit local",
    lambda claim, noise: LinearBandit(2, 10**5, claim.epsilon, trust="local", seed=0, noise=noise),
    1.0,
)
_wiretapped(
    "local linucb", lambda claim, noise: LocalLinUCB(2, 10**5, claim.epsilon, noise=noise), 1.0
)
# At theta = 0 a gradient is at most 1 long, and all of it enters the channel.
_wiretapped(
    "local sgd bandit",
    lambda claim, noise: LocalSGDBandit(2, 10**5, claim.epsilon, noise=noise),
    1.0,
)


@attack("local linucb, three reports of one user", room="bandits", kind="pure", contributions=3)
def local_user(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """contributions=k: reward 1 or -1, k moments of one person; their likelihood ratio."""
    k = claim.contributions
    ratios: list[Array] = []
    while sum(map(len, ratios)) < k * runs:
        learner = LocalLinUCB(2, 10**5, claim.epsilon, contributions=k, noise=noise)
        people = min(learner.rounds_until_release, 2 * k * runs)
        with observed("report") as heard:
            decisions = learner.decide_many(np.tile(E1, (people, 1, 1)))
            learner.learn_many(decisions, np.full(people, 2.0 * neighbour - 1.0))
        channel = BallChannel(2, claim.epsilon, contributions=k)
        for sent in values(heard):
            if sent.shape[1:] == (2,):
                away = channel.log_density(sent, -E1[0])
                ratios.append(channel.log_density(sent, E1[0]) - away)
    # Every other report is a moment: k of one person's rounds can all be such.
    mine = np.concatenate(ratios)[: k * runs].reshape(runs, k)
    return np.asarray(np.round(mine.sum(axis=1), 9))
