"""What one application may take of a bandit: of its horizon, or of each window if it has none.

Rounds are counted by the name of the key that decides, in the store, under the bandit's lock: so
the count survives restarts and holds across replicas. A replica takes a few in advance, as with
leases, and gives back what it has not used; what a crash loses counts as taken. How many rounds an
application took says nothing of people: who asked for a decision is not protected.

A share is for others. So it stops nobody where no other application may decide (`Keys.share_of`),
and of a window there is another one once nobody has wanted a round for an hour.
"""

import math
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy.engine import Connection

from discreet.service import rows
from discreet.service import store as tables
from discreet.service.errors import Problem
from discreet.service.live import Live

if TYPE_CHECKING:
    from discreet.service.server import Server

_SECONDS = 60  # after which to ask whether the window has turned
WAIT_SECONDS = 3600.0  # in which nobody took a round: then a share of the window comes again


Counted = tuple[str, int] | None  # whose rounds, and of which window; None: there is no limit


async def spend(server: "Server", live: Live, owner: str, number: int) -> Counted:
    """Count decisions of an application; raise if it has had its share."""
    ends = live.definition.horizon is not None
    share = server.keys.share_of(owner, live.name, ends)
    if share is None or number == 0:
        return None

    def take(many: Sequence[tuple[int, int]]) -> list[Any]:
        return [_taken(server, live, owner, share, *each) for each in many]

    window = 0 if ends else live.window
    while (held := live.shares.get((owner, window), 0)) < number:
        missing = number - held
        asked = missing, max(missing, live.unused)  # in advance: as many as rounds are leased
        window, taken = await server.writer.do(("share", live.name, owner), take, asked)
        live.shares = {each: n for each, n in live.shares.items() if each[1] == window}
        live.shares[owner, window] = live.shares.get((owner, window), 0) + taken
    live.shares[owner, window] -= number
    return owner, window


def _taken(
    server: "Server", live: Live, owner: str, share: float, number: int, more: int
) -> tuple[int, int] | Problem:
    """Which window it counts for (0: the horizon), and how many rounds: up to so many more."""
    name = live.name
    with server.store.transaction() as connection:
        row = server.row(connection, name)
        horizon = server.tenant_of(connection, row).definition.horizon
        window = row.window if horizon is None else 0
        if row.retired or not row.learning:  # nothing is left to share: decisions go on
            return window, more
        size = row.window_end - row.window_start if horizon is None else horizon
        most = max(1, math.floor(share * size))
        before = _count(connection, name, owner, window)
        if before + number > most and horizon is None and _waited(live, owner, row):
            before = 0
        granted = min(more, most - before)
        if granted < number:
            return _used(most, size, horizon is None)
        new = {"bandit": name, "owner": owner, "window": window, "taken": before + granted}
        rows.delete(
            connection, tables.shares, bandit=name, owner=owner
        )  # perhaps of another window
        rows.insert(connection, tables.shares, [new])
    return window, granted


def _waited(live: Live, owner: str, row: Any) -> bool:
    """Whether nobody has taken a round for an hour since this application was refused one."""
    now = time.monotonic()
    rounds = row.window, row.next_round, row.returned
    then, since = live.refused.get(owner, ((), now))
    if rounds != then:
        live.refused[owner] = rounds, now
        return False
    return bool(now - since >= WAIT_SECONDS)


def _count(connection: Connection, name: str, owner: str, window: int) -> int:
    """Rounds that an application has taken of a window, 0 being the horizon."""
    here = {"bandit": name, "owner": owner, "window": window}
    found = rows.one(connection, tables.shares, "taken", **here)
    return 0 if found is None else found.taken


def unspend(live: Live, counted: Counted, number: int) -> None:
    """So many decisions were not made: what was counted for them is unused."""
    if counted is not None:
        live.shares[counted] = live.shares.get(counted, 0) + number


async def give_back(server: "Server", live: Live) -> None:
    """Return what was taken in advance and not used."""
    unused, live.shares = live.shares, {}
    if any(unused.values()):
        await server.with_bandit(live.name, partial(_given_back, unused=unused))


def _given_back(connection: Connection, row: Any, unused: dict[tuple[str, int], int]) -> None:
    for (owner, window), number in unused.items():
        here = {"bandit": row.name, "owner": owner, "window": window}
        left = _count(connection, row.name, owner, window) - number
        rows.update(connection, tables.shares, here, taken=left)


def _used(most: int, size: int, comes_again: bool) -> Problem:
    words: dict[str, Any] = {"most": most, "size": size}
    if not comes_again:
        return Problem("share-used", what="horizon", until="", **words)
    until = (
        ", until the next window or an hour in which nobody decides; where nobody else has a key "
        "to decide, all"
    )
    again = {"Retry-After": str(_SECONDS)}
    return Problem("share-used", status=429, headers=again, what="window", until=until, **words)
