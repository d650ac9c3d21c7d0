"""`discreet keys`: API keys, through a running server or directly on the store."""

from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from discreet.cli.options import Secrets, StoreUrl

if TYPE_CHECKING:
    from discreet.service.key_access import KeyAccess

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
    name: Annotated[str, Option(help="What the key is for; shown in lists.")],
    scope: Annotated[
        list[str], Option(help="decide, learn, read, report, relay or admin; may be repeated.")
    ],
    bandit: Annotated[
        list[str] | None, Option(help="Only for this bandit; may be repeated.")
    ] = None,
    rate: Annotated[float | None, Option(help="Most requests a second.")] = None,
    url: Url = None,
    store: StoreUrl = None,
    secrets: Secrets = None,
) -> None:
    """Make a key. Its secret is printed once and kept nowhere.

    \b
      discreet keys create --name shop --scope decide --scope learn
    """
    made = _access(url, store, secrets).create(name, scope, bandit, rate)
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


def _access(url: str | None, store: str | None, secrets: object) -> "KeyAccess":
    from discreet.service.key_access import KeyAccess
    from discreet.service.settings import Settings

    return KeyAccess(Settings.from_environment(store=store, secrets=secrets), url)
