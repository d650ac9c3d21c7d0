"""Flags and DISCREET_* variables, in one place."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from discreet.privacy import Noise

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
    body_limit: int = 8 * 2**20
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
}
