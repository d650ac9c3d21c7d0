"""Each polytope against its vertices and its sides, both written here once more."""

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import linprog

from discreet.domains import (
    BasePolytope,
    BirkhoffPolytope,
    Domain,
    FlowPolytope,
    LpBall,
    MatroidPolytope,
)
from discreet.domains.hull import inner_ball
from discreet.online import FTPL
from discreet.privacy import SeededNoise
from discreet.state import NotInFile, decode, encode


class Case(NamedTuple):
    domain: Domain
    vertices: np.ndarray
    A: np.ndarray  # A x <= b
    b: np.ndarray
    E: np.ndarray  # E x = e
    e: np.ndarray


def subsets(n):
    return [S for size in range(n + 1) for S in itertools.combinations(range(n), size)]


def indicator(n, S):
    return np.isin(np.arange(n), S).astype(float)


def submodular(domain, f, vertices, *, bases, positive):
    """Sides from all sets; f takes a tuple."""
    n = domain.dim
    sets = subsets(n)[1:]
    A, b = np.array([indicator(n, S) for S in sets]), np.array([f(S) for S in sets], dtype=float)
    E, e = (A[-1:], b[-1:]) if bases else (np.zeros((0, n)), np.zeros(0))
    if positive:
        A, b = np.vstack([A, -np.eye(n)]), np.append(b, np.zeros(n))
    return Case(domain, np.array(vertices, dtype=float), A, b, E, e)


def matroid(domain, independent, *, bases):
    n = domain.dim
    families = [S for S in subsets(n) if independent(S)]
    rank = {S: max(len(T) for T in families if set(T) <= set(S)) for S in subsets(n)}
    top = rank[tuple(range(n))]
    ends = [indicator(n, S) for S in families if not bases or len(S) == top]
    return submodular(domain, rank.__getitem__, ends, bases=bases, positive=True)


def forest(edges):
    """Independent columns of the incidence matrix."""
    nodes = sorted({v for edge in edges for v in edge})
    incidence = np.array([[(v == a) * 1.0 - (v == b) * 1.0 for a, b in edges] for v in nodes])
    return lambda S: len(S) == 0 or np.linalg.matrix_rank(incidence[:, list(S)]) == len(S)


def base(n, f):
    greedy = []
    for order in itertools.permutations(range(n)):
        x = np.zeros(n)
        for i, element in enumerate(order):
            x[element] = f(frozenset(order[: i + 1])) - f(frozenset(order[:i]))
        greedy.append(x)
    domain = BasePolytope(n, f)
    return submodular(domain, lambda S: f(frozenset(S)), greedy, bases=True, positive=False)


def flow(edges, source, sink):
    paths = []

    def walk(node, used):
        if node == sink:
            paths.append(indicator(len(edges), used))
            return
        for i, (u, v) in enumerate(edges):
            if u == node:
                walk(v, [*used, i])

    walk(source, [])
    nodes = sorted({v for edge in edges for v in edge} - {sink}, key=str)
    E = np.array([[(v == a) * 1.0 - (v == b) * 1.0 for a, b in edges] for v in nodes])
    e = np.array([float(v == source) for v in nodes])
    n = len(edges)
    return Case(FlowPolytope(edges, source, sink), np.array(paths), -np.eye(n), np.zeros(n), E, e)


def birkhoff(n):
    ends = np.array([np.eye(n)[list(p)].ravel() for p in itertools.permutations(range(n))])
    E = np.vstack([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
    return Case(BirkhoffPolytope(n), ends, -np.eye(n * n), np.zeros(n * n), E, np.ones(2 * n))


def lp(p, n, radius):
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=n)))
    axes = np.vstack([np.eye(n), -np.eye(n)])
    ends, A = (radius * axes, signs) if p == 1 else (radius * signs, axes)
    none = np.zeros((0, n))
    return Case(LpBall(p, n, radius), ends, A, np.full(len(A), radius), none, np.zeros(0))


COVER = [{0, 1}, {1, 2, 3}, {3}, {0, 3, 4}, {5}]
GRID = [((i, j), (i + 1, j)) for i in range(2) for j in range(3)]
GRID += [((i, j), (i, j + 1)) for i in range(3) for j in range(2)]
GRID = [(3 * a + b, 3 * c + d) for (a, b), (c, d) in GRID]
K4 = list(itertools.combinations(range(4), 2))
KITE = [
    ("a", "b"),
    ("b", "c"),
    ("c", "a"),
    ("c", "d"),
    ("a", "b"),
    ("d", "d"),
]  # bridge, twin, loop
GROUPS, LIMITS = [0, 1, 0, 1, 1, 2, 3], [1, 2, 1, 0]


def in_groups(S):
    return all(sum(GROUPS[i] == j for i in S) <= most for j, most in enumerate(LIMITS))


def gf2(S):
    """The Fano plane: non-zero columns over two elements."""
    return (
        all(
            np.bitwise_xor.reduce([i + 1 for i in T])
            for size in range(1, 4)
            for T in itertools.combinations(S, size)
        )
        and len(S) <= 3
    )


