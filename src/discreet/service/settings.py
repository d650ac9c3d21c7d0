"""Flags and DISCREET_* variables of servers, relays and witnesses, in one place.

Each variable may end in _FILE and name a file that holds the value: so secrets come to containers.
"""

import difflib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

from discreet.privacy.noise import Noise
from discreet.service.definitions import NAME
from discreet.service.keys import SHORTEST_ADMIN

Variables = Mapping[str, Callable[[str], object]]
LONGEST = 2**16  # bytes of a file that holds a value


@dataclass(frozen=True)
class Settings:
    """How a server runs."""

    store: str = "sqlite:///discreet.db"  # or postgresql://user:password@host/database
    secrets: Path = Path("discreet-secrets")  # keys and the fence; better on another disk
    host: str = "127.0.0.1"  # where it listens
    port: int = 8360  # for that
    personalizer: str | None = None  # bandit of the Personalizer API; none: no such API
    witness: str | None = None  # URL of a `discreet witness`, which notices snapshots
    witness_key: str | None = field(default=None, repr=False)  # its secret
    admin_key: str | None = field(default=None, repr=False)  # none: made at the first start
    admin_key_file: Path | None = None  # holds it; if it is not there the first start makes it
    body_limit: int = 4 * 2**20  # most bytes of a request
    public_rate: float = 100.0  # calls a second of an address without a key, or with a wrong one
    public_share: float = 0.1  # of a window of local trust that an address may fill with reports
    # without a key, at once and again in each hour; 0: reports need a key; 1: all of it
    address_connections: int = 250  # of an address at once; behind a proxy all have its address
    metrics_port: int | None = None  # for /metrics without a key, with all its numbers
    metrics_host: str | None = None  # the address for that; none: as `host`
    log: str = "requests"  # what is logged, or "events" alone
    demo: bool = False  # a temporary store, played by simulated people
    noise: Noise | None = field(default=None, repr=False)  # for tests: another one than SecureNoise

    def __post_init__(self) -> None:
        ports = {"PORT": self.port, "METRICS_PORT": self.metrics_port}
        _assert_all(
            "DISCREET_",
            _ports(ports)
            | {
                "METRICS_PORT must differ from DISCREET_PORT": self.port != self.metrics_port,
                "HOST must name an address": bool(self.host),
                "PERSONALIZER must be the name of a bandit": self.personalizer is None
                or bool(NAME.fullmatch(self.personalizer)),
                f"ADMIN_KEY must have at least {SHORTEST_ADMIN} characters": self.admin_key is None
                or len(self.admin_key) >= SHORTEST_ADMIN,
                "WITNESS_KEY must be set: a witness needs its key": self.witness is None
                or bool(self.witness_key),
                "BODY_LIMIT must be at least 1024 bytes": self.body_limit >= 1024,
                "PUBLIC_RATE must be a number of calls a second, above 0": 0
                < self.public_rate
                < math.inf,
                "PUBLIC_SHARE must be a number from 0 to 1": 0 <= self.public_share <= 1,
                "ADDRESS_CONNECTIONS must be at least 1": self.address_connections >= 1,
                "LOG must be requests or events": self.log in ("requests", "events"),
            },
        )

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] | None = None, **flags: object
    ) -> "Settings":
        found = read_variables("DISCREET_", cls, environment, **flags)
        to = (os.environ if environment is None else environment).get(f"{_MADE}_FILE")
        return cls(**found, admin_key_file=Path(to) if to else None)  # type: ignore[arg-type]


def read_variables(
    prefix: str, kind: type, environment: Mapping[str, str] | None = None, **flags: object
) -> dict[str, object]:
    """Flags that were given, and variables (or files that they name) for those that were not."""
    given = os.environ if environment is None else environment
    variables = readers(kind)
    _assert_known(prefix, variables, given)
    found: dict[str, object] = {}
    for name, read in variables.items():
        text = text_of(prefix + name.upper(), given)
        if text:
            try:
                found[name] = read(text)
            except ValueError:
                raise ValueError(f"{prefix}{name.upper()} must be a number") from None
    found.update({name: value for name, value in flags.items() if value is not None})
    return found


