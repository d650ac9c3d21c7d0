"""Simplex, cube, ball, polytope: each member against scipy (linprog, SLSQP) or brute force."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from discreet.domains import Ball, Cube, Polytope, Simplex
from discreet.state import decode, encode

TRIANGLE = Polytope([[-1, 0], [0, -1], [1, 2]], [1, 0.5, 3])
PRISM = Polytope(
    [[-1, 0, 0], [0, -1, 0], [1, 1, 0], [0, 0, 1], [0, 0, -1], [1, 0, 2]], [0, 0, 1, 2, 1, 3.5]
)
DOMAINS = {
    "simplex": Simplex(4),
    "cube": Cube(3),
    "ball": Ball(3),
    "line": Cube(1),
    "triangle": TRIANGLE,
    "prism": PRISM,
}
every = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
polyhedra = pytest.mark.parametrize(
    "domain", [d for d in DOMAINS.values() if not isinstance(d, Ball)]
)


def rows(domain):
    """A x <= b and whether x sums to one: written here once more, not taken from the domain."""
    n = domain.dim
    if isinstance(domain, Simplex):
        return -np.eye(n), np.zeros(n), (np.ones((1, n)), np.ones(1))
    if isinstance(domain, Cube):
        return np.vstack([np.eye(n), -np.eye(n)]), np.ones(2 * n), (None, None)
    return domain.A, domain.b, (None, None)


def slsqp(domain, objective, gradient):
    if isinstance(domain, Ball):
        constraints = [
            {"type": "ineq", "fun": lambda x: 1 - x @ x, "jac": lambda x: -2 * x},
        ]
    else:
        A, b, (E, e) = rows(domain)
        constraints = [{"type": "ineq", "fun": lambda x: b - A @ x, "jac": lambda x: -A}]
        if E is not None:
            constraints.append({"type": "eq", "fun": lambda x: E @ x - e, "jac": lambda x: E})
    return minimize(
        objective,
        domain.interior_point,
        jac=gradient,
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    ).x


def points(domain, count=20, scale=3.0, seed=0):
    return scale * np.random.default_rng(seed).standard_normal((count, domain.dim))


def inside(domain, count=20, seed=1):
    """Points strictly inside, as mixtures of projections and the interior point."""
    far = domain.project(points(domain, count, seed=seed))
    return 0.8 * far + 0.2 * domain.interior_point


@polyhedra
def test_linear_minimizer__is_as_good_as_the_linear_program(domain):
    A, b, (E, e) = rows(domain)
    for g in points(domain):
        x = domain.linear_minimizer(g)
        best = linprog(g, A_ub=A, b_ub=b, A_eq=E, b_eq=e, bounds=(None, None)).fun
        assert domain.contains(x)
        assert g @ x == pytest.approx(best, abs=1e-9)


def test_linear_minimizer__on_the_ball_is_the_opposite_direction():
    for g in points(Ball(3)):
        assert g @ Ball(3).linear_minimizer(g) == pytest.approx(-np.linalg.norm(g))
    assert Ball(3).contains(Ball(3).linear_minimizer(np.zeros(3)))


@every
def test_project__is_the_nearest_point_by_slsqp(domain):
    for y in points(domain):
        x = domain.project(y)
        other = slsqp(domain, lambda x, y=y: (x - y) @ (x - y) / 2, lambda x, y=y: x - y)
        assert domain.contains(x)
        assert x == pytest.approx(other, abs=2e-5)
        assert np.linalg.norm(x - y) <= np.linalg.norm(other - y) + 1e-7


@every
def test_project__leaves_points_of_the_domain_and_bears_far_ones(domain):
    for x in inside(domain):
        assert domain.project(x) == pytest.approx(x, abs=1e-12)
    for y in points(domain, scale=1e8):
        # first-order condition: y - x makes no acute angle with any direction into the domain
        x = domain.project(y)
        assert np.abs(x - domain.project(x)).max() <= 1e-6
        u = (y - x) / np.linalg.norm(y - x)
        assert (domain.linear_minimizer(-u) - x) @ u <= 1e-6


@every
def test_leader__minimises_loss_and_regulariser_by_slsqp(domain):
    for total in points(domain, count=10, scale=1.0):
        for rate in (0.3, 2.0):
            if isinstance(domain, Simplex):

                def value(x, total=total, rate=rate):
                    x = np.maximum(x, 1e-300)
                    return total @ x + (x * np.log(x)).sum() / rate

                def slope(x, total=total, rate=rate):
                    return total + (1 + np.log(np.maximum(x, 1e-300))) / rate
            else:

                def value(x, total=total, rate=rate):
                    return total @ x + ((x - domain.interior_point) ** 2).sum() / (2 * rate)

                def slope(x, total=total, rate=rate):
                    return total + (x - domain.interior_point) / rate

            x = domain.leader(total, rate)
            assert domain.contains(x)
            assert x == pytest.approx(slsqp(domain, value, slope), abs=1e-4)


@every
def test_many_rows__equal_single_rows(domain):
    Y = points(domain, 7)
    rates = np.linspace(0.1, 2, 7)[:, None]
    assert np.allclose(domain.project(Y), [domain.project(y) for y in Y], atol=1e-14)
    single = [domain.linear_minimizer(y) for y in Y]
    assert np.allclose(domain.linear_minimizer(Y), single, atol=1e-14)
    led = [domain.leader(y, float(r)) for y, r in zip(Y, rates[:, 0], strict=True)]
    assert np.allclose(domain.leader(Y, rates), led, atol=1e-14)


def test_leader__simplex_survives_huge_sums():
    total = np.array([1e9, 1e9 + 1, 3e9])
    assert Simplex(3).leader(total, 1.0) == pytest.approx(
        [1 / (1 + math.exp(-1)), 1 / (1 + math.e), 0]
    )


@every
def test_barrier__derivatives_match_differences(domain):
    barrier, hull, h = domain.barrier, domain.affine_hull, 1e-6
    m = hull.basis.shape[1]
    for x in inside(domain, 6):
        z = hull.coordinates(x)
        steps = h * np.eye(m)
        slope = [(barrier.value(z + e) - barrier.value(z - e)) / (2 * h) for e in steps]
        assert barrier.gradient(z) == pytest.approx(np.array(slope), rel=1e-5, abs=1e-5)
        bend = [(barrier.gradient(z + e) - barrier.gradient(z - e)) / (2 * h) for e in steps]
        assert barrier.hessian(z) == pytest.approx(np.array(bend), rel=1e-5, abs=1e-4)


@every
def test_barrier__nu_bounds_the_newton_length_and_is_reached_at_the_border(domain):
    barrier, hull = domain.barrier, domain.affine_hull
    lengths = []
    for x in inside(domain, 40):
        for pull in (0.5, 0.999, 0.9999999):
            far = domain.project(domain.interior_point + 1e3 * (x - domain.interior_point))
            z = hull.coordinates(domain.interior_point + pull * (far - domain.interior_point))
            g = barrier.gradient(z)
            lengths.append(g @ np.linalg.solve(barrier.hessian(z), g))
    assert max(lengths) <= barrier.nu * (1 + 1e-6)
    assert max(lengths) >= 0.9  # one active constraint makes it at least one


@every
def test_barrier__is_infinite_outside_and_its_ellipsoid_stays_inside(domain):
    barrier, hull = domain.barrier, domain.affine_hull
    rng = np.random.default_rng(2)
    for x in inside(domain, 10):
        z = hull.coordinates(x)
        root = np.linalg.cholesky(np.linalg.inv(barrier.hessian(z)))
        for _ in range(5):
            u = rng.standard_normal(len(z))
            step = root @ u / np.linalg.norm(u)  # Dikin: unit length in the Hessian's norm
            assert domain.contains(hull.point(z + step))
            assert barrier.value(z + 0.99 * step) < math.inf
    far = hull.coordinates(domain.interior_point) + 50.0
    assert barrier.value(far) == math.inf


@every
def test_affine_hull__maps_back_and_forth(domain):
    hull = domain.affine_hull
    assert hull.basis.T @ hull.basis == pytest.approx(np.eye(hull.basis.shape[1]), abs=1e-12)
    for x in inside(domain, 5):
        assert hull.point(hull.coordinates(x)) == pytest.approx(x, abs=1e-12)
    assert hull.basis.shape == (domain.dim, domain.dim - isinstance(domain, Simplex))


@every
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, math.inf])
def test_diameter__is_the_largest_distance_found(domain, p):
    ends = domain.linear_minimizer(points(domain, 400, seed=3))
    if isinstance(domain, Ball):
        n = domain.dim
        ends = np.vstack([ends, np.eye(n), -np.eye(n), np.ones(n) / n**0.5, -np.ones(n) / n**0.5])
    found = np.linalg.norm(ends[:, None] - ends, ord=p, axis=2).max()
    assert found <= domain.diameter(p) * (1 + 1e-9)
    exact = not isinstance(domain, Polytope) or math.isinf(p)
    assert found >= domain.diameter(p) * (1 - 1e-9 if exact else 0.4)


@every
def test_regularizer_range__bounds_the_regulariser(domain):
    ends = domain.linear_minimizer(points(domain, 200))
    if isinstance(domain, Simplex):
        assert domain.regularizer_range == pytest.approx(math.log(domain.dim))
        return
    found = ((ends - domain.interior_point) ** 2).sum(axis=1).max() / 2
    assert found <= domain.regularizer_range * (1 + 1e-9)
    assert found >= domain.regularizer_range * (0.4 if isinstance(domain, Polytope) else 1 - 1e-9)


@every
def test_contains__knows_inside_from_outside(domain):
    for x in inside(domain):
        assert domain.contains(x)
        assert not domain.contains(x + 10.0)
    assert not domain.contains(np.full(domain.dim, np.nan))
    assert not domain.contains(np.zeros(domain.dim + 1))
    assert domain.contains(domain.interior_point)


def test_polytope__interior_point_is_the_centre_of_the_largest_ball():
    gaps = (PRISM.b - PRISM.A @ PRISM.interior_point) / np.linalg.norm(PRISM.A, axis=1)
    assert gaps.min() == pytest.approx(PRISM.radius)
    square = Polytope(np.vstack([np.eye(2), -np.eye(2)]), [3.0, 1.0, 1.0, 1.0])
    assert square.radius == pytest.approx(1.0)


@every
def test_state__makes_the_same_domain_again(domain):
    again = decode(encode(domain))
    assert type(again) is type(domain)
    g = points(domain, 5)
    assert np.array_equal(again.linear_minimizer(g), domain.linear_minimizer(g))
    assert str(encode(again)) == str(encode(domain))


@pytest.mark.parametrize(
    ("A", "b", "words"),
    [
        ([[1.0, 0.0]], [1.0], "bounded"),
        ([[1.0], [-1.0]], [-1.0, 0.0], "interior"),
        ([[1.0], [-1.0]], [0.0, 0.0], "interior"),
        ([[1.0], [0.0]], [1.0, 1.0], "zero"),
        ([[1.0], [-1.0]], [1.0], "expected"),
        ([[math.nan], [-1.0]], [1.0, 1.0], "finite"),
    ],
    ids=["unbounded", "empty", "flat", "zero row", "shapes", "nan"],
)
def test_polytope__refuses_what_is_no_body(A, b, words):
    with pytest.raises(ValueError, match=words):
        Polytope(A, b)


def test_domains__refuse_bad_sizes():
    for make in (Simplex, Cube, Ball):
        with pytest.raises(ValueError, match="n must be"):
            make(0)
    with pytest.raises(ValueError, match="at least 2"):
        Simplex(1)
    with pytest.raises(ValueError, match="p must be"):
        Cube(2).diameter(0.5)


@every
def test_inner_radius__is_the_distance_to_the_nearest_side(domain):
    hull, centre = domain.affine_hull, domain.interior_point
    if isinstance(domain, Ball):
        assert domain.inner_radius == 1.0
        return
    A, b, _ = rows(domain)
    slopes = np.linalg.norm(A @ hull.basis, axis=1)
    assert domain.inner_radius == pytest.approx(((b - A @ centre) / slopes).min())


CORNER = Polytope([[-1, 0], [0, -1], [1, 1]], [0, 0, 1])


@pytest.mark.parametrize("size", [1e-12, 1e-8, 1.0, 1e12, 1e21])
def test_polytope__the_minimiser_does_not_depend_on_the_size_of_the_loss(size):
    assert np.allclose(CORNER.linear_minimizer(size * np.array([-2.0, -1.0])), [1, 0])


@pytest.mark.parametrize("size", [1e3, 1e6, 1e9, 1e12])
def test_polytope__points_from_far_away_are_projected_into_it(size):
    rng = np.random.default_rng(0)
    for y in size * rng.standard_normal((30, 2)):
        x = CORNER.project(y)
        assert (CORNER.A @ x - CORNER.b).max() <= 1e-9
        best = min(np.linalg.norm(y - v) for v in np.array([[0, 0], [1, 0], [0, 1]]))
        assert np.linalg.norm(y - x) <= best * (1 + 1e-12)