CASES = {
    "uniform": matroid(MatroidPolytope.uniform(6, 2), lambda S: len(S) <= 2, bases=False),
    "uniform bases": matroid(
        MatroidPolytope.uniform(6, 2, bases=True), lambda S: len(S) <= 2, bases=True
    ),
    "all but one": matroid(
        MatroidPolytope.uniform(5, 4, bases=True), lambda S: len(S) <= 4, bases=True
    ),
    "partition": matroid(MatroidPolytope.partition(GROUPS, LIMITS), in_groups, bases=False),
    "partition bases": matroid(
        MatroidPolytope.partition(GROUPS, LIMITS, bases=True), in_groups, bases=True
    ),
    "forests": matroid(MatroidPolytope.graphic(K4), forest(K4), bases=False),
    "trees": matroid(MatroidPolytope.graphic(K4, bases=True), forest(K4), bases=True),
    "kite forests": matroid(MatroidPolytope.graphic(KITE), forest(KITE), bases=False),
    "kite trees": matroid(MatroidPolytope.graphic(KITE, bases=True), forest(KITE), bases=True),
    "fano": matroid(MatroidPolytope(7, gf2), gf2, bases=False),
    "fano bases": matroid(MatroidPolytope(7, gf2, bases=True), gf2, bases=True),
    "base of sqrt": base(5, lambda S: math.sqrt(len(S))),
    "base of cover": base(5, lambda S: float(len(set().union(*(COVER[i] for i in S))))),
    "base of cut": base(4, lambda S: float(sum((i in S) != (j in S) for i, j in K4[:-1]))),
    "grid": flow(GRID, 0, 8),
    "dead ends": flow([(0, 1), (1, 3), (0, 3), (0, 2), (4, 3), (1, 3), (3, 5)], 0, 3),
    "bridge": flow(
        [("s", "a"), ("s", "a"), ("a", "b"), ("b", "t"), ("b", "c"), ("c", "t")], "s", "t"
    ),
    "one path": flow([(0, 1), (1, 2)], 0, 2),
    "birkhoff 2": birkhoff(2),
    "birkhoff 4": birkhoff(4),
    "l1": lp(1, 4, 2.0),
    "linf": lp(math.inf, 3, 0.5),
}
EXACT_RADIUS = ("bases", "trees", "but one", "base of", "grid", "bridge", "birkhoff", "l1", "linf")
EXACT_DIAMETER = ("uniform", "trees", "birkhoff", "l1", "linf")
every = pytest.mark.parametrize("name", CASES)


def weights(n, seed=0):
    rng = np.random.default_rng(seed)
    small = rng.integers(-1, 2, (15, n)).astype(float)  # ties and zeros
    fixed = np.array([np.zeros(n), np.ones(n), -np.ones(n), -np.arange(n)])
    return np.vstack([rng.standard_normal((15, n)), small, fixed, np.abs(small), -np.abs(small)])


@every
def test_linear_minimizer__is_a_vertex_as_good_as_the_linear_program(name):
    case = CASES[name]
    for g in weights(case.domain.dim):
        x = case.domain.linear_minimizer(g)
        best = linprog(g, case.A, case.b, case.E, case.e, bounds=(None, None)).fun
        assert np.abs(case.vertices - x).max(axis=1).min() <= 1e-12
        assert g @ x == pytest.approx(best, abs=1e-9)


@every
def test_linear_minimizer__many_rows_equal_single_rows(name):
    domain = CASES[name].domain
    G = weights(domain.dim)[:6]
    single = np.array([domain.linear_minimizer(g) for g in G])
    assert np.array_equal(domain.linear_minimizer(G), single)
    assert np.array_equal(domain.linear_minimizer(G.reshape(2, 3, -1)).reshape(6, -1), single)


@every
def test_affine_hull__holds_the_vertices_and_no_more(name):
    case = CASES[name]
    hull, middle = case.domain.affine_hull, case.vertices.mean(axis=0)
    dimension = np.linalg.matrix_rank(case.vertices - middle, tol=1e-9)
    assert hull.basis.shape == (case.domain.dim, dimension)
    assert hull.basis.T @ hull.basis == pytest.approx(np.eye(dimension), abs=1e-12)
    again = hull.point(hull.coordinates(case.vertices))
    assert again == pytest.approx(case.vertices, abs=1e-9)


@every
def test_inner_radius__ball_is_inside_and_not_needlessly_small(name):
    case = CASES[name]
    hull, centre, radius = (
        case.domain.affine_hull,
        case.domain.interior_point,
        case.domain.inner_radius,
    )
    assert case.E @ centre == pytest.approx(case.e, abs=1e-9)
    slopes = case.A @ hull.basis
    lengths = np.linalg.norm(slopes, axis=1)
    sides = lengths > 1e-9
    if not sides.any():
        assert name == "one path"
        assert radius == 0
        return
    # The ball touches a side first in the direction of its normal: these are its worst points.
    worst = centre + radius * (slopes[sides] / lengths[sides, None]) @ hull.basis.T
    rng = np.random.default_rng(1)
    others = rng.standard_normal((200, slopes.shape[1]))
    others /= np.linalg.norm(others, axis=1, keepdims=True)
    for x in np.vstack([worst, centre + radius * others @ hull.basis.T]):
        assert (case.A @ x <= case.b + 1e-9).all()
    largest = ((case.b - case.A @ centre)[sides] / lengths[sides]).min()
    fraction = 1 - 1e-9 if any(word in name for word in EXACT_RADIUS) else 0.5
    assert radius >= fraction * largest > 0