def readers(kind: Any) -> Variables:
    """Settings that a variable may state, and how its text is read: by their types."""
    found = {}
    for setting in fields(kind):
        stated = setting.type
        is_optional = isinstance(stated, UnionType)
        plain = get_args(stated)[0] if is_optional else get_origin(stated) or stated
        if plain in _READERS and not setting.name.endswith("_file"):
            found[setting.name] = _READERS[plain]
    return found


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def text_of(name: str, given: Mapping[str, str]) -> str | None:
    """What a variable says, or the file that NAME_FILE names."""
    path = given.get(f"{name}_FILE")
    if not path:
        return given.get(name)
    if given.get(name):
        raise ValueError(f"set {name} or {name}_FILE, not both")
    if name == _MADE and not Path(path).exists():
        return None
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(LONGEST).strip()
    except (OSError, UnicodeDecodeError):
        text = ""
    if not text:
        raise ValueError(f"{name}_FILE names a file that is empty or cannot be read: {path}")
    return text


def _assert_known(prefix: str, variables: Variables, given: Mapping[str, str]) -> None:
    """A misspelt limit would be no limit: every variable of this name must be one of ours."""
    names = [prefix + name.upper() for name in variables]
    known = {*names, *(f"{name}_FILE" for name in names)}
    for name in sorted(given):
        ours = name.startswith(prefix) and (prefix != "DISCREET_" or not name.startswith(_OTHERS))
        if ours and name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.0)
            raise ValueError(f"{name} is not known: did you mean {near[0]}?")


def _ports(ports: Mapping[str, int | None]) -> dict[str, bool]:
    return {
        f"{name} must be a number from 1 to 65535": port is None or 1 <= port <= 65535
        for name, port in ports.items()
    }


def _assert_all(prefix: str, claims: Mapping[str, bool]) -> None:
    for claim, holds in claims.items():
        if not holds:
            raise ValueError(prefix + claim)


_MADE = "DISCREET_ADMIN_KEY"  # whose file the first start makes
_READERS: dict[Any, Callable[[str], object]] = {
    str: str,
    int: int,
    float: float,
    Path: Path,
    tuple: _names,
}
_OTHERS = ("DISCREET_RELAY_", "DISCREET_CHROMIUM")  # another program's, which has its own check


@dataclass(frozen=True)
class RelaySettings:
    """How a relay runs."""

    server: str = ""  # address of the decision server
    key: str = field(default="", repr=False)  # of that server's API, with the scope relay
    bandits: tuple[str, ...] = ()  # whose reports it carries
    store: str = "sqlite:///relay.db"  # for the open batches
    host: str = "127.0.0.1"  # where it listens
    port: int = 8361  # for that
    wait: float = 86400.0  # seconds after which a batch goes that has its minimum, or is dropped
    minimum: int = 50  # reports below which a batch is dropped, whatever the server's terms say
    tick: float = 10.0  # seconds between two looks at the batches: they go then alone
    person_header: str | None = None  # that a login in front of the relay sets: who sends
    person_key: str | None = field(default=None, repr=False)  # of the application that knows people
    # and signs their names (`relay.app.signed`); none: any name will do
    body_limit: int = 256 * 1024  # bytes of a request: a report of 128 columns, sealed and spelled
    public_rate: float = 100.0  # reports a second of an address
    address_connections: int = 250  # of an address at once; behind a proxy all have its address

    def __post_init__(self) -> None:
        claims = {
            "PUBLIC_RATE must be above 0": self.public_rate > 0,
            f"PERSON_KEY must have at least {SHORTEST_ADMIN} characters": self.person_key is None
            or len(self.person_key) >= SHORTEST_ADMIN,
        }
        _assert_all("DISCREET_RELAY_", _ports({"PORT": self.port}) | claims)
        if not self.server.startswith(("https://", "http://")):
            raise ValueError("--server must be the decision server's address: https://...")
        if not self.key:
            raise ValueError(
                "DISCREET_RELAY_KEY must hold a key of the server with the scope relay: "
                "discreet keys create --name relay --scope relay"
            )
        if not self.bandits:
            raise ValueError("name at least one --bandit whose reports the relay carries")
        if not self.store.startswith("sqlite:///"):
            raise ValueError("--store must be sqlite:///FILE: a relay keeps its batches to itself")
        if not (self.wait > 0 and self.tick > 0 and self.minimum >= 2):
            raise ValueError("expected --wait and --tick above 0, and --minimum of at least 2")

    @classmethod
    def from_environment(cls, **flags: object) -> "RelaySettings":
        return cls(**read_variables("DISCREET_RELAY_", cls, **flags))  # type: ignore[arg-type]
