"""Attacks on the released thetas of StreamingFrankWolfe: below the claim, and catching bugs.

One row is replaced; the attacker sees every theta and knows all other rows. A claim is refuted, or
a bug caught, at 99.99% confidence each. The bugs: half the noise, g that is not clipped, fresh
noise at every read, argmin(score + Gumbel) for argmin(score - Gumbel).
"""

import copy
import math

import numpy as np
import pytest

from discreet.audit import audit_scores
from discreet.domains import Cube, LpBall, Simplex
from discreet.online import streaming
from discreet.online.directions import VertexDirection
from discreet.online.streaming import StreamingFrankWolfe
from discreet.privacy import SeededNoise, Tree, gaussian_mu
from discreet.privacy.gaussian import gaussian_epsilon

EPSILON, DELTA, SURE = 1.0, 1e-6, 0.9999
HALVED = gaussian_epsilon(2 * gaussian_mu(EPSILON, DELTA), DELTA)  # half the Gaussian noise
BINARY = Tree(branching=2)


def bound(sides, mechanism="blt", confidence=SURE):
    """Short trees have Laplace noise, a pure claim; the bound for Gaussian noise is tighter."""
    method = "gdp" if mechanism == "blt" else "clopper-pearson"
    return audit_scores(*sides, delta=DELTA, confidence=confidence, method=method).lower_bound


def thetas(learner, label, rounds):
    """The first row is the one in doubt; the others are zero, and so are their gradients."""
    seen = []
    for t in range(rounds):
        learner.learn([1.0] if t == 0 else [0.0], label if t == 0 else 0.0)
        seen.append(learner.theta[0])
    return np.array(seen)


def steps(path, power=3):
    """v_t from the released averages."""
    t = np.arange(1, len(path) + 1)
    before = np.concatenate([[0.0], path[:-1]])
    return before + (path - before) * (t + power + 1) / (power + 1)


def scores(epsilon, mechanism, rounds, runs, read=thetas):
    """The sum of all v_t, for labels 1 and -1: the moments are -clip and +clip, 2 clip apart."""
    noise, sides = SeededNoise(1), []
    for label in (-1.0, 1.0):
        side = []
        for _ in range(runs):
            learner = StreamingFrankWolfe(
                Cube(1), rounds, epsilon, DELTA, clip=0.1, mechanism=mechanism, noise=noise
            )
            side.append(steps(read(learner, label, rounds)).sum())
        sides.append(np.array(side))
    return sides


BOTH = pytest.mark.parametrize(
    ("mechanism", "halved"), [("blt", HALVED), (BINARY, 2 * EPSILON)], ids=["blt", "tree"]
)


@BOTH
def test_audit__one_round_shows_all_there_is_to_see(mechanism, halved):
    """A sign of noise around +-clip: for Gaussian noise no threshold is better than any other."""
    seen = scores(EPSILON, mechanism, 1, 2500)
    assert bound(seen, mechanism) <= EPSILON
    assert bound(seen, mechanism, 0.95) >= 0.3 * EPSILON
    assert bound(scores(halved, mechanism, 1, 2500), mechanism) > EPSILON


@BOTH
def test_audit__many_rounds_stay_below_the_claim(mechanism, halved):
    assert bound(scores(EPSILON, mechanism, 24, 500), mechanism) <= EPSILON


@BOTH
def test_audit__catches_noise_drawn_at_every_read(mechanism, halved):
    """One row, one release, read 64 times: the bug draws the noise of the release each time."""
    rng = np.random.default_rng(0)

    def read(learner, label, rounds):
        deviation, rate = learner._direction._sums.deviation(1), learner._direction._rate
        g = learner._moment(np.ones(1), label, 1)
        learner.learn([1.0], label)
        fresh = g[0] + deviation * rng.normal(size=64)
        return 0.8 * np.clip(-rate * fresh, -1, 1).mean(keepdims=True)

    assert bound(scores(EPSILON, mechanism, 1, 500, read), mechanism) > EPSILON


@BOTH
def test_audit__catches_moments_that_are_not_clipped(mechanism, halved, monkeypatch):
    monkeypatch.setattr(streaming, "clipped", lambda g, bound, q: g)

    def read(learner, label, rounds):  # the running sum's own check of its rows is removed too
        learner._direction._sums.bound = math.inf
        return thetas(learner, label, rounds)

    assert bound(scores(EPSILON, mechanism, 1, 800, read), mechanism) > EPSILON


def vertices(label, tamper, runs, epsilon=EPSILON, n=8):
    """One pure choice among n vertices. The moment is +-clip at vertex 0, -+clip elsewhere."""
    x, noise, seen = np.ones(n), SeededNoise(2), []
    x[0] = -1.0
    for _ in range(runs):
        learner = StreamingFrankWolfe(Simplex(n), 1, epsilon, 0.0, clip=0.1, noise=noise)
        tamper(learner)
        learner.learn(x, label)
        v = (learner.theta - 1 / n) * 3 / 2 + 1 / n  # power 1: theta = start + (v - start) 2/3
        seen.append(float(v[0] > 0.5))
    return np.array(seen)


def honest(learner):
    pass


def wrong_sign(learner, rng=np.random.default_rng(3)):  # noqa: B008 - one stream for all runs
    choice = learner._direction

    def choose(total, t):
        return int(np.argmin(total + rng.gumbel(0, choice.scale(t), len(total)))), 1.0

    choice._choose = choose


def test_audit__gumbel_choice_stays_below_and_the_wrong_sign_is_caught():
    def proved(tamper, epsilon=EPSILON, confidence=SURE):
        sides = [vertices(y, tamper, 3000, epsilon) for y in (-1.0, 1.0)]
        return audit_scores(*sides, confidence=confidence).lower_bound

    assert proved(honest) <= EPSILON
    assert proved(honest, confidence=0.95) >= 0.3 * EPSILON
    assert proved(honest, epsilon=2.5 * EPSILON) > EPSILON  # too little noise
    assert proved(wrong_sign) > EPSILON


def test_audit__catches_vertices_from_moments_that_are_not_clipped(monkeypatch):
    monkeypatch.setattr(streaming, "clipped", lambda g, bound, q: g)
    sides = [vertices(y, honest, 1000) for y in (-1.0, 1.0)]
    assert audit_scores(*sides, confidence=SURE).lower_bound > EPSILON


def test_audit__choices_over_many_rounds_stay_below_the_claim():
    """All thetas of a run with several choices; the row in doubt comes first."""
    noise, sides = SeededNoise(5), []
    unused = StreamingFrankWolfe(LpBall(1, 1), 24, EPSILON, DELTA, clip=0.1, noise=noise)
    assert isinstance(unused._direction, VertexDirection)
    assert unused._direction.choices >= 4
    for label in (-1.0, 1.0):
        side = []
        for _ in range(1500):
            learner = copy.deepcopy(unused)  # calibrating anew takes longer than the run
            learner._direction._noise = noise
            side.append(steps(thetas(learner, label, 24), power=1).sum())
        sides.append(np.array(side))
    assert audit_scores(*sides, delta=DELTA, confidence=SURE).lower_bound <= EPSILON
