"""Options that several commands have."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

if TYPE_CHECKING:
    from discreet.saved import Saved

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
Given = Annotated[
    list[str] | None,
    Option(
        metavar="NAME=MODULE:OBJECT",
        help="An argument that no file can hold, such as a function; may be repeated.",
    ),
]


def read_file(path: Path, given: Sequence[str]) -> "Saved":
    """A saved object, with the arguments that `--given` names."""
    from discreet.experiments.own import named
    from discreet.saved import read_saved
    from discreet.state import NotInFile

    found = {}
    for text in given:
        name, mark, where = text.partition("=")
        if not mark or not name.isidentifier():
            raise ValueError(f"--given takes NAME=MODULE:OBJECT, got {text!r}")
        found[name] = named(where)
    try:
        return read_saved(path, **found)
    except NotInFile as error:
        what = str(error).split(";")[0]
        raise ValueError(f"{what}; say where it is: --given NAME=MODULE:OBJECT") from None
