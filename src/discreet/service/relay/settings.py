"""Flags and DISCREET_RELAY_* variables, in one place."""

from dataclasses import dataclass, field

from discreet.service.settings import Variables, read_variables


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


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
    body_limit: int = 2**20

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
        return cls(**read_variables("DISCREET_RELAY_", _VARIABLES, **flags))  # type: ignore[arg-type]


_VARIABLES: Variables = {
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
}
