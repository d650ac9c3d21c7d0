"""From a context and named actions to feature rows in the unit ball, by declared bounds only.

A row is the product of a context part c and an action part z, times one public constant:

    phi(x, a) = s * z(a) (x) c(x)       c = (1, numbers in [-1, 1], one-hot categories)

    blocks        z(a)                            one set of weights on c for
    per-action    one-hot of a                    each action
    shared        (1, attributes of a)            the baseline and each attribute
    both          (1, attributes, one-hot of a)   all of these
"""

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import scipy

from discreet.arrays import Array, one_of
from discreet.frames import (
    ANY,
    columns_of,
    is_table,
    items_in,
    kind_of,
    kind_of_value,
    number_or_nan,
    numbers_in,
)
from discreet.state.values import decode, encode, register


class Number:
    """A column of numbers with public bounds: [low, high] becomes [-1, 1], the rest is clipped.

    low, high   public bounds of the column
    missing     what a missing value (None, NaN, or anything that is no number) is: None: an error;
                a number within the bounds that stands for it; "indicator": 0 here and 1 in a second
                column

    >>> Number(18, 100)
    Number(18.0, 100.0)
    >>> Number(0, 1, missing="indicator")
    Number(0.0, 1.0, missing='indicator')
    """

    def __init__(self, low: float, high: float, *, missing: float | str | None = None) -> None:
        self.low, self.high = float(low), float(high)
        self._width = self.high - self.low
        if not 0 < self._width < math.inf:
            raise ValueError(f"Number needs finite bounds low < high, got {low!r} and {high!r}")
        self.missing = missing if missing is None or missing == "indicator" else float(missing)
        if isinstance(self.missing, float) and not self.low <= self.missing <= self.high:
            raise ValueError(
                f'missing must be "indicator" or a public number between {low!r} and {high!r}, got '
                f"{missing!r}"
            )

    def __repr__(self) -> str:
        missing = "" if self.missing is None else f", missing={self.missing!r}"
        return f"Number({self.low!r}, {self.high!r}{missing})"

    def __contains__(self, value: Any) -> bool:
        if _is_missing(value):
            return self.missing is not None
        return isinstance(value, int | float | np.number) and bool(self.low <= value <= self.high)

    def _names(self, column: str) -> list[str]:
        return [column] + [f"{column} (missing)"] * (self.missing == "indicator")

    def _put(self, value: Any, row: list[float], at: int) -> None:
        x = float(value) if self.missing is None else number_or_nan(value)
        if x != x:
            if self.missing is None:
                raise ValueError
            if not isinstance(self.missing, float):
                row[at + 1] = 1.0
                return
            x = self.missing
        x = self.low if x < self.low else self.high if x > self.high else x
        # x - low <= high - low also after rounding, so the result never leaves [-1, 1].
        row[at] = 2.0 * ((x - self.low) / self._width) - 1.0

    def _put_many(self, values: Any, rows: Array, at: int) -> None:
        x = numbers_in(values, or_missing=self.missing is not None)
        absent = np.isnan(x)
        if x.ndim != 1 or (self.missing is None and absent.any()):
            raise ValueError
        if isinstance(self.missing, float):
            x = np.where(absent, self.missing, x)
        rows[:, at] = 2.0 * ((np.clip(x, self.low, self.high) - self.low) / self._width) - 1.0
        if self.missing == "indicator":
            rows[absent, at] = 0.0
            rows[:, at + 1] = absent

    def _sparse(self, values: Any) -> Any:
        rows = np.zeros((len(values), len(self._names(""))))
        self._put_many(values, rows, 0)
        return scipy.sparse.csr_array(rows)


