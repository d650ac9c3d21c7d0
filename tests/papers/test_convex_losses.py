"""Loss sequences for convex bandits: bounds, slopes and comparators."""

import numpy as np
import pytest

from discreet.domains import Ball, Cube, Simplex
from papers.convex_losses import NAMES, convex_losses

DOMAINS = [Simplex(5), Cube(3), Ball(4)]


def somewhere(domain, rng, margin=0.0):
    """A point of the domain, or one at distance `margin` from it, in its affine hull."""
    ends = np.array([domain.linear_minimizer(g) for g in rng.normal(size=(3, domain.dim))])
    unit = rng.normal(size=domain.affine_hull.basis.shape[1])
    step = domain.affine_hull.basis @ (margin * unit / np.linalg.norm(unit))
    return rng.dirichlet(np.full(3, 0.3)) @ ends + step


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("domain", DOMAINS, ids=["simplex", "cube", "ball"])
@pytest.mark.parametrize("margin", [0.0, 0.3])
def test_losses__lie_in_their_range_on_the_widened_domain(name, domain, margin):
    world, rng = convex_losses(name, domain, 2000, seed=1), np.random.default_rng(2)
    low, high = world.loss_range(margin)
    values = [world.losses(somewhere(domain, rng, margin)) for _ in range(50)]
    assert low - 1e-12 <= np.min(values)
    assert np.max(values) <= high + 1e-12
    assert np.ptp(values) > 0.5 * (high - low), "the range is not idle"


@pytest.mark.parametrize("name", NAMES)
def test_losses__are_convex_and_1_lipschitz(name):
    world, rng = convex_losses(name, Simplex(4), 500, seed=3), np.random.default_rng(4)
    for _ in range(50):
        x, y = somewhere(Simplex(4), rng), somewhere(Simplex(4), rng, 0.1)
        f, g = world.losses(x), world.losses(y)
        assert (world.losses((x + y) / 2) <= (f + g) / 2 + 1e-12).all()
        assert (np.abs(f - g) <= np.linalg.norm(x - y) + 1e-12).all()
    np.testing.assert_allclose(np.linalg.norm(world.slopes, axis=1), 1.0)


@pytest.mark.parametrize("name", NAMES)
def test_losses__one_by_one_are_those_of_all_rounds(name):
    domain, rng = Cube(2), np.random.default_rng(0)
    world = convex_losses(name, domain, 40, seed=0)
    points = np.array([somewhere(domain, rng) for _ in range(40)])
    each = [world.loss(t, points[t]) for t in range(40)]
    np.testing.assert_allclose(world.losses(points), each)
    assert world.regret(points) == pytest.approx(sum(each) - world.losses(world.best).sum())


def test_linear__no_point_is_better_than_the_comparator():
    domain = Simplex(6)
    world = convex_losses("linear", domain, 3000, seed=5)
    assert min(world.regret(vertex) for vertex in np.eye(6)) == pytest.approx(0.0, abs=1e-9)
    assert world.regret(domain.interior_point) > 300


def test_absolute__the_comparator_is_within_a_few_units_of_the_best_in_hindsight():
    """Expected excess is about n/2 in units of the noise, whatever the horizon."""
    domain, rng = Simplex(3), np.random.default_rng(6)
    for rounds in (2000, 20_000):
        world = convex_losses("absolute", domain, rounds, seed=7)
        near = [
            world.best + s * (somewhere(domain, rng) - world.best)
            for s in np.geomspace(1e-4, 1, 300)
        ]
        assert min(world.regret(x) for x in near) > -5
        assert world.regret(domain.interior_point) > 0.05 * rounds


def test_losses__the_seed_decides():
    a, b, c = (convex_losses("absolute", Ball(3), 100, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(a.offsets, b.offsets)
    assert not np.array_equal(a.offsets, c.offsets)


@pytest.mark.parametrize(
    "wrong", [{"name": "cubic"}, {"rounds": 0}, {"noise": -1.0}, {"drift": np.nan}, {"seed": -1}]
)
def test_wrong_arguments_are_refused(wrong):
    about = {"name": "linear", "domain": Ball(2), "rounds": 10, "seed": 0, **wrong}
    with pytest.raises(ValueError, match=next(iter(wrong))):
        convex_losses(**about)
