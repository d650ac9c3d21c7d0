"""Tables as worlds: people are rows, features come from declared columns and public bounds.

Two kinds of table tell what every action would have brought, and so the regret: one with a
column of right answers (`label`: the reward is 1 for choosing it, 0 otherwise; this makes a bandit
of any classification data), and one with a column of rewards for each action (`rewards`). A table
that tells only the reward of the action that was taken is a log: `logged_table`.
"""

import importlib
import importlib.util
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.arrays import Array, finite, finite_range
from discreet.environments.people import People
from discreet.features import Category, FeatureMap, Number

Declared = Number | Category | Mapping[str, Any]


class FeatureTable:
    """Feature rows (n, actions, dim) of a table's people, built for those who are asked for.

    phi       builds the rows of one person
    columns   the table's, by name, one entry for each person

    >>> phi = FeatureMap({"age": Number(20, 60)}, ["email", "call"])
    >>> table = FeatureTable(phi, {"age": [30, 50, 60]})
    >>> len(table), table[1:].shape, table[[0]].shape
    (3, (2, 2, 4), (1, 2, 4))
    """

    def __init__(self, phi: FeatureMap, columns: Mapping[str, ArrayLike]) -> None:
        if not columns:
            raise ValueError("declare at least one column of the context")
        self.phi = phi
        self._columns = {name: np.asarray(column) for name, column in columns.items()}
        self._length = len(phi.many(columns, actions=phi.actions[:1]))  # checks every row, once

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, some: slice | ArrayLike) -> Array:  # -> (k, actions, dim)
        chosen = some if isinstance(some, slice) else np.asarray(some, dtype=np.intp)
        return self.phi.many({name: column[chosen] for name, column in self._columns.items()})


@dataclass(frozen=True)
class TableWorld:
    """People drawn from the rows of a table, every row equally likely, again and again.

    Each draw counts as another person: a promise for one round is one for a single draw.

    >>> world = table_world({"age": [25, 40, 55], "buys": ["tea", "tea", "milk"]},
    ...                     context={"age": Number(20, 60)}, label="buys", actions=["tea", "milk"])
    >>> people = world.people(5, np.random.default_rng(0))
    >>> people.features.shape, set(people.best.tolist())
    ((5, 2, 4), {1.0})
    """

    name: str  # for tables of results
    features: FeatureTable  # of each row
    means: Array  # (rows, actions)
    reward_range: tuple[float, float] = (0.0, 1.0)  # bounds of a reward
    distribution: str = "known"  # of a reward, as in `People`

    @property
    def dim(self) -> int:
        return self.features.phi.dim

    @property
    def n_actions(self) -> int:
        return len(self.features.phi.actions)

    def people(self, n: int, rng: np.random.Generator, start: int = 0) -> People:
        rows = rng.integers(len(self.features), size=n)
        return People(
            self.features[rows],
            self.means[rows],
            self.distribution,
            reward_range=self.reward_range,
        )


def table_world(
    table: Any,
    *,
    context: Mapping[str, Declared],
    actions: Iterable[str] | None = None,
    label: str | None = None,
    rewards: Mapping[str, str] | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    name: str = "table",
) -> TableWorld:
    """A world from a CSV or Parquet file, a data frame or a mapping of columns.

    `context` declares the columns to learn from, with public bounds: `Number(low, high)`,
    `Category(...)`, or the same as plain tables, {"low": 18, "high": 100} and
    {"categories": ["a", "b"]}. Then either `label`, the column of the right answer, one of
    `actions`; or `rewards`, which names the column of each action's reward, clipped to
    `reward_range`. Bounds are stated by you and never read off the data.
    """
    if (label is None) == (rewards is None):
        raise ValueError("give either label (and actions) or rewards: an action's column each")
    if (label is None) != (actions is None):
        raise ValueError("actions go with label; with rewards they are its names")
    columns = read_table(table)
    phi = FeatureMap(declared(context), tuple(actions or rewards or ()))
    features = FeatureTable(phi, picked(columns, context))
    if label is not None:
        right = action_numbers(picked(columns, [label])[label], phi.actions, label)
        means = np.eye(len(phi.actions))[right]
        return TableWorld(name, features, means)
    each = picked(columns, (rewards or {}).values())
    means = np.column_stack([finite("rewards", each[(rewards or {})[a]]) for a in phi.actions])
    limits = finite_range("reward_range", reward_range)
    return TableWorld(name, features, np.clip(means, *limits), limits)


