"""Schemas of the store, step by step: an older one is brought forward when a server starts.

A step belongs to the transaction that prepares the store: a crash leaves the old schema or the new
one. Steps are never changed once they are released, and none looks at data of people. There is no
way back: a store of a later version is refused, and a backup is the way to an earlier one.
"""

from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy.engine import Connection


def _open_decisions(connection: Connection) -> None:
    """To 2: sweeps look at decisions that wait, and not at all tombstones that ever were."""
    connection.execute(sa.text("DROP INDEX pending_deadline"))
    for index, columns in (("pending_due", "deadline, bandit"), ("pending_bucket", "bucket")):
        statement = f"CREATE INDEX {index} ON pending ({columns}) WHERE answer IS NOT NULL"
        connection.execute(sa.text(statement))


STEPS: dict[int, Callable[[Connection], None]] = {1: _open_decisions}  # by the schema before
CURRENT = 1 + max(STEPS)


def upgrade(connection: Connection) -> None:
    """Bring a store that is not empty to the current schema, or refuse it and change nothing."""
    if not sa.inspect(connection).has_table("instance"):
        return
    found = connection.execute(sa.text("SELECT schema FROM instance")).scalar_one_or_none()
    if found is None:
        return
    if found > CURRENT:
        raise ValueError(
            f"the store was written by a later version of discreet (schema {found}, this one knows "
            f"{CURRENT}): install that version, or restore a backup from before"
        )
    for step in range(found, CURRENT):
        STEPS[step](connection)
    if found < CURRENT:
        connection.execute(sa.text("UPDATE instance SET schema = :now"), {"now": CURRENT})