class Category:
    """A column of declared categories, one-hot; matched by equality, so 1 is not "1".

    A value that was not declared becomes zeros, or with `other=True` a column of its own. A typed
    column that can hold none of the declared values is refused.

    categories   the declared values
    other        give values that were not declared a column of their own
    missing      give missing values (None, NaN, lists) a column of their own; else they are an
                 error

    >>> Category("basic", "gold", other=True)
    Category('basic', 'gold', other=True)
    """

    def __init__(self, *categories: Hashable, other: bool = False, missing: bool = False) -> None:
        if any(not isinstance(value, Hashable) or _is_missing(value) for value in categories):
            raise ValueError('Category needs plain values, none missing: Category("a", "b")')
        self._codes = {value: code for code, value in enumerate(categories)}
        if not categories or len(self._codes) < len(categories):
            raise ValueError("Category needs at least one category, each of them once")
        self.categories = categories
        self.other = bool(other)
        self.missing = bool(missing)
        self._unknown = len(categories) if other else -1
        self._kinds = {kind_of_value(value) for value in categories}

    def __repr__(self) -> str:
        rest = ", other=True" * self.other + ", missing=True" * self.missing
        return f"Category({', '.join(map(repr, self.categories))}{rest})"

    def __contains__(self, value: Any) -> bool:
        if _is_missing(value):
            return self.missing
        return self.other or value in self._codes

    def _names(self, column: str) -> list[str]:
        more = ("(other)",) * self.other + ("(missing)",) * self.missing
        return [f"{column}={value}" for value in self.categories + more]

    def _code(self, value: Any) -> int:
        try:
            code = self._codes.get(value, self._unknown)
        except Exception:  # it cannot be hashed or compared: no value at all
            return self._missing()
        if code == self._unknown and hasattr(value, "as_py"):  # Arrow's
            return self._code(value.as_py())
        if code == self._unknown and _is_missing(value):
            return self._missing()
        return code

    def _missing(self) -> int:
        if not self.missing:
            raise ValueError
        return len(self.categories) + self.other

    def _put(self, value: Any, row: list[float], at: int) -> None:
        code = self._code(value)
        if code >= 0:
            row[at + code] = 1.0

    def _put_many(self, values: Any, rows: Array, at: int) -> None:
        known, codes = self._known(values)
        rows[known, at + codes] = 1.0

    def _sparse(self, values: Any) -> Any:
        known, codes = self._known(values)
        shape = (len(values), len(self._names("")))
        return scipy.sparse.csr_array((np.ones(len(known)), (known, codes)), shape=shape)

    def _known(self, values: Any) -> tuple[Any, Any]:
        """Places of values that have a column, and which."""
        kind = kind_of(values)
        if kind != ANY and not self._kinds & {kind, ANY}:
            raise ValueError  # every row would have a value that was not declared
        codes = np.array([self._code(value) for value in items_in(values)], dtype=np.intp)
        known = np.flatnonzero(codes >= 0)
        return known, codes[known]


register(
    Number,
    lambda each: [each.low, each.high, each.missing],
    lambda plain: Number(plain[0], plain[1], missing=plain[2]),
)
register(
    Category,
    lambda each: [encode(each.categories), each.other, each.missing],
    lambda plain: Category(*decode(plain[0]), other=plain[1], missing=plain[2]),
)


