"""The nearest point by linear minimisation alone, against projections and plain Frank-Wolfe."""

import itertools

import numpy as np
import pytest

from discreet.domains import (
    Ball,
    Cube,
    LpBall,
    MatroidPolytope,
    Polytope,
    Simplex,
    TraceNormBall,
)
from discreet.domains.conditional_gradient import nearest_point

SETS = {
    "simplex": Simplex(20),
    "cube": Cube(15),
    "ball": Ball(10),
    "l1": LpBall(1, 12, 3.0),
    "l1.5": LpBall(1.5, 12, 0.7),
    "trace": TraceNormBall(4, 5, 2.0),
    "triangle": Polytope([[-1, 0], [0, -1], [1, 2]], [1, 0.5, 3]),
}
every = pytest.mark.parametrize("name", SETS)


class Counting:
    """A domain that counts calls, as all that `nearest_point` may use."""

    def __init__(self, domain):
        self.domain, self.calls = domain, 0

    def linear_minimizer(self, g):
        self.calls += 1
        return self.domain.linear_minimizer(g)


def plain(domain, target, start, calls):
    """Frank and Wolfe's steps alone; the gap after that many calls."""
    x = start.copy()
    for _ in range(calls):
        slope = x - target
        move = domain.linear_minimizer(slope) - x
        gap = -slope @ move
        x = x + min(1.0, gap / max(move @ move, 1e-300)) * move
    return gap


def targets(domain, seed=0):
    rng = np.random.default_rng(seed)
    start = domain.linear_minimizer(rng.standard_normal(domain.dim))
    for scale in (0.02, 0.3, 3.0, 100.0):
        yield scale * rng.standard_normal(domain.dim), start


@every
def test_nearest_point__is_the_projection_within_its_gap(name):
    domain = SETS[name]
    for (target, start), gap in itertools.product(targets(domain), (1e-2, 1e-6, 1e-11)):
        counting = Counting(domain)
        found = nearest_point(counting, target, start, gap=gap, max_calls=2000)
        best = domain.project(target)
        excess = ((found.point - target) ** 2).sum() / 2 - ((best - target) ** 2).sum() / 2
        assert excess <= found.gap + 1e-9 * (1 + target @ target)
        assert found.gap <= max(gap, 1e-10 * np.linalg.norm(target))
        assert np.linalg.norm(found.point - best) <= np.sqrt(2 * gap) + 1e-6
        assert found.calls == counting.calls < 400
        assert domain.contains(found.point)


@every
def test_nearest_point__a_warm_start_at_the_answer_takes_one_call(name):
    domain = SETS[name]
    for target, _ in targets(domain):
        best = domain.project(target)
        found = nearest_point(domain, target, best, gap=1e-5, max_calls=50)
        assert found.calls == 1
        assert np.array_equal(found.point, best)


@pytest.mark.parametrize("name", ["simplex", "cube", "l1"])
def test_nearest_point__needs_far_fewer_calls_than_plain_steps(name):
    domain = SETS[name]
    rng = np.random.default_rng(1)
    for _ in range(5):
        start = domain.linear_minimizer(rng.standard_normal(domain.dim))
        inside = 0.5 * domain.project(rng.standard_normal(domain.dim))
        found = nearest_point(domain, inside, start, gap=1e-10, max_calls=1000)
        assert found.gap <= 1e-10
        assert found.calls <= 3 * domain.dim + 5
        assert plain(domain, inside, start, 10 * found.calls) > 1e-8


def test_nearest_point__stops_when_calls_run_out_with_a_gap_that_holds():
    domain, rng = SETS["cube"], np.random.default_rng(2)
    target, start = 0.9 * rng.standard_normal(15), -np.ones(15)
    best = ((domain.project(target) - target) ** 2).sum() / 2
    values = []
    for calls in range(1, 12):
        found = nearest_point(domain, target, start, gap=1e-12, max_calls=calls)
        values.append(((found.point - target) ** 2).sum() / 2)
        assert found.calls == calls
        assert values[-1] - best <= found.gap
    assert all(np.diff(values) < 0)
    assert values[0] < ((start - target) ** 2).sum() / 2


def test_nearest_point__stays_accurate_when_atoms_are_merged():
    # the corner of a cube's face needs more atoms than are kept
    domain, rng = Cube(400), np.random.default_rng(3)
    target = 0.8 * rng.standard_normal(400)
    found = nearest_point(domain, target, np.ones(400), gap=1e-3, max_calls=800)
    assert found.gap <= 1e-3
    assert found.point == pytest.approx(domain.project(target), abs=1e-3)


def test_nearest_point__on_spanning_trees_meets_the_optimality_condition():
    domain = MatroidPolytope.graphic(itertools.combinations(range(7), 2), bases=True)
    rng = np.random.default_rng(4)
    for _ in range(5):
        target = rng.standard_normal(21)
        start = domain.linear_minimizer(np.zeros(21))
        x = nearest_point(domain, target, start, gap=1e-11, max_calls=1000).point
        for y in domain.linear_minimizer(rng.standard_normal((200, 21))):
            assert (x - target) @ (x - y) <= 1e-10


def test_nearest_point__refuses_bad_input():
    ok = {"gap": 1e-3, "max_calls": 5}
    with pytest.raises(ValueError, match="target and start"):
        nearest_point(Ball(2), [0, 0, 0], [0, 0], **ok)
    with pytest.raises(ValueError, match="finite"):
        nearest_point(Ball(2), [0, np.nan], [0, 0], **ok)
    with pytest.raises(ValueError, match="gap"):
        nearest_point(Ball(2), [0, 0], [0, 0], gap=0.0, max_calls=5)
    with pytest.raises(ValueError, match="max_calls"):
        nearest_point(Ball(2), [0, 0], [0, 0], gap=1.0, max_calls=0)
