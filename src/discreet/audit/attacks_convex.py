"""Attacks on convex learners: ProjectionFreeBandit, StreamingFrankWolfe and its baselines.

Steps come after the release and have no part in the promise: the attacker chooses them small, so
that points show the noisy sums and nothing is cut off at the border.
"""

from typing import Any

import numpy as np

from discreet.audit.attack import Claim, attack
from discreet.audit.attacks_sums import whitening
from discreet.audit.transcript import likelihood_ratio
from discreet.audit.wire import listening
from discreet.domains import Cube, LpBall, Simplex
from discreet.online import ProjectionFreeBandit, StreamingFrankWolfe
from discreet.online.baselines import LocalMD, NoisySFW, NoisySGD
from discreet.online.smoothed_descent import SMOOTH
from discreet.privacy import Noise, PrefixSum, SeededNoise, Tree
from discreet.privacy.checks import Array

RATE = 1e-4  # of ProjectionFreeBandit's steps
CLIP = 0.1


def _sums_seen(bandit: Any, canary: float, rounds: int) -> Array:
    """Running sums in units of one person's term, as the points show them."""
    bandit.bandit.rate, bandit.bandit.gap = RATE, 1e-18  # small steps, exactly made
    centres, first = [], 1.0
    for t in range(rounds):
        d = bandit.decide()
        centres.append(d.point[0] - bandit.radius * d.choice.direction[0])
        if t == 0:
            first = d.choice.direction[0]
        bandit.learn(d, d.choice.baseline if t else canary)
    smooth = np.array(centres) / -RATE
    return np.asarray(first * (smooth[:-1] + np.diff(smooth) / SMOOTH) * bandit.radius)


@attack("projection-free bandit", room="convex", kind="gaussian")
def projection_free(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """The first loss is 0 or 1, others equal their baseline: filtered sums, read off the points."""
    rounds, out = 3, []
    for _ in range(runs):
        bandit: Any = ProjectionFreeBandit(
            Cube(1), rounds, claim.epsilon, claim.delta, seed=0, noise=noise
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
        out.append(_sums_seen(bandit, float(world), rounds))
    weights = whitening(bandit._feedback.sums._plan.design, np.eye(rounds - 1)[0])
    seen = np.array(out)
    return np.column_stack([seen @ weights, seen.mean(axis=1)])


@attack("projection-free bandit pure", room="convex", kind="pure")
def projection_free_pure(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """The same with pure privacy: K-norm noise in a tree, read off the first point after it."""
    out = []
    for _ in range(runs):
        bandit = ProjectionFreeBandit(Cube(1), 2, claim.epsilon, 0.0, seed=0, noise=noise)
        out.append(_sums_seen(bandit, float(world), 2))
    return np.round(np.array(out)[:, 0], 6)


def _steps(path: Array, power: int) -> Array:
    """The points moved to, from the released averages."""
    t = np.arange(1, len(path) + 1)
    before = np.concatenate([[0.0], path[:-1]])
    return np.asarray(before + (path - before) * (t + power + 1) / (power + 1))


def _streaming(name: str, mechanism: str | Tree, kind: str, rounds: int, near: float) -> None:
    @attack(f"streaming frank-wolfe {name}", room="convex", kind=kind, near=near)
    def streaming(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
        """The first row's label is 1 or -1, so that its moment is -clip or clip; every theta."""
        scores = []
        for _ in range(runs):
            learner = StreamingFrankWolfe(
                Cube(1),
                rounds,
                claim.epsilon,
                claim.delta,
                clip=CLIP,
                mechanism=mechanism,
                noise=noise,
            )
            path = []
            for t in range(rounds):
                learner.learn([0.0 if t else 1.0], 0.0 if t else 2.0 * world - 1.0)
                path.append(learner.theta[0])
            steps = _steps(np.array(path), 3)
            scores.append((steps.sum(), steps[0], steps[-1]))
        return np.array(scores)


_streaming("blt", "blt", "gaussian", 1, 1.0)
_streaming("blt, many rounds", "blt", "gaussian", 12, 1.0)
_streaming("tree", Tree(2), "approximate", 1, 1.0)


@attack("streaming frank-wolfe p=1", room="convex", kind="pure", near=0.85)
def vertices(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """One pure choice among 8 vertices; the moment is +-clip at the first, -+clip elsewhere."""
    n, seen = 8, []
    x = np.ones(n)
    x[0] = -1.0
    for _ in range(runs):
        learner = StreamingFrankWolfe(Simplex(n), 1, claim.epsilon, 0.0, clip=CLIP, noise=noise)
        learner.learn(x, 1.0 - 2.0 * world)
        seen.append(learner.theta[0] > 1.5 / n)
    return np.array(seen, dtype=np.float64)


@attack("noisy sfw", room="convex", kind="gaussian")
def noisy_sfw(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """The first batch's mean gradient, by exact likelihood; the label is 1 or -1."""

    def run(which: int, source: Noise) -> None:
        X, y = np.zeros((4, 2)), np.zeros(4)
        X[0], y[0] = [1.0, 0.0], 2.0 * which - 1.0
        NoisySFW(LpBall(2, 2), claim.epsilon, claim.delta, clip=CLIP, noise=source).fit(X, y)

    return np.array([likelihood_ratio(run, world, noise) for _ in range(runs)])


@attack("noisy sgd", room="convex", kind="gaussian")
def noisy_sgd(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """All noisy gradients of five passes, by exact likelihood; the label is 1 or -1."""

    def run(which: int, source: Noise) -> None:
        X, y = np.zeros((4, 2)), np.zeros(4)
        X[0], y[0] = [1.0, 0.0], 2.0 * which - 1.0
        learner = NoisySGD(
            LpBall(2, 2),
            claim.epsilon,
            claim.delta,
            clip=CLIP,
            passes=5,
            step=1e-3,
            noise=source,
        )
        learner.fit(X, y)

    return np.array([likelihood_ratio(run, world, noise) for _ in range(runs)])


@attack("local mirror descent", room="convex", kind="pure")
def local_md(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """One report of a clipped gradient, from the wire; the label is 1 or -1."""
    learner = LocalMD(LpBall(2, 2), runs, claim.epsilon, clip=CLIP, step=1e-3, noise=noise)
    with listening() as heard:
        for _ in range(runs):
            learner.learn([1.0, 0.0], 1.0 - 2.0 * world)
    return np.array([sent[0] for sent in heard])