class FeatureMap:
    """Feature rows for every action in a context, never longer than 1.

    `context` declares the columns, in order. `actions` are names, or names with attributes that
    `action_features` declares. `blocks` says which weights are learnt (see the module's table);
    "auto" is "shared" if there are `action_features` and "per-action" if not.

    Requires   bounds, categories and actions that are public: stated, never read off the data.
    Guarantee  l2 norm at most 1 (up to rounding) for every input, reached when all numbers are
               at a bound and all categories declared; so always 1 if there are no numbers.
               `dim`, `names` and the scale come from the declaration; a row from its context.

    context           columns of a context, by name and in order
    actions           names, or names with attributes
    action_features   columns of the attributes
    blocks            "per-action", "shared", "both" or "auto"
    intercept         add a constant column

    >>> phi = FeatureMap({"age": Number(20, 60), "plan": Category("basic", "gold")},
    ...                  actions=["email", "call"], intercept=False)
    >>> phi.names[:3]
    ('age * action=email', 'plan=basic * action=email', 'plan=gold * action=email')
    >>> phi({"age": 50, "plan": "gold"}).round(3)      # (n_actions, dim)
    array([[0.354, 0.   , 0.707, 0.   , 0.   , 0.   ],
           [0.   , 0.   , 0.   , 0.354, 0.   , 0.707]])
    >>> phi.many({"age": [50, 99], "plan": ["gold", "basic"]}).shape
    (2, 2, 6)
    """

    def __init__(
        self,
        context: Mapping[str, Number | Category],
        actions: Iterable[str] | Mapping[str, Mapping[str, Any]],
        *,
        action_features: Mapping[str, Number | Category] | None = None,
        blocks: str = "auto",  # "per-action" | "shared" | "both"
        intercept: bool = True,
    ) -> None:
        if blocks == "auto":
            blocks = "shared" if action_features else "per-action"
        self.blocks = one_of("blocks", blocks, ("per-action", "shared", "both"))
        if action_features and blocks == "per-action":
            raise ValueError("per-action blocks have no use for action_features: say blocks='both'")
        if not action_features and blocks == "shared":
            raise ValueError("shared blocks tell actions apart by action_features: declare some")
        self.actions = () if isinstance(actions, str) else tuple(actions)
        self._index = {name: at for at, name in enumerate(self.actions)}
        if not self.actions or len(self._index) < len(self.actions):
            raise ValueError("actions must be a list of at least one name, each of them once")
        self._context = Columns(context, constant=intercept)
        self.columns = tuple(context)
        attributes = Columns(action_features or {}, constant=blocks != "per-action")
        own = [f"action={name}" for name in self.actions] if blocks != "shared" else []
        # |z (x) c| = |z| |c|. Numbers lie in [-1, 1] and a category has at most a single 1, so each
        # adds at most 1 to |c|^2 or |z|^2, as do a constant and the one-hot of the action. Bounds
        # count, not attributes: with shared blocks new actions change neither dim nor scale.
        squares = self._context.squares * (attributes.squares + bool(own))
        if not squares:
            raise ValueError("the map has no columns: declare a context or keep the intercept")
        z = np.array([attributes.public(name, actions) for name in self.actions])
        z = np.concatenate([z, np.eye(len(z), len(own))], axis=1) / math.sqrt(squares)
        self._z: Array = z[:, :, None]  # (n_actions, parts, 1)
        pairs = [(c, z) for z in attributes.names + own for c in self._context.names]
        self.names = tuple(" * ".join(n for n in pair if n != "1") or "1" for pair in pairs)
        self.parts = tuple(attributes.names + own)  # names of z, and of c: `names` are products
        self.context_names = tuple(self._context.names)
        count = len(self.context_names)
        labels = [-1] * len(attributes.names) + list(range(len(own)))
        # The action that a feature belongs to alone, -1 for those of all: LinearBandit's blocks.
        self.block_of = tuple(label for label in labels for _ in range(count))
        self.scale = 1 / math.sqrt(squares)  # s: a weight times s is what a full column adds
        self.dim = len(self.names)
        if len(set(self.names)) < self.dim:
            raise ValueError("two columns of the map would have the same name: rename one")

    def __repr__(self) -> str:
        return f"FeatureMap({len(self.actions)} actions, dim={self.dim}, blocks={self.blocks!r})"

    def __call__(self, context: Any, actions: Iterable[str] | None = None) -> Array:
        """Rows (n_actions, dim) for a mapping, a frame's row, or values in the declared order.

        `actions` is what is available this round; rows come in its order.
        """
        z = self._available(actions)
        rows: Array = z * np.array(self._context.row(context))
        return rows.reshape(len(z), self.dim)

    def many(self, contexts: Any, actions: Iterable[str] | None = None) -> Array:
        """Rows (n, n_actions, dim) for a frame, a mapping of columns, a matrix or n contexts.

        Equals stacking single calls, bit by bit. It holds n * n_actions * dim numbers.
        """
        z = self._available(actions)
        table = self._context.table(contexts)
        rows: Array = z * table[:, None, None, :]
        return rows.reshape(len(table), len(z), self.dim)

    def _available(self, actions: Iterable[str] | None) -> Array:
        if actions is None:
            return self._z
        try:
            places = [self._index[name] for name in actions]
        except (KeyError, TypeError):
            raise ValueError("actions must be a list of names of declared actions") from None
        if not places:
            raise ValueError("no action is available: pass at least one declared action")
        if len(set(places)) < len(places):
            raise ValueError("each available action must be named once")
        return self._z[places]


