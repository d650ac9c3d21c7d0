"""Rows by the values of their columns; each statement is put together once.

A list, a tuple or a set in the place of a value stands for any of its members.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

_MOST_VALUES = 5000  # in one statement
_MANY = (list, tuple, set)
Shape = tuple[tuple[str, bool], ...]  # of conditions: columns, and whether any of many will do


def find(connection: Connection, table: sa.Table, /, *columns: str, **where: Any) -> list[Any]:
    """Rows with these values: all of their columns, or some."""
    query = _select(table, columns, _shape(where))
    return [row for some in _pieces(where) for row in connection.execute(query, some)]


def one(connection: Connection, table: sa.Table, /, *columns: str, **where: Any) -> Any:
    """The row with these values, or None."""
    found = find(connection, table, *columns, **where)
    return found[0] if found else None


def insert(connection: Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write new rows."""
    if rows:
        connection.execute(sa.insert(table), rows)


def put(connection: Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows, new or in the place of those with the same key: the same pages either way."""
    if rows:
        connection.execute(_put(table), rows)


def update(connection: Connection, table: sa.Table, where: Mapping[str, Any], **new: Any) -> int:
    """Change rows with these values; returns how many there were."""
    (some,) = _pieces(where)
    return connection.execute(_update(table, _shape(where), tuple(new)), some | new).rowcount


def delete(connection: Connection, table: sa.Table, /, **where: Any) -> None:
    """Delete rows with these values."""
    statement = _delete(table, _shape(where))
    for some in _pieces(where):
        connection.execute(statement, some)


def _shape(where: Mapping[str, Any]) -> Shape:
    return tuple((name, isinstance(value, _MANY)) for name, value in where.items())


def _pieces(where: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Parameters of a statement; of several, where one cannot hold so many values."""
    given = {f"at_{name}": value for name, value in where.items()}
    many = next((name for name, value in given.items() if isinstance(value, _MANY)), None)
    if many is None:
        yield given
        return
    values = list(given[many])
    for at in range(0, len(values), _MOST_VALUES):
        yield given | {many: values[at : at + _MOST_VALUES]}


def _conditions(table: sa.Table, shape: Shape) -> list[sa.ColumnElement[bool]]:
    return [
        table.c[name].in_(sa.bindparam(f"at_{name}", expanding=True))
        if of_many
        else table.c[name] == sa.bindparam(f"at_{name}")
        for name, of_many in shape
    ]


@cache
def _select(table: sa.Table, columns: tuple[str, ...], shape: Shape) -> Any:
    wanted: list[Any] = [table.c[name] for name in columns] or [table]
    return sa.select(*wanted).where(*_conditions(table, shape))


@cache
def _put(table: sa.Table) -> Any:
    names = [column.name for column in table.c]
    key = ", ".join(column.name for column in table.primary_key)
    last = names[-1]
    return sa.text(
        f"INSERT INTO {table.name} ({', '.join(names)}) VALUES (:{', :'.join(names)}) "
        f"ON CONFLICT ({key}) DO UPDATE SET {last} = excluded.{last}"
    )


@cache
def _update(table: sa.Table, shape: Shape, names: tuple[str, ...]) -> Any:
    new: dict[str, Any] = {name: sa.bindparam(name) for name in names}
    return sa.update(table).where(*_conditions(table, shape)).values(new)


@cache
def _delete(table: sa.Table, shape: Shape) -> Any:
    return sa.delete(table).where(*_conditions(table, shape))
