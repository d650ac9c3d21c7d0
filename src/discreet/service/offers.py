"""What a caller offers: rows of features, one for each action, in the unit ball.

Numbers beyond their bounds are clipped. What was not declared is refused by its name, or ignored
where the definition says so: a column as if it were not there, a category as none of the declared,
a boolean that stands for a number as 0 or 1.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from discreet.arrays import Array, within
from discreet.features import FeatureMap
from discreet.hashed import HashedFeatures
from discreet.service.errors import named
from discreet.service.schema import Column, Definition

MOST_ACTIONS = 10_000


class Offer(NamedTuple):
    """What may be chosen."""

    rows: Any  # of features, one for each action
    names: Sequence[Any]  # of the actions


class Misfit(ValueError):  # noqa: N818 - it states a fact
    """A request that does not fit its definition."""

    def __init__(self, detail: str, column: str | None = None, index: int | None = None) -> None:
        super().__init__(detail)
        self.column, self.index = column, index

    def of(self, many: str, index: int) -> "Misfit":
        """The same, of one request among many."""
        return Misfit(f"{many}[{index}]: {self}", self.column, index)


def fits(work: Callable[..., Any], *given: Any) -> Any:
    """What some work on a request returns; what does not fit is said, and never quoted."""
    try:
        return work(*given)
    except ValueError as error:
        raise error if isinstance(error, Misfit) else Misfit(str(error)) from None
    except (TypeError, OverflowError, RecursionError):
        raise Misfit("The context or the actions do not fit.") from None


NONE = object()  # a category that nobody can declare
Reader = Callable[[Any], Any]  # the value of a column, or Misfit


def _numbers(name: str, column: Column, ignores: bool) -> Reader:
    assert column.number is not None
    low, high = column.number

    takes_null = column.takes_null
    allowed = " or null" if takes_null else "; null needs `missing` in its declaration"

    def read(value: Any) -> Any:
        kind = type(value)
        if kind is float or kind is int or (ignores and kind is bool):
            return low if value < low else high if value > high else value
        if value is None and takes_null:
            return None
        raise Misfit(f"column {named(name)} must be a number{allowed}", name)

    return read


def _categories(name: str, column: Column, ignores: bool) -> Reader:
    assert column.category is not None
    declared = {(type(each) is bool, each) for each in column.category}
    takes_any, takes_null = ignores or column.other, column.takes_null

    def read(value: Any) -> Any:
        kind = type(value)
        if kind in (str, int, float, bool):
            if (kind is bool, value) in declared:
                return value
            if takes_any:
                return NONE
        if value is None and takes_null:
            return None
        raise Misfit(f"column {named(name)} must be one of its declared categories", name)

    return read


class Reading:
    """Contexts as the feature map takes them: every declared column, checked, and no other."""

    def __init__(self, definition: Definition) -> None:
        self._ignores = definition.unknown == "ignore"
        self._readers = {
            name: (_numbers if column.number else _categories)(name, column, self._ignores)
            for name, column in (definition.context or {}).items()
        }

    def __call__(self, context: Any) -> dict[str, Any]:
        """One context."""
        if context is None:
            context = {}
        if not isinstance(context, dict):
            raise Misfit("a context must be an object with every declared column")
        try:
            found = {name: read(context[name]) for name, read in self._readers.items()}
        except KeyError:
            name = next(name for name in self._readers if name not in context)
            raise Misfit(f"the context has no column {named(name)}", name) from None
        if len(context) > len(found) and not self._ignores:
            name = next(name for name in context if name not in found)
            raise Misfit(f"the bandit has no column {named(name)}", name)
        return found

    def many(self, contexts: Sequence[Any]) -> list[dict[str, Any]]:
        """Many of them; the first that does not fit is named by its place."""
        found = []
        for at, context in enumerate(contexts):
            try:
                found.append(self(context))
            except Misfit as misfit:
                raise misfit.of("contexts", at) from None
        return found


def _assert_baseline_is_offered(definition: Definition, actions: list[Any] | None) -> None:
    """Held-out decisions get the baseline by its place among the declared actions."""
    by_name = definition.holdout is not None and isinstance(definition.baseline, str)
    if actions is not None and by_name:
        raise ValueError("this bandit holds out decisions for its baseline: leave out actions")


class Declared:
    """Declared context and actions."""

    def __init__(self, definition: Definition) -> None:
        context = {
            name: column.feature(name) for name, column in (definition.context or {}).items()
        }
        extra = {n: column.feature(n) for n, column in (definition.action_features or {}).items()}
        assert definition.actions is not None
        self.map = FeatureMap(context, definition.actions, action_features=extra or None)
        self.dim = self.map.dim
        self.names = self.map.names
        self.actions = self.map.actions
        self.definition = definition
        self.read = Reading(definition)

    def offer(self, context: Any, actions: list[Any] | None) -> Offer:
        """Rows for the available actions."""
        _assert_baseline_is_offered(self.definition, actions)
        names = self.actions if actions is None else actions
        return Offer(self.rows(context, actions), names)

    def rows(self, context: Any, actions: list[Any] | None) -> Array:
        """One row for each of these actions; None: for all."""
        return self.map(self.read(context), actions)

    def offers(
        self, contexts: Sequence[Any], actions: list[Any] | None
    ) -> tuple[Array, Sequence[Any]]:
        """Rows (n, actions, dim) for many contexts with the same actions, and their names."""
        _assert_baseline_is_offered(self.definition, actions)
        names = self.actions if actions is None else actions
        given = self.read.many(contexts)
        if not self.map.columns:
            one = self.map({}, actions)
            return np.broadcast_to(one, (len(contexts), *one.shape)), names
        return self.map.many(given, actions), names


class AnyJson:
    """Hashed features of any context and any actions."""

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
        return Offer(self.rows(context, given), names)

    def rows(self, context: Any, actions: list[Any]) -> Array:
        """One row for each of these actions."""
        return self.map(context, actions)


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
        raise Misfit("features must be a list of rows, one for each action")
    for at, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != columns:
            raise Misfit(f"features[{at}] must have {columns} numbers")
        for place, x in enumerate(row):
            if type(x) is not float and type(x) is not int:
                raise Misfit(f"features[{at}][{place}] must be a number")
    try:
        array = np.array(rows, dtype=np.float64)
    except OverflowError:
        raise Misfit("features must be finite numbers") from None
    if not np.isfinite(array).all():
        raise Misfit("features must be finite numbers")
    return within("features", array, 1.0, norm="l2", clip=True)
