"""What callers may use up: memory for bodies, calls of an address, attempts to log in.

Addresses are held in memory for as long as their limit needs, and are written nowhere.
"""

import asyncio
import time
from ipaddress import IPv6Address, ip_address, ip_network

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from discreet.service.errors import Problem, invalid

BODY_SECONDS = 30.0  # a client may take to send a request
STRANGERS_BYTES = 64 * 1024  # of a body that comes without a key
STRANGERS_ITEMS = 100  # in it
STRANGERS_BODIES = 16 * 2**20  # bytes in memory, of all bodies without a key
BODIES = 128 * 2**20  # the same, of those with one
BURST_SECONDS = 2.0  # of an address's rate
# An address has 250 connections: 1,000 refusals a second of .1 ms are a tenth of a processor.
REFUSED_SECONDS = 0.25
LOGINS = 10  # that may fail at once
LOGIN_RATE = 0.1  # a second, afterwards
_GIVEN_UP = -1.0
_MOST_ADDRESSES = 10_000  # in a table: looking through it holds everybody else
_NO_ADDRESS = "no address"
MOST_SECONDS = 86400.0  # that anybody is told to wait for one call
RawHeaders = list[tuple[bytes, bytes]]


class Bodies:
    """Bodies in memory, of requests that are read or answered.

    most   bytes of all of them; a single one may be larger if nobody else has any
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.held = 0
        self._until: dict[asyncio.Task[object], float] = {}

    async def read(
        self, headers: RawHeaders, receive: Receive, limit: int, seconds: float | None = None
    ) -> bytes:
        """The body of a request, if it is not too large and comes soon; `drop` it when done."""
        for name, stated in headers:
            if name == b"content-length" and stated.isdigit() and int(stated) > limit:
                raise Problem("too-large", limit=limit)
        pieces: list[bytes] = []
        size = 0
        more = True
        task = asyncio.current_task()
        assert task is not None
        self._until[task] = time.monotonic() + (BODY_SECONDS if seconds is None else seconds)
        try:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                piece = message.get("body", b"")
                more = message.get("more_body", False)
                if size + len(piece) > limit:
                    raise Problem("too-large", limit=limit)
                if self.held > size and self.held + len(piece) > self._most:
                    raise Problem("busy", headers={"Retry-After": "1"})
                pieces.append(piece)
                size += len(piece)
                self.held += len(piece)
        except BaseException as error:
            self.held -= size
            if isinstance(error, asyncio.CancelledError) and self._until[task] == _GIVEN_UP:
                task.uncancel()
                raise Problem("too-slow") from None
            raise
        finally:
            del self._until[task]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def hold(self, size: int, limit: int) -> None:
        """Count a body that is there, if it is not too large; `drop` it when done."""
        if size > limit:
            raise Problem("too-large", limit=limit)
        if self.held and self.held + size > self._most:
            raise Problem("busy", headers={"Retry-After": "1"})
        self.held += size

    def drop(self, size: int) -> None:
        """A body of that size was answered."""
        self.held -= size

    def give_up_slow_clients(self) -> None:
        """End requests whose body does not come; a timer for each would cost more than reading."""
        now = time.monotonic()
        for task, until in list(self._until.items()):
            if until < now:
                self._until[task] = _GIVEN_UP
                task.cancel()


class Addresses:
    """So many calls a second of each address.

    rate    calls a second
    burst   that may come at once
    """

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._spent: dict[str, tuple[float, float]] = {}  # calls that count still, when

    def assert_open(self, address: str, number: int = 1) -> None:
        """Raise if an address has not so many left."""
        if number > max(1.0, self._burst):
            raise invalid(f"without a key send at most {int(self._burst)} at once")
        missing = number - self._left(address)
        if missing > 0:
            raise too_many(missing / self._rate, "This address")

    def spend(self, address: str, number: int = 1) -> None:
        """Count so many calls, or raise if that is more than are left."""
        self.assert_open(address, number)
        self.owe(address, number)

    def owe(self, address: str, number: int) -> None:
        """Count so many calls, also those that come later."""
        if len(self._spent) > _MOST_ADDRESSES:
            self._forget()
        spent = self._burst - self._left(address) + number
        self._spent[address] = spent, time.monotonic()

    async def spend_slowly(self, address: str) -> None:
        """Count a call; whoever has none left is told so late, or refusals would be all we do."""
        try:
            self.spend(address)
        except Problem:
            self._spent[address] = self._burst, time.monotonic() + REFUSED_SECONDS
            await asyncio.sleep(REFUSED_SECONDS)
            raise

    def _left(self, address: str) -> float:
        spent, at = self._spent.get(address, (0.0, 0.0))
        return self._burst - max(0.0, spent - (time.monotonic() - at) * self._rate)

    def _forget(self) -> None:
        """Forget addresses that have all their calls again; all of them if few have."""
        self._spent = {
            address: each
            for address, each in self._spent.items()
            if self._left(address) < self._burst
        }
        if len(self._spent) > _MOST_ADDRESSES // 2:
            self._spent.clear()


def address_of(scope: Scope) -> str:
    """Whose rate a call counts against."""
    return network_of((scope.get("client") or ("", 0))[0])


def network_of(host: str) -> str:
    """An address; of IPv6 the network that a home has.

    A trusted proxy may have said anything: all that is no address counts as one, the proxy's own.
    """
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return _NO_ADDRESS
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return str(ip_network(f"{found}/64", strict=False))
    return str(getattr(found, "ipv4_mapped", None) or found)


def too_many(wait: float, who: str) -> Problem:
    """A limit was reached; there is room again after so many seconds."""
    seconds = str(max(1, round(min(wait, MOST_SECONDS))))
    return Problem("too-many-requests", who=who, headers={"Retry-After": seconds})
