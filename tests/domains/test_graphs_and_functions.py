"""Matroids, set functions and graphs: what they refuse, and how fast they are."""

import itertools
import time

import numpy as np
import pytest

from discreet.domains import (
    BasePolytope,
    BirkhoffPolytope,
    FlowPolytope,
    MatroidPolytope,
    TraceNormBall,
)

PAIR = [("a", "b"), ("c", "d")]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: FlowPolytope([(0, 1), (1, 2), (2, 1), (1, 3)], 0, 3), "cycle"),
        (lambda: FlowPolytope([(0, 0), (0, 1)], 0, 1), "cycle"),
        (lambda: FlowPolytope([(0, 1), (2, 3)], 0, 3), "cannot be reached"),
        (lambda: FlowPolytope([(1, 0)], 0, 1), "cannot be reached"),
        (lambda: FlowPolytope([(0, 1)], 0, 7), "nodes of some edge"),
        (lambda: FlowPolytope([], 0, 1), "nodes of some edge"),
        (lambda: FlowPolytope([(0, 1)], 0, 0), "differ"),
        (lambda: FlowPolytope([(0, 1.5)], 0, 1.5), "integers or strings"),
        (lambda: MatroidPolytope.uniform(3, 4), "at most n"),
        (lambda: MatroidPolytope.uniform(3, 0), "k must be"),
        (lambda: MatroidPolytope.partition([0, 1], [1]), "index of its group"),
        (lambda: MatroidPolytope.partition([0, 0], [3]), "size of its group"),
        (lambda: MatroidPolytope.partition([0, 0], [-1]), "size of its group"),
        (lambda: MatroidPolytope.partition([0.5, 0], [1]), "integers"),
        (lambda: MatroidPolytope.partition([0, 0], [0]), "no element"),
        (lambda: MatroidPolytope.graphic(PAIR, bases=True), "not connected"),
        (lambda: MatroidPolytope.graphic([]), "at least one edge"),
        (lambda: MatroidPolytope.graphic([(1, 1)]), "no element"),
        (lambda: MatroidPolytope(2, lambda S: len(S) > 0), "empty set"),
        (lambda: MatroidPolytope(3, lambda S: set(S) <= {0} or set(S) <= {1, 2}), "not a matroid"),
        (lambda: BasePolytope(4, lambda S: float(len(S) ** 2)), "not submodular"),
        (lambda: BasePolytope(4, lambda S: 1.0), "empty set"),
        (lambda: BasePolytope(4, lambda S: np.inf if S else 0.0), "finite"),
        (lambda: BirkhoffPolytope(1), "at least 2"),
    ],
)
def test_constructors__say_what_is_wrong(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_graphic__forests_of_a_disconnected_graph_are_fine():
    forests = MatroidPolytope.graphic(PAIR)
    assert forests.linear_minimizer(np.array([-1.0, -2.0])) == pytest.approx([1, 1])
    assert forests.rank == 2


def test_flow__dead_edges_stay_zero_and_shrink_the_hull():
    edges = [(0, 1), (1, 2), (0, 2), (1, 3), (4, 2), (4, 0)]
    domain = FlowPolytope(edges, 0, 2)
    assert domain.live.tolist() == [True, True, True, False, False, False]
    assert domain.affine_hull.basis.shape == (6, 1)
    assert not domain.affine_hull.basis[3:].any()
    assert not domain.interior_point[3:].any()
    assert not domain.linear_minimizer(np.full(6, -1.0))[3:].any()


def test_flow__interior_point_has_the_largest_least_flow():
    # five edges that no two paths share: the least flow is at most 1/5
    wide = [(0, i) for i in range(1, 6)] + [(i, 6) for i in range(1, 6)] + [(6, 7), (0, 7)]
    assert FlowPolytope(wide, 0, 7).interior_point.min() == pytest.approx(1 / 6)


def test_order_of_names__does_not_matter():
    words = FlowPolytope([("s", "m"), ("m", "t"), ("s", "t")], "s", "t")
    digits = FlowPolytope([(7, 3), (3, 0), (7, 0)], 7, 0)
    for g in np.random.default_rng(0).standard_normal((20, 3)):
        assert np.array_equal(words.linear_minimizer(g), digits.linear_minimizer(g))


def seconds(domain, seed=0):
    """The best of seven calls, in process time: a busy machine must not matter."""
    rng = np.random.default_rng(seed)
    times = []
    for g in rng.standard_normal((7, domain.dim)):
        start = time.process_time()
        domain.linear_minimizer(g)
        times.append(time.process_time() - start)
    return min(times)


def test_speed__trees_of_ten_thousand_edges_within_20_ms():
    rng = np.random.default_rng(0)
    edges = [(i, i + 1) for i in range(4000)]
    edges += [tuple(rng.choice(4001, 2, replace=False).tolist()) for _ in range(6000)]
    assert seconds(MatroidPolytope.graphic(edges, bases=True)) < 0.02
    assert seconds(MatroidPolytope.graphic(edges)) < 0.02


@pytest.mark.parametrize("nodes", [1000, 99_000], ids=["dense", "long"])
def test_speed__a_flow_of_a_hundred_thousand_edges_within_100_ms(nodes):
    rng = np.random.default_rng(0)
    tail = np.append(np.arange(nodes), rng.integers(0, nodes, 100_000 - nodes))
    head = np.minimum(tail + 1 + rng.integers(0, 20, 100_000), nodes)
    head[:nodes] = tail[:nodes] + 1
    domain = FlowPolytope(zip(tail, head, strict=True), 0, nodes)
    assert domain.live.all()
    assert seconds(domain) < 0.1


def test_speed__trace_norm_of_300_by_200_within_50_ms():
    assert seconds(TraceNormBall(300, 200)) < 0.05


def test_graphic__large_graph_agrees_with_scipy_on_positive_weights():
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    edges = list(itertools.combinations(range(60), 2))
    domain = MatroidPolytope.graphic(edges, bases=True)
    u, v = np.array(edges).T
    for g in np.random.default_rng(1).random((5, len(edges))) + 0.1:
        tree = minimum_spanning_tree(coo_array((g, (u, v)), shape=(60, 60)))
        assert g @ domain.linear_minimizer(g) == pytest.approx(tree.sum())
        assert domain.linear_minimizer(g - 5.0) == pytest.approx(domain.linear_minimizer(g))


def test_uniform__taking_everything_is_one_point():
    point = MatroidPolytope.uniform(3, 3, bases=True)
    assert point.affine_hull.basis.shape == (3, 0)
    assert point.diameter() == point.diameter(np.inf) == point.inner_radius == 0.0
    assert point.contains(np.ones(3))


def test_matroid__a_wrong_size_is_refused():
    with pytest.raises(ValueError, match="the matroid's 4"):
        MatroidPolytope(5, MatroidPolytope.uniform(4, 2).matroid)