def read_table(table: Any) -> Any:
    """A data frame, or columns by name: files are read by their ending, the rest is passed on.

    A stream of Arrow batches is read to its end.
    """
    if not isinstance(table, str | os.PathLike):
        return table.read_all() if hasattr(table, "read_all") else table
    pandas = package("pandas")
    path = os.fspath(table)
    if path.endswith((".csv", ".csv.gz")):
        return pandas.read_csv(path)
    if path.endswith((".parquet", ".pq")):
        package("pyarrow")
        return pandas.read_parquet(path)
    if path.endswith((".arrow", ".feather")):
        return package("pyarrow.feather").read_table(path).to_pandas()
    raise ValueError(
        "a table must be a .csv, .csv.gz, .parquet, .pq, .arrow or .feather file, a data frame or "
        "columns by name"
    )


def declared(context: Mapping[str, Declared]) -> dict[str, Number | Category]:
    """Columns as `Number` and `Category`, also from plain tables, as an experiment's file has them.

    >>> declared({"age": {"low": 18, "high": 100}, "plan": {"categories": ["basic", "gold"]}})
    {'age': Number(18.0, 100.0), 'plan': Category('basic', 'gold')}
    """
    return {column: _declared(column, each) for column, each in context.items()}


def picked(table: Any, names: Iterable[str]) -> dict[str, NDArray[Any]]:
    columns = {}
    for name in names:
        try:
            columns[name] = np.asarray(table[name])
        except (KeyError, IndexError, TypeError):
            raise ValueError(f"the table has no column {name!r}") from None
    return columns


def action_numbers(
    values: NDArray[Any], actions: tuple[str, ...], column: str
) -> NDArray[np.intp]:  # (n,) -> (n,)
    """The number of each named action; every row must name one of them."""
    number = {action: at for at, action in enumerate(actions)}
    places = [number.get(value, -1) for value in values.tolist()]
    if -1 in places:
        raise ValueError(
            f"every row of {column!r} must be one of the declared actions (1 is not '1')"
        )
    return np.array(places, dtype=np.intp)


def _declared(column: str, each: Declared) -> Number | Category:
    if isinstance(each, Number | Category):
        return each
    if isinstance(each, Mapping) and set(each) == {"low", "high"}:
        return Number(each["low"], each["high"])
    if isinstance(each, Mapping) and {"categories"} <= set(each) <= {"categories", "other"}:
        return Category(*each["categories"], other=each.get("other", False))
    raise ValueError(
        f"column {column!r} must be declared as a Number or a Category, or as "
        '{"low": 0, "high": 1} or {"categories": [...], "other": false}'
    )


def package(module: str) -> Any:
    """The module, or an error that says what to install.

    >>> package("no_such_package")
    Traceback (most recent call last):
    ImportError: this needs the package no_such_package: pip install 'discreet[datasets]'
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise _missing(module) from None


def data_file(name: str, path: str) -> Path:
    """A file of a package, which is not imported: one needs pkg_resources, one takes seconds.

    >>> data_file("no_such_package", "data.csv")
    Traceback (most recent call last):
    ImportError: this needs the package no_such_package: pip install 'discreet[datasets]'
    """
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise _missing(name)
    return Path(found.origin).parent / path


def _missing(module: str) -> ImportError:
    name = module.partition(".")[0]
    return ImportError(f"this needs the package {name}: pip install 'discreet[datasets]'")
