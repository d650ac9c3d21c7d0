"""`discreet witness`: notices a service that was brought back from a snapshot."""

from pathlib import Path
from typing import Annotated

from typer import Option


def witness(
    file: Annotated[Path, Option(help="Where it keeps its words.")] = Path("witness.db"),
    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(min=1, max=65535, help="Port to listen on.")] = 8361,
) -> None:
    """Keep one word for each service, on another machine than the service.

    A service that asks it (`discreet serve --witness URL`) is refused when
    store and secrets were brought back together from a snapshot that has
    gone on elsewhere. DISCREET_WITNESS_KEY is the secret of both sides.

    \b
      DISCREET_WITNESS_KEY=... discreet witness --file /var/lib/witness.db
    """
    import os

    from discreet.service.witnessing import serve

    serve(file, os.environ.get("DISCREET_WITNESS_KEY"), host, port)
