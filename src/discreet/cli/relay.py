"""`discreet relay`: sealed reports, shuffled, for a decision server that somebody else runs."""

from typing import Annotated

from typer import Option


def relay(
    server: Annotated[
        str | None, Option(metavar="URL", help="The decision server (DISCREET_RELAY_SERVER).")
    ] = None,
    bandit: Annotated[
        list[str] | None,
        Option(help="Whose reports it carries; may be repeated (DISCREET_RELAY_BANDITS)."),
    ] = None,
    store: Annotated[
        str | None,
        Option(metavar="URL", help="sqlite:///FILE, for open batches (DISCREET_RELAY_STORE; "
               "sqlite:///relay.db)."),
    ] = None,
    host: Annotated[
        str | None, Option(help="Address to listen on (DISCREET_RELAY_HOST; 127.0.0.1).")
    ] = None,
    port: Annotated[
        int | None, Option(min=1, max=65535, help="Port to listen on (DISCREET_RELAY_PORT; 8361).")
    ] = None,
    wait: Annotated[
        float | None,
        Option(help="Seconds after which a batch goes that has its minimum, or is dropped "
               "(DISCREET_RELAY_WAIT; 86400)."),
    ] = None,
    minimum: Annotated[
        int | None,
        Option(help="Reports below which a batch is dropped, unless the server asks for more "
               "(DISCREET_RELAY_MINIMUM; 50)."),
    ] = None,
    person_header: Annotated[
        str | None,
        Option(metavar="HEADER", help="Set by a login in front of the relay: who sends. Without "
               "it devices say so themselves (DISCREET_RELAY_PERSON_HEADER)."),
    ] = None,
) -> None:  # fmt: skip
    """Hide who sent which report: collect sealed ones, shuffle, forward, forget.

    The relay cannot read reports, and the server cannot see who sent them, as
    long as they are run by different people. DISCREET_RELAY_KEY holds a key of
    the server with the scope relay. A batch is kept through crashes, goes to
    the server once, and is dropped if it stays below its minimum.

    \b
      discreet keys create --name relay --scope relay --bandit ads
      discreet relay --server https://decisions.example --bandit ads
    """
    from discreet.service.relay.serving import serve
    from discreet.service.relay.settings import RelaySettings

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
