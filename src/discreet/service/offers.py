"""What a caller offers: rows of features, one for each action, in the unit ball."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from discreet.arrays import Array, within
from discreet.features import FeatureMap
from discreet.hashed import HashedFeatures
from discreet.service.schema import Definition

MOST_ACTIONS = 10_000


class Offer(NamedTuple):
    """What may be chosen."""

    rows: Any  # of features, one for each action
    names: Sequence[Any]  # of the actions


def _assert_baseline_is_offered(definition: Definition, actions: list[Any] | None) -> None:
    """Held-out decisions get the baseline by its place among the declared actions."""
    if actions is not None and None not in (definition.holdout, definition.baseline):
        raise ValueError("this bandit holds out decisions for its baseline: leave out actions")


class Declared:
    """Declared context and actions.

    definition   with context and actions
    """

    def __init__(self, definition: Definition) -> None:
        context = {
            name: column.feature(name) for name, column in (definition.context or {}).items()
        }
        extra = {n: column.feature(n) for n, column in (definition.action_features or {}).items()}
        assert definition.actions is not None
        self.map = FeatureMap(context, definition.actions, action_features=extra or None)
        self.dim = self.map.dim
        self.names = self.map.names
        self.definition = definition

    def offer(self, context: Any, actions: list[Any] | None) -> Offer:
        """Rows for the available actions."""
        _assert_baseline_is_offered(self.definition, actions)
        if not isinstance(context, dict):
            context = {}
        names = self.map.actions if actions is None else actions
        return Offer(self.map(context, actions), names)

    def offers(
        self, contexts: Sequence[Any], actions: list[Any] | None
    ) -> tuple[Array, Sequence[Any]]:
        """Rows (n, actions, dim) for many contexts with the same actions, and their names."""
        _assert_baseline_is_offered(self.definition, actions)
        names = self.map.actions if actions is None else actions
        if not self.map.columns:
            one = self.map({}, actions)
            return np.broadcast_to(one, (len(contexts), *one.shape)), names
        try:
            table = {name: [each[name] for each in contexts] for name in self.map.columns}
        except (KeyError, TypeError):
            raise ValueError("each context must be an object with every declared column") from None
        return self.map.many(table, actions), names


class AnyJson:
    """Hashed features of any context and any actions.

    definition   with hashed features
    """

    def __init__(self, definition: Definition) -> None:
        assert definition.features is not None
        hashed = definition.features
        self.map = HashedFeatures(hashed.hashed, number_bound=hashed.number_bound)
        self.actions = None if definition.actions is None else list(definition.actions)
        self.definition = definition
        self.dim = self.map.dim
        self.names = tuple(f"column {i}" for i in range(self.dim))

    def offer(self, context: Any, actions: list[Any] | None) -> Offer:
        """Rows for actions that are strings, or objects with an "id"."""
        _assert_baseline_is_offered(self.definition, actions)
        given = self.actions if actions is None else actions
        if not given:
            raise ValueError("this bandit has no fixed list of actions: send actions")
        if len(given) > MOST_ACTIONS:
            raise ValueError(f"send at most {MOST_ACTIONS} actions")
        names = [_called(each) for each in given]
        if len(set(names)) < len(names):
            raise ValueError("each action must have an id of its own")
        return Offer(self.map(context, given), names)


def _called(action: Any) -> Any:
    if isinstance(action, dict):
        if not isinstance(action.get("id"), str):
            raise ValueError('an action must be a string, or an object with a string "id"')
        return action["id"]
    if not isinstance(action, str):
        raise ValueError('an action must be a string, or an object with a string "id"')
    return action


def features(definition: Definition) -> Declared | AnyJson | None:
    """How contexts become rows; None where callers send rows."""
    if definition.dim is not None:
        return None
    return AnyJson(definition) if definition.features is not None else Declared(definition)


def dim(definition: Definition) -> int:
    """The number of features."""
    made = features(definition)
    return definition.dim if made is None else made.dim  # type: ignore[return-value]


def raw_rows(rows: Any, columns: int) -> Array:
    """Rows that a caller sent, (actions, columns) of finite numbers, shortened to the unit ball."""
    if not isinstance(rows, list) or not 1 <= len(rows) <= MOST_ACTIONS:
        raise ValueError("features must be a list of rows, one for each action")
    if any(not isinstance(row, list) or len(row) != columns for row in rows):
        raise ValueError(f"each row of features must have {columns} numbers")
    if any(isinstance(x, bool) or not isinstance(x, int | float) for row in rows for x in row):
        raise ValueError("features must be numbers")
    try:
        array = np.array(rows, dtype=np.float64)
    except OverflowError:
        raise ValueError("features must be finite numbers") from None
    if not np.isfinite(array).all():
        raise ValueError("features must be finite numbers")
    return within("features", array, 1.0, norm="l2", clip=True)