class Columns:
    """Declared columns side by side, after a constant 1 if wanted.

    features   columns by name
    constant   whether a column of ones stands first
    """

    def __init__(self, features: Mapping[str, Number | Category], *, constant: bool) -> None:
        if not isinstance(features, Mapping):
            raise ValueError('declare columns by name, as in {"age": Number(18, 100)}')
        self.names = ["1"] * constant
        self.places: list[tuple[str, Number | Category, int]] = []
        for column, feature in features.items():
            if not isinstance(feature, Number | Category):
                raise ValueError(f"column {column!r} must be declared as a Number or a Category")
            self.places.append((column, feature, len(self.names)))
            self.names += feature._names(column)
        self.declared = tuple(features)
        self.squares = constant + len(features)  # bounds the square of a row's norm
        self._start = [1.0] * constant + [0.0] * (len(self.names) - constant)

    def row(self, context: Any) -> list[float]:
        """The numbers of one context."""
        context = context if hasattr(context, "keys") else self._named(context)
        row = self._start.copy()
        for column, feature, at in self.places:
            try:
                feature._put(context[column], row, at)
            except KeyError:
                raise absent(column) from None
            except (TypeError, ValueError, OverflowError):
                raise _unfit(column, feature) from None
        return row

    def table(self, contexts: Any) -> Array:  # (n, columns)
        """The same of many: a data frame, a mapping of columns, a matrix or a list of contexts."""
        columns = self.by_column(contexts)
        table = np.tile(np.array(self._start), (len(columns[0]), 1))
        for (column, feature, at), values in zip(self.places, columns, strict=True):
            try:
                feature._put_many(values, table, at)
            except (TypeError, ValueError, OverflowError):
                raise _unfit(column, feature) from None
        return table

    def sparse_table(self, contexts: Any) -> Any:  # (n, columns), CSR
        """`table` without a constant, and without its zeros."""
        parts = []
        for (column, feature, _), values in zip(self.places, self.by_column(contexts), strict=True):
            try:
                parts.append(feature._sparse(values))
            except (TypeError, ValueError, OverflowError):
                raise _unfit(column, feature) from None
        return scipy.sparse.hstack(parts, format="csr")

    def public(self, action: str, actions: Any) -> list[float]:
        """The attributes of a declared action: it is public, so a slip is refused, not clipped."""
        values = actions[action] if isinstance(actions, Mapping) else {}
        if set(values) != {column for column, _, _ in self.places}:
            raise ValueError(f"action {action!r} must have exactly the declared action_features")
        for column, feature, _ in self.places:
            if values[column] not in feature:
                raise ValueError(f"{column!r} of action {action!r} must lie in {feature!r}")
        return self.row(values)

    def _named(self, values: Any) -> dict[str, Any]:
        values = values.tolist() if isinstance(values, np.ndarray) else values
        if not isinstance(values, list | tuple) or len(values) != len(self.places):
            raise ValueError(
                f"a context must be a mapping, or {len(self.places)} values in the declared order; "
                "for many contexts call many(...)"
            )
        return {column: value for (column, _, _), value in zip(self.places, values, strict=True)}

    def by_column(self, contexts: Any) -> list[Any]:
        """The values of each declared column."""
        names = [column for column, _, _ in self.places]
        if isinstance(contexts, np.ndarray) and contexts.shape[1:] == (len(names),):
            contexts = dict(zip(names, contexts.T, strict=True))
        try:
            if is_table(contexts) or hasattr(contexts, "keys"):
                columns = columns_of(contexts, names)
            else:
                rows = [row if hasattr(row, "keys") else self._named(row) for row in contexts]
                columns = [[row[name] for row in rows] for name in names]
        except KeyError as error:
            raise absent(error.args[0]) from None
        scalar = any(isinstance(c, str) or not hasattr(c, "__len__") for c in columns)
        if scalar or len({len(c) for c in columns}) != 1:
            raise ValueError("many needs columns of one length; for one context call the map")
        return columns


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except Exception:  # pandas.NA has no truth value
        return True


def absent(column: str) -> ValueError:
    """What to say of a table or a context that lacks a declared column."""
    return ValueError(f"there is no column {column!r}: every declared column is needed")


def _unfit(column: str, feature: Number | Category) -> ValueError:
    kind = type(feature).__name__
    missing = "True to give it a column of its own" if kind == "Category" else '"indicator"'
    return ValueError(
        f"column {column!r} must hold one {kind.lower()} per row, none missing (None, NaN); "
        f"declare it as what it is, and with {kind}(..., missing={missing}) if values are missing"
    )


def __getattr__(name: str) -> Any:
    """`DeclaredEncoder`, when it is asked for: bandits need no scikit-learn."""
    if name == "DeclaredEncoder":
        from discreet.encoder import DeclaredEncoder

        return DeclaredEncoder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
