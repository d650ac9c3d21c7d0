"""What a relay keeps of its batches, in SQLite: durable before it answers, and forgotten with them.

Nothing here has an order of arrival: rows are kept by a random place that is drawn when a report
comes, and a batch is forwarded in the order of places. So the permutation is uniform, the same when
a batch is sent again after a crash. A write-ahead log would be an order of arrival: the journal is
one that is emptied with every commit, and what is deleted is overwritten. Whoever copies the disk
while a batch is open still sees which parts of the file grew last, and hashes of people with their
key: what the relay itself knows.
"""

import hmac
import secrets
import time
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from discreet.service import rows
from discreet.service.store import Store

PLACE_BYTES = 16
_metadata = sa.MetaData()
_TEXT, _BYTES = sa.Text(), sa.LargeBinary()


def _table(title: str, own: dict[str, Any], *columns: sa.Column[Any]) -> sa.Table:
    made = [sa.Column(each, kind, primary_key=True) for each, kind in own.items()]
    return sa.Table(title, _metadata, *made, *columns, sqlite_with_rowid=False)


batches = _table(
    "batches",  # one for each bandit
    {"bandit": _TEXT},
    sa.Column("id", _BYTES, nullable=False),  # chosen before anything is forwarded
    sa.Column("terms", _BYTES, nullable=False),  # as the server published them
    sa.Column("policy", _TEXT, nullable=False),
    sa.Column("secret", _BYTES),  # of the hashes of people; none once the batch is closed
    sa.Column("count", sa.Integer(), nullable=False),  # of reports since it was opened
    sa.Column("ends", sa.Double(), nullable=False),
)
reports = _table(
    "reports",
    {"bandit": _TEXT, "place": _BYTES},
    sa.Column("sealed", _BYTES, nullable=False),
)
people = _table("people", {"bandit": _TEXT, "person": _BYTES})  # keyed hashes
entered = _table("entered", {"bandit": _TEXT, "id": _BYTES})  # ids of reports that nobody has seen
seen = _table("seen", {"bandit": _TEXT, "policy": _TEXT, "id": _BYTES})  # and of closed batches


class RelayStore(Store):
    """The file of a relay; one process at a time."""

    _journal = "TRUNCATE"

    def prepare(self) -> None:
        """Make tables that are missing."""
        try:
            with self.transaction() as connection:
                _metadata.create_all(connection)
        except sa.exc.DatabaseError:
            raise ValueError(
                f"the store {self.path} is damaged, or something else than a relay's: choose "
                "another --store; what it holds is lost reports at the most"
            ) from None

    def batch(self, connection: Connection, bandit: str) -> Any:
        """The batch of a bandit, or None."""
        return rows.one(connection, batches, bandit=bandit)

    def open(
        self, connection: Connection, bandit: str, terms: bytes, policy: str, wait: float
    ) -> None:
        """Begin a batch; its end does not depend on when anyone comes."""
        new = {"bandit": bandit, "id": secrets.token_bytes(16), "terms": terms, "policy": policy}
        rows.insert(connection, batches, [new | _begun(wait)])
        older = sa.and_(seen.c.bandit == bandit, seen.c.policy != policy)
        connection.execute(sa.delete(seen).where(older))

    def has(self, connection: Connection, batch: Any, id: bytes) -> bool:
        """Whether a report has come, to this batch or to one of its policy that was closed."""
        here = {"bandit": batch.bandit, "id": id}
        before = rows.one(connection, seen, policy=batch.policy, **here)
        return before is not None or rows.one(connection, entered, **here) is not None

    def add(
        self, connection: Connection, batch: Any, id: bytes, person: bytes, sealed: bytes
    ) -> int:
        """Add a report to the open batch; returns how many: of each person one, and nobody is told
        whether it was the first."""
        rows.insert(connection, entered, [{"bandit": batch.bandit, "id": id}])
        who = {"bandit": batch.bandit, "person": hmac.digest(batch.secret, person, "sha256")}
        if rows.one(connection, people, **who) is not None:
            return 0
        rows.insert(connection, people, [who])
        new = {"bandit": batch.bandit, "place": new_place(), "sealed": sealed}
        rows.insert(connection, reports, [new])
        return 1

    def close_batch(self, connection: Connection, bandit: str) -> None:
        """No more reports; who sent those that came is forgotten, and none of them enters again: a
        server that has it in two batches would know whose answer was lost."""
        rows.update(connection, batches, {"bandit": bandit}, secret=None)
        rows.delete(connection, people, bandit=bandit)
        (policy,) = rows.one(connection, batches, "policy", bandit=bandit)
        ids = [id for (id,) in rows.find(connection, entered, "id", bandit=bandit)]
        came = [{"bandit": bandit, "policy": policy, "id": id} for id in sorted(ids)]
        rows.insert(connection, seen, came)
        rows.delete(connection, entered, bandit=bandit)

    def content(self, connection: Connection, bandit: str) -> bytes:
        """The sealed reports of a batch, in the order of their places."""
        found = rows.find(connection, reports, "place", "sealed", bandit=bandit)
        return b"".join(bytes(sealed) for _, sealed in sorted(found))

    def reopen(self, connection: Connection, bandit: str, bad: list[int], wait: float) -> None:
        """Give the places of bad reports, by their order in the content, to others: from now on as
        many must come as to a new batch, since whoever saw the content can tell them from it."""
        found = sorted(rows.find(connection, reports, "place", bandit=bandit))
        rows.delete(connection, reports, bandit=bandit, place=[found[at].place for at in bad])
        rows.update(connection, batches, {"bandit": bandit}, **_begun(wait))

    def forget(self, connection: Connection, bandit: str) -> None:
        """A batch is over: nothing stays but, if it was closed, which reports had come."""
        for table in (batches, reports, people, entered):
            rows.delete(connection, table, bandit=bandit)


def _begun(wait: float) -> dict[str, Any]:
    return {"secret": secrets.token_bytes(32), "count": 0, "ends": time.time() + wait}


def new_place() -> bytes:
    """Where a report stands in its batch: from the operating system's entropy."""
    return secrets.token_bytes(PLACE_BYTES)
