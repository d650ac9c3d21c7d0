"""What callers without a key cost those who have one: a keyed client's decisions beside a flood.

    python benchmarks/service_flood.py [--seconds 10]

The flood is all kinds at once, from addresses of its own: bodies of 8 MB, forged tokens, bodies
that are not finished, silent connections, half a request line, headers without end, a login whose
body never comes, answers that nobody reads. It is a process on the same machine, so "beside" is the
same flood on another server of the same kind, which shows what the machine's share is.
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path

from service import DECLARED, KEY, Served

ATTACKER = "127.0.0.%d"
EACH = 20  # connections at once of each kind
ROUNDS = 3
PACE = 0.004  # seconds between two decisions
FORGED = json.dumps({"rewards": [{"decision": "dt1." + "A" * 120, "reward": 1}] * 100}).encode()


def head(path, length=None, method="POST"):
    more = "" if length is None else f"Content-Length: {length}\r\n"
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode()


LEARN = "/v1/bandits/b/learn"
KINDS = {  # what is sent at first, what is sent again and again, and whether answers are read
    "large bodies": (head(LEARN, 8 * 2**20) + b'{"rewards": [', b"1," * 8192, True),
    "forged tokens": (b"", head(LEARN, len(FORGED)) + FORGED, True),
    "unfinished bodies": (head(LEARN, 60_000) + b"1," * 15_000, b"", True),
    "silence": (b"", b"", True),
    "half a line": (b"POST /v1/ban", b"", True),
    "endless headers": (b"GET / HTTP/1.1\r\n", b"x: " + b"y" * 1000 + b"\r\n", True),
    "a login without its body": (head("/login", 100), b"", True),
    "unread answers": (b"", head("/openapi.json", method="GET"), False),
}


async def attack(port, kind, address, counted):
    """One connection after the other, until cancelled."""
    first, again, reads = KINDS[kind]
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, local_addr=(ATTACKER % address, 0)
            )
            counted[kind] += 1
            try:
                writer.write(first)
                while not reader.at_eof():
                    writer.write(again)
                    await writer.drain()
                    if reads:
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(0.05):
                                if not await reader.read(65536):
                                    break
                    else:
                        await asyncio.sleep(0.05)
            finally:
                writer.close()
        await asyncio.sleep(0.05)


async def flood(port, seconds):
    counted = dict.fromkeys(KINDS, 0)
    attacks = [
        attack(port, kind, 2 + at, counted) for at, kind in enumerate(KINDS) for _ in range(EACH)
    ]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(*attacks)
    print(json.dumps(counted), flush=True)
    os._exit(0)  # whatever its connections are about


def decisions(port, seconds):
    """Sorted times of decisions, one connection with a key."""
    connection = HTTPConnection("127.0.0.1", port)
    body = json.dumps({"context": {"age": 40, "plan": "gold"}})
    times, ends = [], time.perf_counter() + seconds
    while time.perf_counter() < ends:
        began = time.perf_counter()
        connection.request("POST", "/v1/bandits/b/decide", body, {"Authorization": f"Bearer {KEY}"})
        reply = connection.getresponse()
        reply.read()
        assert reply.status == 200, reply.status
        times.append(time.perf_counter() - began)
        time.sleep(PACE)
    connection.close()
    return sorted(times)


@contextlib.contextmanager
def flooded(port, seconds):
    command = [sys.executable, __file__, "--flood", str(port), "--seconds", str(seconds + 3)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    time.sleep(2.0)
    yield
    assert all(json.loads(process.communicate()[0]).values())


def served(folder, name):
    place = Path(folder) / name
    place.mkdir()
    variables = {
        "DISCREET_STORE": f"sqlite:///{place}/store.db",
        "DISCREET_SECRETS": str(place / "secrets"),
        "DISCREET_ADMIN_KEY": KEY,
    }
    server = Served(["-c", "from discreet.cli import main; main(['serve'])"], "/healthz", variables)
    connection = HTTPConnection("127.0.0.1", server.port)
    headers = {"Authorization": f"Bearer {KEY}"}
    connection.request("PUT", "/v1/bandits/b", json.dumps(DECLARED), headers)
    assert connection.getresponse().status == 201
    connection.close()
    return server


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--flood", type=int)
    given = parser.parse_args()
    if given.flood:
        asyncio.run(flood(given.flood, given.seconds))
        return
    with tempfile.TemporaryDirectory() as folder:
        server, other = served(folder, "one"), served(folder, "other")
        decisions(server.port, 1.0)
        found = {"alone": [], "beside": [], "flooded": []}
        for _ in range(ROUNDS):
            found["alone"].append(decisions(server.port, given.seconds))
            for name, port in (("beside", other.port), ("flooded", server.port)):
                with flooded(port, given.seconds):
                    found[name].append(decisions(server.port, given.seconds))
        print(f"{'':10} {'decisions':>9} {'p50 ms':>8} {'p99 ms':>8} {'worst':>8}   (medians)")
        for name, rounds in found.items():
            p50, p99, worst = (
                statistics.median(1000 * times[at(times)] for times in rounds)
                for at in (lambda t: len(t) // 2, lambda t: int(len(t) * 0.99), lambda _: -1)
            )
            print(f"{name:10} {sum(map(len, rounds)):9} {p50:8.2f} {p99:8.2f} {worst:8.1f}")
        server.stop()
        other.stop()


if __name__ == "__main__":
    main()
