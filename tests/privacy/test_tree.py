"""The tree as linear algebra: outputs are L (R x + z), recovered from the running code itself."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.privacy.tree import Tree, TreeSum

SHAPES = [Tree(2), Tree(3), Tree(4), Tree(5), Tree(3, balanced=False), Tree(5, balanced=False),
          Tree(3, levels=2), Tree(4, levels=3), Tree(2, levels=1), Tree()]  # fmt: skip


def recorded(tree, horizon, data=None):
    """Run on zeros (or data) with the i-th noise drawn equal to the i-th unit vector.

    Returns outputs (horizon, draws), and for every draw its level and index in that level.
    """
    width = 4 * horizon + 40
    drawn = []
    counts = [0] * (tree.depth + 1)

    def draw(level, count):
        rows = np.zeros((count, width))
        for row in rows:
            row[len(drawn)] = 1.0
            drawn.append((level, counts[level]))
            counts[level] += 1
        return rows

    sums = TreeSum(tree, horizon, width, draw)
    data = np.zeros((horizon, width)) if data is None else data
    return np.array([sums.add(x) for x in data]), drawn, sums


def matrices(tree, horizon):
    """L (rounds x nodes) as run, and R (nodes x rounds) as defined: node m of level l."""
    outputs, drawn, _ = recorded(tree, horizon)
    L = outputs[:, : len(drawn)]
    rounds = np.arange(horizon)
    R = np.array([rounds // tree.base**level == index for level, index in drawn], dtype=float)
    return L, R


@pytest.mark.parametrize("asked", SHAPES, ids=str)
@pytest.mark.parametrize("horizon", [1, 2, 3, 9, 27, 40, 64])
def test_tree__every_output_is_a_sum_of_node_sums(asked, horizon):
    tree = asked.fitted(horizon, pure=True)
    L, R = matrices(tree, horizon)
    assert np.array_equal(L @ R, np.tri(horizon))
    assert set(np.unique(L)) <= {-1.0, 0.0, 1.0}
    assert np.array_equal(np.abs(L).sum(axis=1), tree.nodes(np.arange(1, horizon + 1)))
    assert tree.most_nodes(horizon) == np.abs(L).sum(axis=1).max()


@pytest.mark.parametrize("asked", SHAPES, ids=str)
@pytest.mark.parametrize("horizon", [2, 9, 40])
def test_tree__a_round_is_in_at_most_levels_nodes(asked, horizon):
    tree = asked.fitted(horizon, pure=True)
    _, R = matrices(tree, horizon)
    assert R.sum(axis=0).max() <= tree.depth


@pytest.mark.parametrize("asked", [Tree(2), Tree(3), Tree(4, levels=2), Tree(3, balanced=False)])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_tree__reach_bounds_k_rounds_of_one_person_wherever_they_fall(asked, k):
    horizon = 13
    tree = asked.fitted(horizon, pure=False)
    _, R = matrices(tree, horizon)
    moves = [R[:, list(rounds)].sum(axis=1) for rounds in itertools.combinations(range(horizon), k)]
    longest = max(np.linalg.norm(move) for move in moves)
    assert longest <= tree.sensitivity(k, pure=False) + 1e-12
    assert tree.sensitivity(k, pure=False) <= k * tree.sensitivity(1, pure=False) + 1e-12
    assert max(np.abs(move).sum() for move in moves) <= tree.sensitivity(k, pure=True)
    full = tree.base ** (tree.depth - 1)
    if k <= full <= horizon:  # the first k rounds are all inside nodes that exist
        assert longest == pytest.approx(tree.sensitivity(k, pure=False))


@pytest.mark.parametrize("asked", [Tree(2), Tree(5), Tree(4)])
def test_tree__a_snapshot_holds_noisy_node_sums_only(asked):
    # Every vector of the state is a combination of node sums that carry their noise: the data it
    # depends on is exactly R^T times the noise it shows.
    horizon = 23
    tree = asked.fitted(horizon, pure=True)
    width = 4 * horizon + 40
    for stop in range(1, horizon + 1):
        zeros = np.zeros((stop, width))
        _, drawn, silent = recorded(tree, horizon, zeros)
        data = zeros.copy()
        data[np.arange(stop), width - horizon + np.arange(stop)] = 1.0  # round i marks column i
        _, _, marked = recorded(tree, horizon, data)
        rounds = np.arange(stop)
        R = np.array([rounds // tree.base**level == index for level, index in drawn], dtype=float)
        noise, seen = silent.node_sums(), marked.node_sums()
        for name in noise:
            combination = noise[name][:, : len(drawn)]
            depends = (seen[name] - noise[name])[:, width - horizon : width - horizon + stop]
            assert np.allclose(depends, combination @ R), (name, stop)


@given(st.integers(1, 300), st.sampled_from(SHAPES), st.lists(st.integers(0, 60), max_size=8))
def test_tree__many_rounds_at_once_equal_one_at_a_time(horizon, asked, pieces):
    tree = asked.fitted(horizon, pure=False)

    def make():
        streams = [np.random.default_rng(level) for level in range(tree.depth + 1)]
        return TreeSum(tree, horizon, 2, lambda level, n: streams[level].standard_normal((n, 2)))

    X = np.random.default_rng(99).uniform(-1, 1, (horizon, 2))
    single = make()
    expected = np.array([single.add(x) for x in X])
    many, outputs, start = make(), [], 0
    for size in [*pieces, horizon]:
        outputs.append(many.add_many(X[start : start + size]))
        start = min(horizon, start + size)
    assert np.allclose(np.concatenate(outputs), expected)
    for name, value in many.node_sums().items():
        assert np.allclose(value, single.node_sums()[name])


def test_tree__the_classical_binary_tree():
    for exponent, variance in ((10, 110), (14, 210), (16, 272), (20, 420)):
        tree = Tree(2).fitted(2**exponent, pure=False)
        assert tree.depth == exponent + 1
        assert tree.depth * tree.most_nodes(2**exponent) == variance


def test_tree__fitted_shape_is_the_best_of_all():
    horizon = 700
    best = Tree().fitted(horizon, pure=True)
    value = best.depth**2 * best.most_nodes(horizon)
    for branching in range(2, 40):
        for levels in range(1, 8):
            shape = Tree(branching, levels=levels)
            if branching ** (levels - 1) <= horizon:
                counted = shape.nodes(np.arange(1, horizon + 1)).max()
                assert shape.most_nodes(horizon) == counted
                assert levels**2 * counted >= value


def test_tree__padding_gives_every_prefix_the_same_number_of_nodes():
    tree = Tree(3, padded=True).fitted(40, pure=True)
    outputs, _, _ = recorded(tree, 40)
    assert (np.abs(outputs).sum(axis=1) == tree.most_nodes(40)).all()


def test_tree__balanced_digits_halve_the_nodes():
    balanced = Tree(19).fitted(10**6, pure=True)
    plain = Tree(19, balanced=False).fitted(10**6, pure=True)
    assert balanced.most_nodes(10**6) <= 0.57 * plain.most_nodes(10**6)
    assert math.isclose(balanced.depth, plain.depth)


def test_tree__bad_shapes_are_refused():
    with pytest.raises(ValueError, match="branching"):
        Tree(1)
    with pytest.raises(ValueError, match="levels needs a branching"):
        Tree(levels=3)
    with pytest.raises(ValueError, match="fitted"):
        _ = Tree().base
    with pytest.raises(ValueError, match="fitted"):
        _ = Tree(3).depth


@pytest.mark.parametrize(("horizon", "levels"), [(1, 1), (2, 2), (3, 2), (4, 3), (7, 3), (8, 4)])
def test_tree__has_no_level_more_than_its_horizon_needs(horizon, levels):
    assert Tree(branching=2, balanced=False).fitted(horizon, pure=False).levels == levels
