"""Flags and DISCREET_* variables of servers, relays and witnesses, in one place.

Each variable may end in _FILE and name a file that holds the value: so secrets come to containers.
"""

import difflib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from discreet.privacy.noise import Noise
from discreet.service.definitions import NAME
from discreet.service.keys import SHORTEST_ADMIN

Variables = Mapping[str, Callable[[str], object]]
LONGEST = 2**16  # bytes of a file that holds a value


@dataclass(frozen=True)
class Settings:
    """How a server runs.

    store         sqlite:///file or postgresql://user:password@host/database
    secrets       folder for keys and the fence; better on another disk than the store
    host, port    where it listens
    personalizer  name of the bandit that the Personalizer API serves; none: no such API
    demo          a temporary store, played by simulated people
    witness       URL of a `discreet witness`, which notices snapshots; none: nobody does
    witness_key   the secret of the witness
    admin_key     the admin key, set from outside; none: made at the first start, shown once
    admin_key_file  holds it; if there is no such file the first start makes it, mode 0600
    body_limit    most bytes of a request
    public_rate   calls a second that an address may make without a key, or with a wrong one
    address_connections  that an address may have at once; behind a proxy all have its address
    metrics_port  where /metrics is served without a key, with all its numbers; none: nowhere
    metrics_host  the address for that; none: as `host`
    log           what is logged: "requests", or "events" alone
    noise         for tests only: another source than SecureNoise
    """

    store: str = "sqlite:///discreet.db"
    secrets: Path = Path("discreet-secrets")
    host: str = "127.0.0.1"
    port: int = 8360
    personalizer: str | None = None
    demo: bool = False
    witness: str | None = None
    witness_key: str | None = field(default=None, repr=False)
    admin_key: str | None = field(default=None, repr=False)
    admin_key_file: Path | None = None
    body_limit: int = 4 * 2**20
    public_rate: float = 100.0
    address_connections: int = 250
    metrics_port: int | None = None
    metrics_host: str | None = None
    log: str = "requests"
    noise: Noise | None = field(default=None, repr=False)

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
                "ADDRESS_CONNECTIONS must be at least 1": self.address_connections >= 1,
                "LOG must be requests or events": self.log in ("requests", "events"),
            },
        )

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] | None = None, **flags: object
    ) -> "Settings":
        """Flags that were given, else variables, else defaults."""
        found = read_variables("DISCREET_", _VARIABLES, environment, **flags)
        to = (os.environ if environment is None else environment).get(f"{_MADE}_FILE")
        return cls(**found, admin_key_file=Path(to) if to else None)  # type: ignore[arg-type]


def read_variables(
    prefix: str,
    variables: Variables,
    environment: Mapping[str, str] | None = None,
    **flags: object,
) -> dict[str, object]:
    """Flags that were given, and variables (or files that they name) for those that were not."""
    given = os.environ if environment is None else environment
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
_OTHERS = ("DISCREET_RELAY_", "DISCREET_CHROMIUM")  # another program's, which has its own check
_VARIABLES: Variables = {
    "store": str,
    "secrets": Path,
    "host": str,
    "port": int,
    "personalizer": str,
    "witness": str,
    "witness_key": str,
    "admin_key": str,
    "body_limit": int,
    "public_rate": float,
    "address_connections": int,
    "metrics_port": int,
    "metrics_host": str,
    "log": str,
}


@dataclass(frozen=True)
class RelaySettings:
    """How a relay runs.

    server         address of the decision server
    key            an API key of that server with the scope relay
    bandits        whose reports it carries
    store          sqlite:///file, for the open batches
    host, port     where it listens
    wait           seconds after which a batch goes that has its minimum, or is dropped
    minimum        reports below which a batch is dropped, whatever the server's terms say
    tick           seconds between two looks at the batches: they go then, and at no other time
    person_header  a header that a login in front of the relay sets, and that says who sends; none:
                   devices say it themselves
    body_limit     most bytes of a request
    public_rate    reports a second that an address may send
    address_connections  that an address may have at once; behind a proxy all have its address
    """

    server: str = ""
    key: str = field(default="", repr=False)
    bandits: tuple[str, ...] = ()
    store: str = "sqlite:///relay.db"
    host: str = "127.0.0.1"
    port: int = 8361
    wait: float = 86400.0
    minimum: int = 50
    tick: float = 10.0
    person_header: str | None = None
    body_limit: int = 256 * 1024  # a report of 128 columns, sealed and spelled
    public_rate: float = 100.0
    address_connections: int = 250

    def __post_init__(self) -> None:
        claims = {"PUBLIC_RATE must be above 0": self.public_rate > 0}
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
        """Flags that were given, else variables, else defaults."""
        return cls(**read_variables("DISCREET_RELAY_", _RELAY_VARIABLES, **flags))  # type: ignore[arg-type]


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


_RELAY_VARIABLES: Variables = {
    "server": str,
    "key": str,
    "bandits": _names,
    "store": str,
    "host": str,
    "port": int,
    "wait": float,
    "minimum": int,
    "tick": float,
    "person_header": str,
    "body_limit": int,
    "public_rate": float,
    "address_connections": int,
}
