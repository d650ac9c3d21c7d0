"""`discreet backup`: a copy of a store, also while its server runs."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from discreet.cli.options import StoreUrl


def backup(
    path: Annotated[Path, Argument(metavar="PATH", help="A file that does not exist yet.")],
    store: StoreUrl = None,
) -> None:
    """Copy an SQLite store to a file; the server may go on.

    The copy holds no reward that could be read: keys stay in the folder of
    secrets, which is never part of a backup. PostgreSQL has tools of its own
    (pg_dump, base backups). Whatever the copy was made with: after putting
    it back, run `discreet restore` before the server starts.
    """
    from discreet.service.restoring import backup as copy
    from discreet.service.settings import Settings

    copy(Settings.from_environment(store=store), path)
    print(f"Backup: {path}")
