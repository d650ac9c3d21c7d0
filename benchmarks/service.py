"""How fast the decision service is, beside a bare Starlette endpoint on the same HTTP stack.

    python benchmarks/service.py [--quick] [--only PART ...]

Servers and the load generator are processes of their own; everything is on one machine, so only
ratios of one run mean much. "Per core" counts the server's own processor time, which others on
the machine change less. Rounds of the service and of the bare endpoint alternate, and the median
of each is taken. "Slow disk": a preloaded shim makes every fsync and fdatasync wait, for the
server and for the single commits that it is compared with (needs a C compiler).
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
KEY = "benchmark-admin-key-that-is-long-enough"
SLOW = 0.004  # seconds of a sync on the slow disk
SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
#include <stdlib.h>
static void wait_(void) { usleep((useconds_t)(1e6 * atof(getenv("SYNC_SECONDS")))); }
int fsync(int fd) { wait_(); return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd); }
int fdatasync(int fd) { wait_(); return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd); }
"""
DECLARED = {
    "context": {"age": {"number": [18, 100]}, "plan": {"category": ["basic", "gold"]}},
    "actions": ["email", "call", "nothing"],
    "privacy": {"epsilon": 1.0},
}
TWENTY = {  # 10 actions x (constant, one number): d = 20
    "context": {"age": {"number": [18, 100]}},
    "actions": [f"action-{i}" for i in range(10)],
    "privacy": {"epsilon": 1.0},
}


