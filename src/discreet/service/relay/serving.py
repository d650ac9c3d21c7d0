"""Run a relay: `discreet relay` without its flags."""

import logging
import sys
from typing import TextIO

from discreet.service.relay.app import application
from discreet.service.relay.settings import RelaySettings
from discreet.service.serving import address, check_port, is_loopback, run


def serve(settings: RelaySettings, out: TextIO = sys.stderr) -> None:
    """Serve until interrupted; batches that are open stay in the store."""
    logging.basicConfig(level=logging.INFO, stream=out, format="%(levelname)s %(message)s")
    check_port(settings)
    if not is_loopback(settings.host):
        print(f"warning: {settings.host} can be reached from outside: put TLS in front", file=out)
    app = application(settings)
    print(f"discreet relays to {settings.server} on {address(settings)}", file=out, flush=True)
    run(app, settings)
