"""Flags and DISCREET_* variables of servers and relays, in one place."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from discreet.privacy.noise import Noise

Variables = Mapping[str, Callable[[str], object]]


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
    body_limit    most bytes of a request
    public_rate   calls a second that an address may make without a key, or with a wrong one
    address_connections  that an address may have at once; behind a proxy all have its address
    metrics_port  where /metrics is served without a key; none: nowhere
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
    body_limit: int = 4 * 2**20
    public_rate: float = 100.0
    address_connections: int = 250
    metrics_port: int | None = None
    noise: Noise | None = field(default=None, repr=False)

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] | None = None, **flags: object
    ) -> "Settings":
        """Flags that were given, else variables, else defaults."""
        found = read_variables("DISCREET_", _VARIABLES, environment, **flags)
        return cls(**found)  # type: ignore[arg-type]


def read_variables(
    prefix: str,
    variables: Variables,
    environment: Mapping[str, str] | None = None,
    **flags: object,
) -> dict[str, object]:
    """Flags that were given, and variables for those that were not."""
    given = os.environ if environment is None else environment
    found: dict[str, object] = {}
    for name, read in variables.items():
        text = given.get(prefix + name.upper())
        if text:
            try:
                found[name] = read(text)
            except ValueError:
                raise ValueError(f"{prefix}{name.upper()} must be a number") from None
    found.update({name: value for name, value in flags.items() if value is not None})
    return found


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
    address_connections: int = 250

    def __post_init__(self) -> None:
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
    "address_connections": int,
}
