"""Schemas of the store, step by step: an older one is brought forward when a server starts.

A step belongs to the transaction that prepares the store: a crash leaves the old schema or the new
one. Steps are never changed once they are released, and none opens what is sealed. There is no
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


_LIFE = 'SELECT name FROM bandits WHERE definition LIKE \'%"visits":"first"%\''
_UNUSED = (  # decisions of people of whom another one counts
    f"DELETE FROM pending WHERE bandit IN ({_LIFE}) AND NOT EXISTS (SELECT 1 FROM people WHERE "
    "people.bandit = pending.bandit AND people.epoch = pending.epoch AND people.round = "
    "pending.round)"
)


def _nothing_of_settled(connection: Connection) -> None:
    """To 3: one mark for a reward and a default, nothing of settled decisions, people without
    rounds. Ids that were settled before are `unknown` from now on."""

    def run(*statements: str) -> None:
        for statement in statements:
            connection.execute(sa.text(statement))

    run("ALTER TABLE marks RENAME COLUMN rewarded TO used")
    found = connection.execute(sa.text("SELECT bandit, epoch, block, used, defaulted FROM marks"))
    for bandit, epoch, block, used, defaulted in found.all():
        either = bytes(one | other for one, other in zip(used, defaulted, strict=True))
        connection.execute(
            sa.text("UPDATE marks SET used = :u WHERE (bandit, epoch, block) = (:b, :e, :n)"),
            {"u": either, "b": bandit, "e": epoch, "n": block},
        )
    run(
        "ALTER TABLE marks DROP COLUMN defaulted",
        "DROP INDEX pending_due",
        "DROP INDEX pending_bucket",
        "DELETE FROM pending WHERE answer IS NULL",
        _UNUSED,
        "ALTER TABLE pending DROP COLUMN request",
        "CREATE INDEX pending_due ON pending (deadline, bandit)",
        "CREATE INDEX pending_bucket ON pending (bucket)",
    )
    if connection.dialect.name != "sqlite":
        run("ALTER TABLE people DROP COLUMN round")
        return
    run(
        "CREATE TABLE people_of_3 (bandit TEXT NOT NULL, epoch TEXT NOT NULL, person BLOB NOT "
        "NULL, PRIMARY KEY (bandit, epoch, person)) WITHOUT ROWID",
        "INSERT INTO people_of_3 SELECT bandit, epoch, person FROM people",
        "DROP TABLE people",
        "ALTER TABLE people_of_3 RENAME TO people",
    )


def _settled_alike(connection: Connection) -> None:
    """To 4: ids in the order of their hashes, and nothing beside them that tells whether a reward
    settled them. What waits in bandits that are retired has no default."""

    def run(*statements: str) -> None:
        for statement in statements:
            connection.execute(sa.text(statement))

    run(
        "UPDATE pending SET active = false WHERE bandit IN (SELECT name FROM bandits WHERE retired)"
    )
    if not sa.inspect(connection).has_table("settled"):
        return  # before 3 there was none
    if connection.dialect.name != "sqlite":
        run("ALTER TABLE settled DROP COLUMN late")
        return
    run(
        "DROP INDEX settled_day",
        "CREATE TABLE settled_of_4 (bandit TEXT NOT NULL, epoch TEXT NOT NULL, id BLOB NOT NULL, "
        "settled INTEGER NOT NULL, PRIMARY KEY (bandit, epoch, id)) WITHOUT ROWID",
        "INSERT INTO settled_of_4 SELECT bandit, epoch, id, settled FROM settled",
        "DROP TABLE settled",
        "ALTER TABLE settled_of_4 RENAME TO settled",
        "CREATE INDEX settled_day ON settled (settled)",
    )


def _shares(connection: Connection) -> None:
    """To 5: keys may have a share of their own."""
    connection.execute(sa.text("ALTER TABLE keys ADD COLUMN share DOUBLE PRECISION"))


STEPS: dict[int, Callable[[Connection], None]] = {  # by the schema before
    1: _open_decisions,
    2: _nothing_of_settled,
    3: _settled_alike,
    4: _shares,
}
CURRENT = 1 + max(STEPS)


def found(connection: Connection) -> int | None:
    """The schema of a store; None if it is empty."""
    if not sa.inspect(connection).has_table("instance"):
        return None
    return connection.execute(sa.text("SELECT schema FROM instance")).scalar_one_or_none()


def upgrade(connection: Connection) -> None:
    """Bring a store that is not empty to the current schema, or refuse it and change nothing."""
    now = found(connection)
    if now is None:
        return
    if now > CURRENT:
        raise ValueError(
            f"the store was written by a later version of discreet (schema {now}, this one knows "
            f"{CURRENT}): install that version, or restore a backup from before"
        )
    for step in range(now, CURRENT):
        STEPS[step](connection)
    if now < CURRENT:
        connection.execute(sa.text("UPDATE instance SET schema = :now"), {"now": CURRENT})
