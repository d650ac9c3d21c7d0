"""Hashed features: any JSON becomes rows in the unit ball, by a public map."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.hashed import HashedFeatures

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
CONTEXT = {"age": 0.4, "plan": "gold", "tags": ["a", "b"], "home": {"city": "Bern", "old": True}}
ACTIONS = ["email", {"id": "call", "price": 0.3}]


@given(context=JSON, actions=st.lists(JSON, min_size=1, max_size=4), dim=st.integers(2, 40))
def test_hashed__rows_are_in_the_unit_ball_for_any_json(context, actions, dim):
    rows = HashedFeatures(dim)(context, actions)
    assert rows.shape == (len(actions), dim)
    assert np.isfinite(rows).all()
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12


def test_hashed__another_process_makes_the_same_rows():
    """Python's own hash changes from process to process; replicas must agree."""
    code = (
        "import json, sys; from discreet.hashed import HashedFeatures\n"
        "context, actions = json.loads(sys.argv[1])\n"
        "print(json.dumps(HashedFeatures(16)(context, actions).tolist()))"
    )
    given = json.dumps([CONTEXT, ACTIONS])
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code, given], capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        )  # fmt: skip
        assert json.loads(done.stdout) == HashedFeatures(16)(CONTEXT, ACTIONS).tolist()


def test_hashed__the_order_of_keys_does_not_matter():
    def reversed_keys(item):
        if isinstance(item, dict):
            return {name: reversed_keys(item[name]) for name in reversed(item)}
        return item

    phi = HashedFeatures(16)
    once, again = phi(CONTEXT, ACTIONS), phi(reversed_keys(CONTEXT), ACTIONS)
    np.testing.assert_allclose(once, again, rtol=0, atol=1e-15)


def test_hashed__a_row_depends_on_its_own_action_only():
    phi = HashedFeatures(16)
    together = phi(CONTEXT, ACTIONS)
    for row, action in zip(together, ACTIONS, strict=True):
        np.testing.assert_array_equal(row, phi(CONTEXT, [action])[0])


def test_hashed__the_context_alone_tells_no_action_from_another():
    """Interactions are there: another context turns the difference of two actions."""
    phi = HashedFeatures(64)
    one, other = (np.subtract(*phi({"plan": plan}, ["a", "b"])) for plan in ("gold", "basic"))
    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert 0.1 < cosine < 0.9  # the action's own features are shared, the products are not


def test_hashed__names_that_share_a_column_have_either_sign():
    """So that collisions cancel on average: in each column about half of the names are negative.

    4,000 names in 8 columns, 500 each: half +- .1 is 4.5 standard deviations, false alarm rate
    below 1e-4 for all columns together (and the hash is fixed: it either holds or not).
    """
    names = [f"name-{i}" for i in range(4000)]
    rows = HashedFeatures(8)(None, names)
    shared = np.argmax(np.abs(HashedFeatures(8)(None, [None])[0]))  # of the constant
    for column in np.delete(rows, shared, axis=1).T:
        some = column[column != 0]
        assert len(some) > 300
        assert abs(np.mean(some > 0) - 0.5) < 0.1


def test_hashed__numbers_count_in_units_of_their_bound_and_are_cut_there():
    phi = HashedFeatures(32, number_bound=10.0)
    np.testing.assert_array_equal(phi({"x": 10}, ["a"]), phi({"x": 1e300}, ["a"]))
    np.testing.assert_array_equal(phi({"x": 10}, ["a"]), phi({"x": 10**400}, ["a"]))
    assert np.abs(phi({"x": 1}, ["a"]) - phi({"x": 2}, ["a"])).max() > 0


@pytest.mark.parametrize(
    ("context", "actions", "words"),
    [
        ({"x": float("nan")}, ["a"], "NaN"),
        ({"x": {1, 2}}, ["a"], "must be JSON"),
        (None, [], "at least one"),
        ({str(i): i for i in range(2000)}, ["a"], "1000 entries"),
    ],
)
def test_hashed__what_cannot_be_read_is_refused_without_quoting_it(context, actions, words):
    with pytest.raises(ValueError, match=words):
        HashedFeatures(8)(context, actions)


def test_hashed__deep_nesting_is_refused():
    deep: object = 1
    for _ in range(50):
        deep = {"x": deep}
    with pytest.raises(ValueError, match="16 levels"):
        HashedFeatures(8)(deep, ["a"])
