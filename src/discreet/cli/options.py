"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

from typer import Option

Out = Annotated[Path, Option(help="Folder for everything that is written.")]
Workers = Annotated[int | None, Option(min=1, help="Processes; by default one for each core.")]
Cluster = Annotated[
    str | None, Option(help="A Dask scheduler, tcp://HOST:PORT: its workers run the cells.")
]
Show = Annotated[bool, Option("--open/--no-open", help="Open the report where there is a display.")]
StoreUrl = Annotated[
    str | None,
    Option(
        "--store",
        metavar="URL",
        help="sqlite:///FILE or postgresql://... (DISCREET_STORE; sqlite:///discreet.db).",
    ),
]
Witness = Annotated[
    str | None,
    Option(
        metavar="URL",
        help="A `discreet witness` elsewhere: it notices snapshots of store and secrets together "
        "(DISCREET_WITNESS; its key in DISCREET_WITNESS_KEY).",
    ),
]
Secrets = Annotated[
    Path | None,
    Option(
        metavar="DIR",
        help="Keys and the fence, best on another disk (DISCREET_SECRETS; discreet-secrets).",
    ),
]
