"""Run a server: `discreet serve` without its flags."""

import errno
import gc
import ipaddress
import logging
import socket
import sys
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TextIO

import uvicorn
from starlette.applications import Starlette

from discreet.service import connections, logs
from discreet.service.app import application
from discreet.service.server import Server
from discreet.service.settings import Settings

SWITCH_SECONDS = 0.0005  # the writer's thread waits no longer for a busy event loop
GARBAGE = 20_000  # objects made before cycles among them are looked for


def serve(settings: Settings, out: TextIO = sys.stderr) -> None:
    """Serve until interrupted: finish the commit at hand, return leases, stop."""
    logs.begin(out)
    check_port(settings.host, settings.port)
    if settings.metrics_port is not None:
        check_port(settings.metrics_host or settings.host, settings.metrics_port)
    # The first bandit that opens needs it: a third of a second, beside what else has to be done.
    threading.Thread(target=import_module, args=("scipy.special",), daemon=True).start()
    app = application(settings)
    server = app.state.server
    warn_if_open(settings.host)
    for line in _warnings(server):
        logs.record(logging.WARNING, line)
    if server.first_admin_key is not None:
        print(f"admin key, shown once: {server.first_admin_key}", file=out)
    admin, here = server.keys.some_admin(), address(settings.host, settings.port)
    if admin and (server.first_admin_key is not None or settings.demo or out.isatty()):
        link = app.state.dashboard.sessions.link(admin)
        print(f"dashboard, a link that works once: {here}enter/{link}", file=out)
    logs.record(logging.INFO, f"discreet serves {here}")
    run(app, settings.host, settings.port, settings.address_connections)


def run(app: Starlette, host: str, port: int, per_address: int) -> None:
    config = connections.config(
        app,
        host,
        port,
        per_address,
        loop="uvloop",
        lifespan="on",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
    )
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()  # what is here by now stays: it need not be looked through
    gc.set_threshold(GARBAGE, *gc.get_threshold()[1:])
    with suppress(KeyboardInterrupt):  # raised again once everything is closed
        uvicorn.Server(config).run()


def address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def check_port(host: str, port: int) -> None:
    """Say at once if the port is taken, before the store is touched."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise ValueError(
                    f"port {port} is in use; stop the other program or choose --port"
                ) from None
            raise ValueError(f"cannot listen on {host}: {error.strerror}") from None


def warn_if_open(host: str) -> None:
    """Say it if others than this machine reach what is served."""
    if not is_loopback(host):
        outside = f"{host} can be reached from outside: put TLS in front, keys travel in clear"
        logs.record(logging.WARNING, outside)


def _warnings(server: Server) -> list[str]:
    found = []
    if not server.has_admin_key():
        found.append(
            "DISCREET_ADMIN_KEY is not an admin key of this store, which stays as it is: set it to "
            "one, or run `discreet keys rotate`"
        )
    settings = server.settings
    name = settings.personalizer
    if name is not None and not server.has_bandit(name):
        found.append(f"there is no bandit {name!r} yet for --personalizer: create it")
    if not settings.demo and on_one_disk(settings):
        found.append(
            f"store and secrets ({settings.secrets}) lie on the same disk: a thief of both can "
            "read the last batch of rewards; choose --secrets on another"
        )
    return found


def on_one_disk(settings: Settings) -> bool:
    """Whether an SQLite store and the secrets are (or will be) on one device."""
    if not settings.store.startswith("sqlite:///"):
        return False
    store = Path(settings.store.removeprefix("sqlite:///"))
    with suppress(OSError):
        return _existing(store).stat().st_dev == _existing(settings.secrets).stat().st_dev
    return False


def _existing(path: Path) -> Path:
    """The path, or the nearest folder above it that exists."""
    path = path.absolute()
    return path if path.exists() or path == path.parent else _existing(path.parent)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
