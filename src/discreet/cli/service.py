"""`discreet serve`, `relay`, `backup`, `restore`, `witness`, `keys`: the decision service."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option, confirm

from discreet.cli.options import Secrets, StoreUrl, Witness

if TYPE_CHECKING:
    from discreet.service.key_access import KeyAccess


def serve(
    store: StoreUrl = None,
    secrets: Secrets = None,
    host: Annotated[
        str | None, Option(help="Address to listen on (DISCREET_HOST; 127.0.0.1).")
    ] = None,
    port: Annotated[
        int | None, Option(min=1, max=65535, help="Port to listen on (DISCREET_PORT; 8360).")
    ] = None,
    personalizer: Annotated[
        str | None,
        Option(metavar="BANDIT", help="Serve the retired Personalizer's API for this bandit "
               "(DISCREET_PERSONALIZER)."),
    ] = None,
    witness: Witness = None,
    demo: Annotated[
        bool, Option("--demo", help="A store that is thrown away, and simulated people.")
    ] = False,
) -> None:  # fmt: skip
    """Decide for people over HTTP, learn from their rewards, keep the promise.

    Without options: an SQLite file and a folder of secrets in the working
    directory. The first start makes an admin key and shows it once;
    DISCREET_ADMIN_KEY (at least 32 characters) sets it from outside.
    Ctrl-C finishes the commit at hand and stops.

    \b
      discreet serve --demo
      discreet serve --secrets /mnt/other-disk/secrets
      discreet serve --store postgresql://discreet@db/discreet --host 0.0.0.0
    """
    from discreet.service.demo import serve_demo
    from discreet.service.serving import serve as serve_until_stopped
    from discreet.service.settings import Settings

    settings = Settings.from_environment(
        store=store,
        secrets=secrets,
        host=host,
        port=port,
        personalizer=personalizer,
        witness=witness,
    )
    if not demo:
        serve_until_stopped(settings)
        return
    if any(given is not None for given in (store, secrets, personalizer, witness)):
        raise ValueError("--demo makes a store of its own: leave out the other options")
    serve_demo(settings)


RelayServer = Annotated[
    str | None, Option(metavar="URL", help="The decision server (DISCREET_RELAY_SERVER).")
]
RelayBandits = Annotated[
    list[str] | None,
    Option(help="Whose reports it carries; may be repeated (DISCREET_RELAY_BANDITS)."),
]
RelayStore = Annotated[
    str | None,
    Option(metavar="URL", help="sqlite:///FILE, for open batches (DISCREET_RELAY_STORE; "
           "sqlite:///relay.db)."),
]  # fmt: skip
RelayWait = Annotated[
    float | None,
    Option(help="Seconds after which a batch goes that has its minimum, or is dropped "
           "(DISCREET_RELAY_WAIT; 86400)."),
]  # fmt: skip
RelayMinimum = Annotated[
    int | None,
    Option(help="Reports below which a batch is dropped, unless the server asks for more "
           "(DISCREET_RELAY_MINIMUM; 50)."),
]  # fmt: skip
PersonHeader = Annotated[
    str | None,
    Option(metavar="HEADER", help="Set by a login in front of the relay: who sends. Without "
           "it devices say so themselves (DISCREET_RELAY_PERSON_HEADER)."),
]  # fmt: skip


def relay(
    server: RelayServer = None,
    bandit: RelayBandits = None,
    store: RelayStore = None,
    host: Annotated[
        str | None, Option(help="Address to listen on (DISCREET_RELAY_HOST; 127.0.0.1).")
    ] = None,
    port: Annotated[
        int | None, Option(min=1, max=65535, help="Port to listen on (DISCREET_RELAY_PORT; 8361).")
    ] = None,
    wait: RelayWait = None,
    minimum: RelayMinimum = None,
    person_header: PersonHeader = None,
) -> None:
    """Hide who sent which report: collect sealed ones, shuffle, forward, forget.

    The relay cannot read reports, and the server cannot see who sent them, as
    long as they are run by different people. DISCREET_RELAY_KEY holds a key of
    the server with the scope relay. A batch is kept through crashes, goes to
    the server once, and is dropped if it stays below its minimum.

    \b
      discreet keys create --name relay --scope relay --bandit ads
      discreet relay --server https://decisions.example --bandit ads
    """
    from discreet.service.relay.app import serve
    from discreet.service.settings import RelaySettings

    settings = RelaySettings.from_environment(
        server=server,
        bandits=tuple(bandit) if bandit else None,
        store=store,
        host=host,
        port=port,
        wait=wait,
        minimum=minimum,
        person_header=person_header,
    )
    serve(settings)


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


_QUESTION = (
    "Rewards of windows that are open in the backup are discarded unread, and decision tokens from "
    "before no longer count. A bandit that protects people is charged to its population once more; "
    "without one, or where that has no room, it learns no more. Go on?"
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
    be forgotten: charges, limits, revoked keys, retired bandits. A bandit
    that protects people ("unit": "person") may count some of them again, so
    its population is charged once more; in none it comes back retired.

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
    from discreet.service.settings import text_of
    from discreet.service.witnessing import serve

    serve(file, text_of("DISCREET_WITNESS_KEY", os.environ), host, port)


keys = typer.Typer(
    help="API keys: who may decide, learn, read or administer.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Url = Annotated[
    str | None, Option(help="Of a running server; its admin key is DISCREET_ADMIN_KEY.")
]


@keys.command()
def create(
    name: Annotated[
        str, Option(help="Of the application: keys of one name share the ids of decisions.")
    ],
    scope: Annotated[
        list[str], Option(help="decide, learn, read, report, relay or admin; may be repeated.")
    ],
    bandit: Annotated[
        list[str] | None, Option(help="Only for this bandit; may be repeated.")
    ] = None,
    rate: Annotated[float | None, Option(help="Most requests, and decisions, a second.")] = None,
    share: Annotated[
        float | None,
        Option(help="Most of a horizon, or of each window without one: 0.25; 1 is all."),
    ] = None,
    url: Url = None,
    store: StoreUrl = None,
    secrets: Secrets = None,
) -> None:
    """Make a key. Its secret is printed once and kept nowhere.

    \b
      discreet keys create --name shop --scope decide --scope learn
    """
    from discreet.service.messages import KeyBody

    body = KeyBody(name, scope, bandit, rate, share)
    made = _access(url, store, secrets).create(body)
    print(f"id: {made['id']}\nkey, shown once: {made['secret']}")


@keys.command("list")
def list_all(url: Url = None, store: StoreUrl = None, secrets: Secrets = None) -> None:
    """All keys, revoked ones too, without their secrets."""
    for key in _access(url, store, secrets).all():
        bandits = "all bandits" if key["bandits"] is None else ",".join(key["bandits"])
        state = "alive" if key["revoked"] is None else "revoked"
        print(f"{key['id']:<14} {state:<8} {','.join(key['scopes']):<20} {bandits}  {key['name']}")


@keys.command()
def revoke(
    id: Annotated[str, Argument(metavar="ID", help="As `discreet keys list` shows it.")],
    url: Url = None,
    store: StoreUrl = None,
    secrets: Secrets = None,
) -> None:
    """Revoke a key for good; a restored backup does not bring it back."""
    _access(url, store, secrets).revoke(id)
    print(f"revoked: {id}")


@keys.command()
def rotate(url: Url = None, store: StoreUrl = None, secrets: Secrets = None) -> None:
    """Make a new admin key and revoke the one in DISCREET_ADMIN_KEY (or the first).

    No other command does: a server that starts with another DISCREET_ADMIN_KEY
    than its store has says so and changes nothing.
    """
    made = _access(url, store, secrets).rotate()
    print(f"id: {made['id']}\nadmin key, shown once: {made['secret']}")


def _access(url: str | None, store: str | None, secrets: object) -> "KeyAccess":
    from discreet.service.key_access import KeyAccess
    from discreet.service.settings import Settings

    return KeyAccess(Settings.from_environment(store=store, secrets=secrets), url)
