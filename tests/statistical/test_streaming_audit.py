"""Attacks on the released thetas of StreamingFrankWolfe: below the claim, and catching bugs.

One row is replaced; the attacker sees every theta and knows all other rows. A claim is refuted, or
a bug caught, at 99.99% confidence each. The bugs: half the noise, g that is not clipped, fresh
noise at every read, a price for one row where a person has two, choices that are not added up,
argmin(score + Gumbel) for argmin(score - Gumbel).
"""

import functools
import itertools
import math

import numpy as np
import pytest

from discreet.audit import audit_scores
from discreet.domains import Cube, LpBall, Simplex
from discreet.optimization import frank_wolfe
from discreet.optimization.directions import VertexDirection
from discreet.optimization.frank_wolfe import StreamingFrankWolfe
from discreet.privacy import Budget, SeededNoise, Tree, budget, gaussian_mu, prefix
from discreet.privacy.calibration import best_calibration
from discreet.privacy.gaussian import gaussian_epsilon
from discreet.privacy.tree import TreeSum

EPSILON, DELTA, SURE = 1.0, 1e-6, 0.9999
HALVED = gaussian_epsilon(2 * gaussian_mu(EPSILON, DELTA), DELTA)  # half the Gaussian noise
BINARY = Tree(branching=2)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Calibrates once for all runs of an attack: the same, only faster."""
    plans = {}

    def planned(task, mechanism):
        key = (task.horizon, task.dim, task.budget, task.sensitivity, mechanism)
        if key not in plans:
            plans[key] = best_calibration(task, mechanism)
        return plans[key]

    monkeypatch.setattr(prefix, "best_calibration", planned)
    monkeypatch.setattr(budget, "zcdp_rho", functools.cache(budget.zcdp_rho))


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
                Cube(1),
                rounds,
                epsilon,
                DELTA,
                gradient_bound=0.1,
                mechanism=mechanism,
                noise=noise,
            )
            side.append(steps(read(learner, label, rounds)).sum())
        sides.append(np.array(side))
    return sides


BOTH = pytest.mark.parametrize(
    ("mechanism", "halved"), [("blt", HALVED), (BINARY, 2 * EPSILON)], ids=["blt", "tree"]
)


@pytest.mark.thorough
@BOTH
def test_audit__one_round_shows_all_there_is_to_see(mechanism, halved):
    """A sign of noise around +-clip: for Gaussian noise no threshold is better than any other."""
    seen = scores(EPSILON, mechanism, 1, 2500)
    assert bound(seen, mechanism) <= EPSILON
    assert bound(seen, mechanism, 0.95) >= 0.3 * EPSILON
    assert bound(scores(halved, mechanism, 1, 2500), mechanism) > EPSILON


GAUSSIAN_TREE = Tree(branching=2, balanced=False)


def best_scores(epsilon, mechanism, rounds, runs, rows=1, contributions=1):
    """The best linear attack on all running sums, for a person with the first `rows` rows.

    Every coordinate has noise of its own, of a scale that no dimension enters: one learner with the
    moment in each of its coordinates is as many runs. Steps are small and no sum is cut off at the
    border: that is after the release. The sums are A x + B z, z white, and the person moves sum t
    by min(t, rows) moments.
    """
    sides = []
    for seed, label in enumerate((-1.0, 1.0)):
        learner = StreamingFrankWolfe(
            Cube(runs), rounds, epsilon, DELTA, gradient_bound=0.1, mechanism=mechanism,
            contributions=contributions, noise=SeededNoise(seed),
        )  # fmt: skip
        moment = np.full(runs, -label * learner.bound)
        learner._moment = lambda x, y, t, g=moment: g if t <= rows else 0 * g
        learner._direction._rate, learner._direction._sums.bound = 1e-4, 1e99
        path = np.zeros((rounds + 1, runs))
        for t in range(1, rounds + 1):
            learner.learn(np.zeros(runs), 0.0)
            path[t] = learner.theta
        t = np.arange(1, rounds + 1)[:, None]
        sides.append(path[:-1] + np.diff(path, axis=0) * (t + 4) / 4)
    plan = learner._direction._sums._calibration
    assert plan.release.mechanism == "gaussian"
    B = mixing(plan.design, rounds)
    signal = np.minimum(np.arange(1, rounds + 1), rows)
    weights = np.linalg.lstsq(B @ B.T, signal, rcond=1e-9)[0]
    return [weights @ side for side in sides]


def mixing(design, rounds):
    """B: one column for each independent draw of noise."""
    if not isinstance(design, Tree):
        return design.filter(rounds).steps(np.eye(rounds))
    fresh = iter(np.eye(4 * rounds))
    draw = TreeSum(
        design,
        rounds,
        4 * rounds,
        lambda level, count: np.array([next(fresh) for _ in range(count)]),
    )
    return np.array([draw.add(np.zeros(4 * rounds)) for _ in range(rounds)])


@pytest.mark.parametrize(
    ("mechanism", "rounds"), [("blt", 24), (GAUSSIAN_TREE, 7)], ids=["blt", "Gaussian tree"]
)
def test_audit__many_rounds_stay_below_the_claim(mechanism, rounds):
    seen = best_scores(EPSILON, mechanism, rounds, 6000)
    assert bound(seen) <= EPSILON
    assert bound(seen, confidence=0.95) >= 0.3 * EPSILON
    assert bound(best_scores(HALVED, mechanism, rounds, 6000)) > EPSILON


@pytest.mark.parametrize("mechanism", ["blt", GAUSSIAN_TREE], ids=["blt", "Gaussian tree"])
def test_audit__two_rows_of_one_person_stay_below_the_claim_only_if_paid_for(mechanism):
    assert bound(best_scores(EPSILON, mechanism, 4, 6000, rows=2, contributions=2)) <= EPSILON
    assert bound(best_scores(EPSILON, mechanism, 4, 6000, rows=2, contributions=1)) > EPSILON


def generalized(epsilon, runs=1000, n=10):
    """One round of l_r noise at q = 1001, entries alike: the row that moves most in l_r."""
    noise, sides = SeededNoise(8), []
    for label in (-0.35, 0.35):
        side = np.empty(runs)
        for run in range(runs):
            learner = StreamingFrankWolfe(
                LpBall(1.001, n), 1, epsilon, DELTA, gradient_bound=0.05, noise=noise,
                mechanism="generalized-gaussian",
            )  # fmt: skip
            learner._direction._rate = 1e-3
            learner.learn(np.ones(n), label)
            side[run] = learner.theta.sum()
        sides.append(side)
    return sides


def test_audit__generalized_gaussian_stays_below_the_claim(monkeypatch):
    assert bound(generalized(EPSILON)) <= EPSILON
    less_noise = 3 * EPSILON
    assert bound(generalized(less_noise)) > EPSILON
    monkeypatch.setattr(frank_wolfe, "clipped", lambda g, bound, q: g)
    assert bound(generalized(EPSILON)) > EPSILON


@BOTH
def test_audit__catches_noise_drawn_at_every_read(mechanism, halved):
    """One row, one release, read 64 times: the bug draws the noise of the release each time."""
    rng = np.random.default_rng(0)

    def read(learner, label, rounds):
        std, rate = learner._direction._sums.std(1), learner._direction._rate
        g = learner._moment(np.ones(1), label, 1)
        learner.learn([1.0], label)
        fresh = g[0] + std * rng.normal(size=64)
        return 0.8 * np.clip(-rate * fresh, -1, 1).mean(keepdims=True)

    assert bound(scores(EPSILON, mechanism, 1, 500, read), mechanism) > EPSILON


@BOTH
def test_audit__catches_moments_that_are_not_clipped(mechanism, halved, monkeypatch):
    monkeypatch.setattr(frank_wolfe, "clipped", lambda g, bound, q: g)

    def read(learner, label, rounds):  # the running sum's own check of its rows is removed too
        learner._direction._sums.bound = 1e99
        return thetas(learner, label, rounds)

    assert bound(scores(EPSILON, mechanism, 1, 800, read), mechanism) > EPSILON


def vertices(label, tamper, runs, epsilon=EPSILON, n=8):
    """One pure choice among n vertices. The moment is +-clip at vertex 0, -+clip elsewhere."""
    x, noise, seen = np.ones(n), SeededNoise(2), []
    x[0] = -1.0
    for _ in range(runs):
        learner = StreamingFrankWolfe(Simplex(n), 1, epsilon, 0.0, gradient_bound=0.1, noise=noise)
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
    monkeypatch.setattr(frank_wolfe, "clipped", lambda g, bound, q: g)
    sides = [vertices(y, honest, 1000) for y in (-1.0, 1.0)]
    assert audit_scores(*sides, confidence=SURE).lower_bound > EPSILON


def exact_delta(tamper, n=8, rounds=24):
    """delta(epsilon = 1) of all choices of a run, over every pattern of "vertex 0 or another".

    The row in doubt moves S_0 by `moved` and all other entries by as much the other way, around
    many offsets. tests/optimization/test_frank_wolfe.py tests that choices are distributed so.
    """
    choice = VertexDirection(
        n, rounds, Budget(EPSILON, DELTA), bound=0.1, noise=SeededNoise(0), signed=False
    )
    moved = 2 * 0.1
    tamper(choice)
    times = [t for t in range(1, rounds + 1) if choice.due(t)]
    assert len(times) == 4
    patterns, worst = np.array(list(itertools.product((False, True), repeat=4))), 0.0
    scale = np.array([choice.scale(t) for t in times])
    for offset in np.linspace(-40, 40, 161) * moved:
        first, second = (1 / (1 + (n - 1) * np.exp((s + offset) / scale)) for s in (-moved, moved))
        P, Q = (np.where(patterns, p, 1 - p).prod(axis=1) for p in (first, second))
        for a, b in ((P, Q), (Q, P)):
            worst = max(worst, float(np.maximum(a - math.exp(EPSILON) * b, 0).sum()))
    return worst


def half_moved(choice):
    choice._moved /= 2


def no_composition(choice):
    choice.epsilon = lambda t: math.sqrt(8 * choice._rho)


def whole_budget_each(choice):
    choice.epsilon = lambda t: EPSILON


def test_audit__choices_over_many_rounds_stay_below_the_claim_exactly():
    assert exact_delta(honest) <= DELTA
    for bug in (half_moved, no_composition, whole_budget_each):
        assert exact_delta(bug) > 1e-3
