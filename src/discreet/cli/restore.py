"""`discreet restore`: make a store that came from a backup safe to serve."""

import sys
from typing import Annotated

from typer import Option, confirm

from discreet.cli.options import Secrets, StoreUrl, Witness

_QUESTION = (
    "Rewards of windows that are open in the backup are discarded unread, and decision tokens from "
    "before no longer count. Go on?"
)


def restore(
    store: StoreUrl = None,
    secrets: Secrets = None,
    witness: Witness = None,
    yes: Annotated[bool, Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Begin a new epoch after a backup was put back.

    A database from a backup must not simply go on: noise of its open windows
    would be used twice, and what it hid could be computed. This discards
    open windows unread, and replays from the folder of secrets what must not
    be forgotten: charges, limits, revoked keys, retired bandits.

    Put the backup in the place of the store first, and stop all servers.
    """
    from discreet.service.restoring import restore as begin_epoch
    from discreet.service.settings import Settings

    settings = Settings.from_environment(store=store, secrets=secrets, witness=witness)
    if not yes:
        if not sys.stdin.isatty():
            raise ValueError("restore asks before it discards open windows: say --yes in a script")
        confirm(_QUESTION, abort=True)
    for line in begin_epoch(settings):
        print(line)
