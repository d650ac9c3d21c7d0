"""A store as the code of version 0.3 wrote it, with an open window of every kind of trust.

`python -m tests.service.golden.make` wrote store.tar.xz (database and secrets) and expected.json
(tokens, ids and reports that wait for an answer; the statuses and the releases that they lead to).
Running it again makes another store, with other noise: do that only when a store of a later version
has to be guarded as well, beside this one.

waiting.tar.xz was left by the schema before ids had owners: decisions that wait under a name, with
a default, for a person who counts once; waiting.json has their tokens.

Noise was drawn when a window opened and lives in its stored sum, so what is released when the same
rewards come is determined, whatever code reads the store.
"""

import json
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from tests.service.conftest import Running
from tests.service.test_reports import report

FOLDER = Path(__file__).parent
ROW = [[0.6, 0.3]]  # one action: the coins of a replica decide nothing
REWARDS = {"range": [-1, 2]}
DEFINITIONS: dict[str, dict[str, Any]] = {
    "round": {"dim": 2, "reward": REWARDS, "privacy": {"epsilon": 3.0}},
    "all": {
        "dim": 2,
        "reward": REWARDS,
        "privacy": {"epsilon": 3.0, "unit": "person", "visits": "all"},
    },
    "first": {
        "dim": 2,
        "reward": REWARDS,
        "privacy": {"epsilon": 3.0, "unit": "person", "visits": "first"},
    },
    "local": {
        "dim": 2,
        "reward": REWARDS,
        "privacy": {"epsilon": 8.0, "trust": "local"},
        "policy": "greedy",
    },
}


def decide(server: Running, name: str, first: int, n: int) -> list[str]:
    """Tokens of n decisions, each for a person of its own where people are protected."""
    requests: list[dict[str, Any]] = [{"features": ROW} for _ in range(n)]
    if "unit" in DEFINITIONS[name]["privacy"]:
        requests = [each | {"person": f"p{first + i}"} for i, each in enumerate(requests)]
    found = server.client().call("POST", f"/v1/bandits/{name}/decide", {"requests": requests})
    return [each["decision"] for each in found["decisions"]]


def learn(server: Running, name: str, decisions: list[str]) -> list[str]:
    """Statuses of rewards, the same for the i-th decision whenever it comes."""
    pairs = [(each, (i % 4) - 1) for i, each in enumerate(decisions)]
    return server.client().learn_many(name, pairs)


def send(server: Running, reports: list[dict[str, Any]]) -> list[str]:
    """Statuses of reports."""
    found = server.client().call("POST", "/v1/bandits/local/reports", {"reports": reports})
    return list(found["statuses"])


def window(server: Running, name: str) -> dict[str, Any]:
    """The open window."""
    return dict(server.client().bandit(name)["window"])


def make(server: Running) -> dict[str, Any]:
    """One closed window of each bandit, and half of the next; what waits for an answer."""
    waiting: dict[str, Any] = {}
    for name, definition in DEFINITIONS.items():
        server.client().create(name, definition)
        size = window(server, name)["rounds"]
        if name == "local":
            document = _policy(server)
            send(server, [report(document, seed) for seed in range(size)])
            document, size = _policy(server), window(server, name)["rounds"]
            reports = [report(document, seed) for seed in range(size)]
            send(server, reports[: size // 2])
            waiting[name] = reports[size // 2 - 3 :]  # three again
            continue
        learn(server, name, decide(server, name, 0, size))
        (opened,) = decide(server, name, 1000, 1)  # the window turns
        tokens = decide(server, name, 1001, 7)
        assert window(server, name)["number"] == 2
        learn(server, name, [opened, *tokens[:4]])
        same = decide(server, name, 1001, 2)  # these people have had their reward in this window
        waiting[name] = [*tokens[2:], *same]
    named = server.client().decide("round", features=ROW, id="order-1")
    assert named.action == 0
    waiting["round"].append("order-1")
    return waiting


def _policy(server: Running) -> dict[str, Any]:
    return dict(json.loads(server.request("GET", "/v1/bandits/local/policy")[2]))


def go_on(server: Running, waiting: dict[str, Any]) -> dict[str, Any]:
    """Everything that waits is answered, and the windows turn: statuses and releases."""
    found: dict[str, Any] = {}
    for name in DEFINITIONS:
        if name == "local":
            statuses = send(server, waiting[name])
        else:
            statuses = learn(server, name, waiting[name])
            progress = window(server, name)
            rest = progress["rounds"] - progress["decided"]
            learn(server, name, decide(server, name, 2000, rest))
            decide(server, name, 2000 + rest, 1)  # the window turns
        assert window(server, name)["number"] == 3
        releases = server.client().releases(name)
        guarantee = server.client().guarantee(name)
        found[name] = {
            "statuses": statuses,
            "releases": [
                {field: each for field, each in release.items() if field != "at"}
                for release in releases
            ],
            "promise": {field: guarantee[field] for field in ("epsilon", "delta", "trust")},
            "booked": len(guarantee["releases"]),
        }
    return found


def unpack(folder: Path, name: str = "store.tar.xz") -> None:
    """Put a store into a folder, as `Running` looks for it."""
    with tarfile.open(FOLDER / name) as packed:
        packed.extractall(folder, filter="data")


def _write() -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        server = Running(folder)
        waiting = make(server)
        server.stop()
        with tarfile.open(FOLDER / "store.tar.xz", "w:xz", preset=9) as packed:
            for name in ("store.db", "secrets"):
                packed.add(folder / name, name, filter=_anonymous)
        copy = folder / "copy"
        copy.mkdir()
        unpack(copy)
        server = Running(copy)
        expected = go_on(server, waiting)
        server.stop()
        shutil.rmtree(copy)
    text = json.dumps({"waiting": waiting, "expected": expected}, indent=1)
    (FOLDER / "expected.json").write_text(text + "\n")


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    return entry


if __name__ == "__main__":
    _write()