@every
def test_frame__finds_hull_and_ball_by_linear_minimisation_alone(name):
    domain, vertices, A, b, E, e = CASES[name]
    hull, centre, radius = inner_ball(domain.linear_minimizer, domain.dim)
    assert hull.basis.shape == domain.affine_hull.basis.shape
    assert hull.point(hull.coordinates(vertices)) == pytest.approx(vertices, abs=1e-9)
    assert E @ centre == pytest.approx(e, abs=1e-9)
    lengths = np.linalg.norm(A @ hull.basis, axis=1)
    if hull.basis.size:
        largest = ((b - A @ centre)[lengths > 1e-9] / lengths[lengths > 1e-9]).min()
        assert 0.1 * largest <= radius <= largest * (1 + 1e-9)


@every
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, math.inf])
def test_diameter__bounds_every_distance(name, p):
    case = CASES[name]
    pairs = case.vertices[:, None] - case.vertices
    found = np.linalg.norm(pairs, ord=p, axis=2).max()
    bound = case.domain.diameter(p)
    assert found <= bound * (1 + 1e-12)
    if any(word in name for word in EXACT_DIAMETER) and "kite" not in name:
        assert found == pytest.approx(bound)
    elif len(case.vertices) > 1:
        assert bound <= 2.5 * found


@every
def test_contains__knows_inside_from_outside(name):
    domain, vertices, A, b, *_ = CASES[name]
    hull, centre = domain.affine_hull, domain.interior_point
    rng = np.random.default_rng(2)
    assert domain.contains(centre)
    for x in vertices[:10]:
        assert domain.contains(x)
    for weights in rng.dirichlet(np.full(len(vertices), 0.3), 5):
        assert domain.contains(weights @ vertices)
    for z in rng.standard_normal((5, hull.basis.shape[1])):
        far = centre + 10 * domain.diameter() * hull.basis @ z / max(np.linalg.norm(z), 1e-300)
        if hull.basis.size:
            slack, speed = b - A @ centre, A @ (far - centre)
            leave = (slack[speed > 1e-9] / speed[speed > 1e-9]).min()
            assert domain.contains(centre + 0.9999 * leave * (far - centre))
            assert not domain.contains(centre + 1.0001 * leave * (far - centre))
    across = np.eye(domain.dim) - hull.basis @ hull.basis.T
    for step in across[:, np.abs(across).max(axis=0) > 1e-9].T[:3]:
        assert not domain.contains(centre + 1e-3 * step)
    assert not domain.contains(np.full(domain.dim, math.nan))
    assert not domain.contains(np.zeros(domain.dim + 1))


@every
def test_state__makes_the_same_domain_again_or_says_why_not(name):
    domain = CASES[name].domain
    if "fano" in name or "base of" in name:
        with pytest.raises(NotInFile, match="give that argument to load"):
            decode(encode(domain))
        return
    again = decode(encode(domain))
    assert type(again) is type(domain)
    assert str(encode(again)) == str(encode(domain))
    G = weights(domain.dim)
    assert np.array_equal(again.linear_minimizer(G), domain.linear_minimizer(G))
    assert again.diameter() == domain.diameter()


@every
def test_ftpl__learns_on_every_domain(name):
    case = CASES[name]
    n = case.domain.dim
    loss = np.random.default_rng(3).standard_normal(n)
    loss /= np.linalg.norm(loss)
    learner = FTPL(case.domain, 400, 1.0, 1e-6, seed=0, noise=SeededNoise(0))
    X = learner.run(np.tile(loss, (400, 1)))
    assert np.abs(case.vertices - X[:, None]).max(axis=2).min(axis=1).max() <= 1e-12
    low, high = (case.vertices @ loss).min(), (case.vertices @ loss).max()
    assert X[-100:].mean(axis=0) @ loss <= low + 0.2 * (high - low)


def test_projection__only_where_it_is_fast():
    kinds = {name for name in CASES if CASES[name].domain.projects}
    assert kinds == {"l1", "linf"}


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("thin", [0.0, 1e-10, 1e-9, 1e-8, 1e-7, 1e-3, 1.0])
def test_frame__thin_small_and_large_boxes_have_a_hull(size, thin):
    sides = size * np.array([1.0, 0.5, thin, 0.0])
    hull, centre, radius = inner_ball(lambda g: np.where(g > 0, -sides, sides) + 3 * size, 4)
    dimension = hull.basis.shape[1]
    assert dimension == (2 if thin < 1e-9 else 3) or 1e-9 <= thin <= 1e-7
    assert (np.abs(centre - 3 * size) <= sides + 1e-12 * size).all()
    assert 0 < radius <= (sides[dimension - 1] if thin else 0.5 * size)