# -- servers ---------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Served:
    """A server in a process of its own."""

    def __init__(self, command, path, environment=None):
        self.port = free_port()
        began = time.perf_counter()
        variables = os.environ | {"DISCREET_PORT": str(self.port)} | (environment or {})
        self.process = subprocess.Popen(
            [sys.executable, *command], env=variables, stderr=subprocess.DEVNULL
        )
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}").read()
                break
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}")
            time.sleep(0.005)
        self.started_in = time.perf_counter() - began
        self.started_with = self.processor()

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data, {"Authorization": f"Bearer {KEY}"},
            method=method,
        )  # fmt: skip
        return json.load(urllib.request.urlopen(request))

    def load(self, path, bodies, connections, seconds, **more):
        job = {"port": self.port, "path": path, "key": KEY, "bodies": bodies,
               "connections": connections, "seconds": seconds, **more}  # fmt: skip
        before = self.processor()
        done = subprocess.run(
            [sys.executable, HERE / "service_load.py"], input=json.dumps(job), text=True,
            capture_output=True, check=True,
        )  # fmt: skip
        found = json.loads(done.stdout)
        found["per core"] = found["requests"] / (self.processor() - before)
        if set(found["statuses"]) != {"200"}:
            raise RuntimeError(f"not only 200: {found['statuses']}")
        return found

    def processor(self):
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        """Resident megabytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return float("nan")

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=30)


def serve(folder, **more):
    environment = {
        "DISCREET_STORE": f"sqlite:///{folder}/store.db",
        "DISCREET_SECRETS": f"{folder}/secrets",
        "DISCREET_ADMIN_KEY": KEY,
        **more,
    }
    return Served(["-m", "discreet.service"], "/healthz", environment)


def bare():
    """The same stack, and an endpoint that parses and returns JSON."""
    return Served([str(HERE / "service.py"), "--bare"], "/decide")


def serve_bare():
    import msgspec
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    decode, encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode
    replies = {
        "/decide": {
            "decision": "dt1." + "x" * 120,
            "action": "email",
            "probability": 0.375,
            "policy": 1,
        },
        "/learn": {"status": "counted"},
    }  # fmt: skip

    async def endpoint(request: Request) -> Response:
        body = await request.body()
        if body:
            decode(body)
        return Response(encode(replies[request.url.path]), media_type="application/json")

    routes = [Route(path, endpoint, methods=["GET", "POST"]) for path in replies]
    uvicorn.run(
        Starlette(routes=routes), port=int(os.environ["DISCREET_PORT"]), log_level="warning",
        access_log=False, server_header=False, loop="uvloop", http="httptools",
    )  # fmt: skip


@contextlib.contextmanager
def place(fast=True):
    """A folder in memory (a disk that is fast), or on the disk."""
    within = "/dev/shm" if fast and Path("/dev/shm").is_dir() else None
    folder = tempfile.mkdtemp(prefix="discreet-bench-", dir=within)
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def running(definition, **more):
    with place() as folder:
        server = serve(folder, **more)
        try:
            server.call("PUT", "/v1/bandits/b", definition)
            yield server
        finally:
            server.stop()


def tokens(server, n, person):
    """n decisions, and the bodies of their rewards."""
    found = []
    while len(found) < n:
        reply = server.call(
            "POST", "/v1/bandits/b/decide", {"contexts": [person] * min(5000, n - len(found))}
        )
        found += [each["decision"] for each in reply["decisions"]]
    return found


def reward_bodies(found, size=None):
    rng = random.Random(0)
    items = [{"decision": token, "reward": rng.choice([0, 1])} for token in found]
    if size is None:
        return [json.dumps(item) for item in items]
    return [json.dumps({"rewards": items[i : i + size]}) for i in range(0, len(items), size)]


# -- measurements ----------------------------------------------------------------------------------

PERSON = {"age": 40, "plan": "gold"}
DECIDE = json.dumps({"context": PERSON})


def median(found, what):
    return statistics.median(each[what] for each in found)


def per_core(ours, theirs):
    return f"{median(ours, 'per core') / median(theirs, 'per core'):.2f}"


def row(name, value, wanted):
    print(f"| {name} | {value} | {wanted} |", flush=True)


def beside_bare(call, bodies_for, connections, seconds, rounds):
    """(ours, theirs): the same load on a bandit and on the bare endpoint, in turns."""
    ours, theirs = [], []
    with running(DECLARED) as server:
        other = bare()
        try:
            for _ in range(rounds):
                bodies = bodies_for(server)
                theirs.append(other.load(f"/{call}", bodies, connections, seconds))
                ours.append(server.load(f"/v1/bandits/b/{call}", bodies, connections, seconds))
        finally:
            other.stop()
    return ours, theirs


def rates(name, ours, theirs, wanted):
    mine, bare_rate = median(ours, "rate"), median(theirs, "rate")
    row(name, f"{mine:,.0f}/s", "")
    row("... of the bare endpoint's", f"{mine / bare_rate:.2f}", wanted)
    row("... the same per core", per_core(ours, theirs), "")


def deciding(seconds, rounds):
    ours, theirs = beside_bare("decide", lambda _: [DECIDE], 32, seconds, rounds)
    rates("single decide, 32 connections", ours, theirs, "at least .45")
    row("... p99 against the bare endpoint's",
        f"{median(ours, 'p99') / median(theirs, 'p99'):.1f}", "at most 4")  # fmt: skip


def learning(seconds, rounds):
    def rewards(server):
        return reward_bodies(tokens(server, int(8000 * (seconds + 0.3)), PERSON))

    ours, theirs = beside_bare("learn", rewards, 64, seconds, rounds)
    rates("durable learn, 64 connections, fast disk", ours, theirs, "at least .3")


def batches(seconds, rounds):
    with running(DECLARED) as server:
        found = []
        for _ in range(rounds):
            bodies = reward_bodies(tokens(server, int(80_000 * seconds), PERSON), 100)
            found.append(server.load("/v1/bandits/b/learn", bodies, 8, seconds))
    row(
        "batches of 100 rewards", f"{100 * median(found, 'rate'):,.0f} rewards/s", "at least 40,000"
    )
    row("... per core", f"{100 * median(found, 'per core'):,.0f} rewards/s", "")
    rng = random.Random(0)
    body = json.dumps({"contexts": [{"age": rng.randint(18, 100)} for _ in range(100)]})
    with running(TWENTY) as server:
        found = [server.load("/v1/bandits/b/decide", [body], 4, seconds) for _ in range(rounds)]
    row("decide with 100 contexts, d = 20, 10 actions",
        f"{100 * median(found, 'rate'):,.0f} decisions/s", "at least 50,000")  # fmt: skip
    row("... per core", f"{100 * median(found, 'per core'):,.0f} decisions/s", "")


def slow_disk(seconds, rounds):
    with place(fast=False) as folder:
        source, shim = folder / "shim.c", folder / "shim.so"
        source.write_text(SHIM)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
        slowed = {"LD_PRELOAD": str(shim), "SYNC_SECONDS": str(SLOW)}
        ours, single = [], []
        with running(DECLARED, **slowed) as server:
            for _ in range(rounds):
                bodies = reward_bodies(tokens(server, int(6000 * (seconds + 0.3)), PERSON))
                ours.append(server.load("/v1/bandits/b/learn", bodies, 64, seconds)["rate"])
                done = subprocess.run(
                    [sys.executable, HERE / "service.py", "--commits", str(seconds)],
                    env=os.environ | slowed, text=True, capture_output=True, check=True,
                )  # fmt: skip
                single.append(float(done.stdout))
    mine, commits = statistics.median(ours), statistics.median(single)
    row(f"durable learn, 64 connections, a sync takes {1000 * SLOW:g} ms", f"{mine:,.0f}/s", "")
    row(
        "... of the store's single commits",
        f"{mine / commits:.1f} of {commits:,.0f}/s",
        "at least 12",
    )


def single_commits(seconds):
    """Commits a second of one row each, as an SQLite store is set up."""
    with place() as folder:
        connection = sqlite3.connect(folder / "store.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE t (x INTEGER)")
        began, n = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            connection.execute("INSERT INTO t VALUES (1)")
            n += 1
        return n / (time.perf_counter() - began)


def staying(seconds, rounds):
    """Memory over many decisions."""
    many = json.dumps({"contexts": [PERSON] * 1000})
    total = 1_000_000 if seconds >= 3 else 100_000
    with running(DECLARED) as server:
        row("start-up", f"{server.started_in:.2f} s", "below 1.5 s")
        row("... processor time", f"{server.started_with:.2f} s", "")
        server.load("/v1/bandits/b/decide", [many] * (total // 20_000), 2, 600)
        before = server.memory()
        server.load("/v1/bandits/b/decide", [many] * (total // 1000), 2, 600)
        after = server.memory()
    row(
        f"memory after {total:,} decisions more",
        f"{after - before:+.1f} of {before:.0f} MB",
        "flat",
    )


def old_bandit(seconds, rounds):
    """A bandit with 10^7 rounds: time to the first decision, and how fast it learns."""
    rates = {}
    for age in (0, 10**7):
        with place() as folder:
            code = f"from benchmarks.service import aged; aged({str(folder)!r}, {age})"
            subprocess.run([sys.executable, "-c", code], check=True, cwd=HERE.parent)
            server = serve(folder)
            try:
                began = time.perf_counter()
                server.call("POST", "/v1/bandits/b/decide", {"context": PERSON})
                opened = time.perf_counter() - began
                found = []
                for _ in range(rounds):
                    bodies = reward_bodies(tokens(server, int(8000 * (seconds + 0.3)), PERSON))
                    found.append(server.load("/v1/bandits/b/learn", bodies, 64, seconds))
                rates[age] = median(found, "rate")
            finally:
                server.stop()
    row("a bandit with 10^7 rounds: first decision", f"{opened:.3f} s", "below .5 s")
    row("... learns, against a new one", f"{rates[10**7] / rates[0]:.2f}", "as fast")


def aged(folder, rounds):
    """A store with a bandit whose rounds were all given away and rewarded."""
    import sqlalchemy as sa

    from discreet.service import definitions, leasing, store
    from discreet.service.server import Server
    from discreet.service.settings import Settings

    server = Server(
        Settings(
            store=f"sqlite:///{folder}/store.db", secrets=Path(folder) / "secrets", admin_key=KEY
        )
    )
    server.create("b", definitions.parsed(json.dumps(DECLARED).encode()), "benchmark")
    while rounds:
        with server.store.transaction() as connection:
            bandit = server.store.lock_bandit(connection, "b")
            if bandit.next_round >= rounds:
                break
            end = min(bandit.window_end, rounds)
            connection.execute(sa.update(store.bandits).values(next_round=end))
        if end == bandit.window_end:
            leasing._turned(server, "b", 1)
    full = b"\xff" * (store.BLOCK // 8)
    blocks = [
        {
            "bandit": "b",
            "epoch": server.epoch,
            "block": i,
            "used": full,
        }
        for i in range(rounds // store.BLOCK)
    ]  # fmt: skip
    if blocks:
        with server.store.transaction() as connection:
            connection.execute(sa.insert(store.marks), blocks)
    server.close()


PARTS = {
    "deciding": deciding,
    "learning": learning,
    "batches": batches,
    "slow_disk": slow_disk,
    "staying": staying,
    "old_bandit": old_bandit,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="short rounds; figures for a look only"
    )
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--commits", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.bare:
        serve_bare()
    elif given.commits:
        print(single_commits(given.commits))
    else:
        print("| what | measured | wanted |\n|---|---|---|")
        for name in given.only:
            PARTS[name](*((1.5, 2) if given.quick else (4.0, 5)))


if __name__ == "__main__":
    main()
