"""Servers in processes of their own, which can be killed, paused and continued.

Importing everything takes seconds, so one parent imports it once and forks each server.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from discreet.service.client import Client

_PARENT = """
import json, os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them: they leave no trace
from discreet.service.relay.app import serve as relay
from discreet.service.settings import RelaySettings
from discreet.service.serving import serve
from discreet.service.settings import Settings
for line in sys.stdin:
    environment = json.loads(line)
    child = os.fork()
    if child == 0:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        sys.stdin.close()
        os.environ.update(environment)
        exec(environment.get("BEFORE", ""))
        with open(environment["OUT"], "w") as out:
            os.dup2(out.fileno(), 2)
            try:
                if "DISCREET_RELAY_SERVER" in environment:
                    relay(RelaySettings.from_environment(), out)
                else:
                    serve(Settings.from_environment(), out)
            except Exception as error:
                print(f"ended by {type(error).__name__}: {error}", file=out, flush=True)
                os._exit(2)
        os._exit(0)
    print(child, flush=True)
"""


class Parent:
    """Forks servers; `close` when done."""

    def __init__(self, folder: Path, admin: str) -> None:
        self.folder, self.admin = folder, admin
        self.count = 0
        self._lock = threading.Lock()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PARENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def server(self, store: str, secrets: Path, port: int, before: str = "") -> "Child":
        with self._lock:
            pid, out = self._forked(store, secrets, port, before)
        return Child(pid, port, out, self.admin)

    def relay(self, port: int, **settings: object) -> "Child":
        """A relay: `settings` as DISCREET_RELAY_ variables."""
        environment = {f"DISCREET_RELAY_{name.upper()}": str(v) for name, v in settings.items()}
        with self._lock:
            pid, out = self._started({"DISCREET_RELAY_PORT": str(port), **environment})
        return Child(pid, port, out, self.admin)

    def _forked(self, store: str, secrets: Path, port: int, before: str) -> tuple[int, Path]:
        return self._started(
            {
                "DISCREET_STORE": store,
                "DISCREET_SECRETS": str(secrets),
                "DISCREET_PORT": str(port),
                "DISCREET_ADMIN_KEY": self.admin,
                "BEFORE": before,
            }
        )

    def _started(self, environment: dict[str, str]) -> tuple[int, Path]:
        self.count += 1
        out = self.folder / f"server-{self.count}.log"
        environment = {**environment, "OUT": str(out)}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(environment) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline()), out

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.kill()
        self.process.wait()


class Child:
    """One server; it answers when this returns."""

    def __init__(self, pid: int, port: int, out: Path, admin: str) -> None:
        self.pid, self.port, self.out, self.admin = pid, port, out, admin
        ends = time.monotonic() + 60
        while True:
            try:
                with self.client() as client:
                    client._send("GET", "/healthz", None)
                return
            except OSError:
                text = out.read_text() if out.exists() else ""
                if "ended by" in text or time.monotonic() > ends:
                    raise AssertionError(f"the server did not start: {text}") from None
                time.sleep(0.02)

    def client(self) -> Client:
        return Client(f"http://127.0.0.1:{self.port}", self.admin, timeout=20)

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """As a power failure would, but for the disk's own cache."""
        self.signal(signal.SIGKILL)
        self._gone()

    def stop(self) -> None:
        """As Ctrl-C: finish the commit at hand, return leases."""
        self.signal(signal.SIGINT)
        self._gone()

    def _gone(self) -> None:
        ends = time.monotonic() + 30
        while time.monotonic() < ends:
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.005)
        raise AssertionError("the server does not end")
