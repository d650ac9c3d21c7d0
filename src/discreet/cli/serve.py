"""`discreet serve`: the decision service."""

from typing import Annotated

from typer import Option

from discreet.cli.options import Secrets, StoreUrl, Witness


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
