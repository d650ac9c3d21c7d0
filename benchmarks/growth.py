"""What a round costs and what is held against all that can grow: docs/scale.md, growth.png.

    OMP_NUM_THREADS=1 python benchmarks/growth.py

Processor times, the least of three, so that they mean the same on a busy machine. Slopes are those
of a line through the logarithms of the last three sizes: 0 does not grow, 1 is in proportion. Then
the pieces of 10^9 decisions a day that one machine can simulate.
"""

import asyncio
import json
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from kit import CONSOLE, new_table

from discreet.bandits import LinearBandit, People
from discreet.privacy import SeededNoise
from discreet.privacy.accumulator import NoisySum
from discreet.service import deciding, definitions, learning
from discreet.service.messages import DecideRequest, RewardItem
from discreet.service.server import Server
from discreet.service.settings import Settings

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FIGURE = Path(__file__).parents[1] / "docs" / "growth.png"
DIM, ACTIONS, ROUNDS = 10, 10, 2000
SIZES: dict[str, tuple[int, ...]] = {
    "features d": (2, 4, 8, 16, 32, 64, 128),
    "actions": (2, 4, 8, 16, 32, 64, 128),
    "rounds so far T": (10**3, 10**4, 10**5, 10**6),
    "people of a window": (10**2, 10**3, 10**4, 10**5),
    "copies of the policy": (1, 4, 16, 64),
}
DAY, PEAK = 86_400.0, 3.0  # the busiest hour has PEAK times the mean
DECISIONS = 1e9


def least(work: Callable[[], Any]) -> float:
    """Processor seconds, of three times."""
    times = []
    for _ in range(3):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


def learner(dim: int = DIM, **options: Any) -> LinearBandit:
    return LinearBandit(dim, seed=0, noise=SeededNoise(0), **options)


def offered(n: int, dim: int = DIM, actions: int = ACTIONS) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, (n, actions, dim)) / math.sqrt(dim)


def aged(bandit: LinearBandit, rounds: int) -> LinearBandit:
    """After so many rounds, in batches."""
    block = offered(min(rounds, 10_000), bandit.dim)
    while bandit.rounds < rounds:
        made = bandit.decide_many(block[: rounds - bandit.rounds])
        who = None if bandit.people.visits is None else np.arange(made.round[0], bandit.rounds)
        bandit.learn_many(made, np.full(len(made), 0.5), who)
    return bandit


def held(bandit: LinearBandit) -> int:
    """Bytes of the saved state."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        bandit.save(path)
        return path.stat().st_size


def one_by_one(bandit: LinearBandit, rows: np.ndarray, people: bool = False) -> float:
    """Microseconds of decide and learn."""

    def rounds() -> None:
        for t, features in enumerate(rows):
            who = {"person": t} if people else {}
            bandit.learn(bandit.decide(features), 0.5, **who)

    return 1e6 * least(rounds) / len(rows)


def measured(axis: str, size: int) -> tuple[float, int]:
    """(microseconds of a round, bytes that are held) where one thing has this size."""
    if axis == "features d":
        bandit = learner(size)
        return one_by_one(bandit, offered(ROUNDS // 4, size)), held(bandit)
    if axis == "actions":
        bandit = learner()
        return one_by_one(bandit, offered(ROUNDS // 4, DIM, size)), held(bandit)
    if axis == "rounds so far T":
        bandit = aged(learner(), size)
        return one_by_one(bandit, offered(ROUNDS // 4)), held(bandit)
    if axis == "people of a window":
        bandit = learner(people=People(visits="all"), horizon=10**7)
        bandit = aged(bandit, 4 * size)  # its window has about half as many
        made = bandit.decide_many(offered(size // 2))
        bandit.learn_many(made, np.full(len(made), 0.5), np.arange(10**6, 10**6 + len(made)))
        return one_by_one(bandit, offered(ROUNDS // 4), people=True), held(bandit)
    copies = [aged(learner(), 1000) for _ in range(size)]
    rows = offered(ROUNDS // 4)

    def rounds() -> None:
        for t, features in enumerate(rows):
            copies[t % size].decide(features)

    return 1e6 * least(rounds) / len(rows), sum(held(each) for each in copies)


def growth() -> dict[str, list[tuple[float, int]]]:
    table = new_table(
        f"Growth, one round at a time: d = {DIM}, {ACTIONS} actions where they do not grow",
        ("what grows", "from", "to", "microseconds", "slope", "bytes of state", "slope"),
    )
    found = {}
    for axis, sizes in SIZES.items():
        found[axis] = [measured(axis, size) for size in sizes]
        cells = []
        for place, shown in ((0, "{:.0f}"), (1, "{:,}")):
            values = [each[place] for each in found[axis]]
            slope, _ = np.polyfit(np.log(sizes[-3:]), np.log(np.array(values[-3:], dtype=float)), 1)
            cells += [f"{shown.format(values[0])} to {shown.format(values[-1])}", f"{slope:.2f}"]
        table.add_row(axis, f"{sizes[0]:,}", f"{sizes[-1]:,}", *cells)
    CONSOLE.print(table)
    return found


def picture(found: dict[str, list[tuple[float, int]]]) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    titles = ("time of a round", "bytes of state")
    for place, (axis, title) in enumerate(zip(axes, titles, strict=True)):
        for what, values in found.items():
            sizes = np.array(SIZES[what]) / SIZES[what][0]
            each = np.array([value[place] for value in values], dtype=float)
            axis.plot(sizes, each / each[0], marker="o", markersize=3.5, label=what)
        axis.plot([1, 1000], [1, 1000], color="#999999", lw=0.8, ls=":", label="in proportion")
        axis.set(xscale="log", yscale="log", title=title, xlabel="times as many")
        axis.set_ylabel("times as much")
        axis.spines[["top", "right"]].set_visible(False)
    axes[1].legend(frameon=False, fontsize=8)
    figure.savefig(FIGURE, dpi=130)


# -- 10^9 decisions a day: what can be simulated here ----------------------------------------------


TOGETHER = 100  # callers at once


def served(at_once: int, rounds: int = 10_000) -> tuple[float, float]:
    """Decisions and durable rewards a second of a server on SQLite, so many in a call, no HTTP."""

    async def calls(server: Server) -> list[float]:
        server.writer.start(asyncio.get_running_loop())
        live = await deciding.live_bandit(server, "b")
        wanted = [DecideRequest(features=rows) for rows in offered(at_once).tolist()]
        tokens: list[list[str]] = []

        async def decide() -> None:
            made = await deciding.decide(server, live, wanted, "someone", large=at_once > 1)
            tokens.append([each.decision for each in made])

        async def learn() -> None:
            rewards = [RewardItem(token, 0.5) for token in tokens.pop()]
            items = learning.prepared(server, live, rewards, "someone")
            await learning.learn(server, "b", items)

        seconds = []
        many = TOGETHER if at_once == 1 else 1
        for work in (decide, learn):
            begun = time.process_time()
            for _ in range(rounds // at_once // many):
                await asyncio.gather(*(work() for _ in range(many)))
            seconds.append(time.process_time() - begun)
        server.writer.stop()
        return seconds

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        store = f"sqlite:///{folder}/store.db"
        server = Server(Settings(store, place / "secrets", admin_key="k" * 40))
        body = {"dim": DIM, "reward": {"range": [-1, 1]}, "privacy": {"epsilon": 1.0}}
        server.create("b", definitions.parsed(json.dumps(body).encode()), "someone")
        decide, learn = asyncio.run(calls(server))
        server.store.close()
    return rounds / decide, rounds / learn


def merged(partitions: int) -> float:
    """Milliseconds to close a window whose rows were summed in so many partitions."""
    size = (DIM + 2) * (DIM + 3) // 2 + 3
    parts = np.random.default_rng(0).standard_normal((partitions, size))

    def close() -> None:
        total = NoisySum(size, sensitivity=1.0, mu=1.0, noise=SeededNoise(0), what="a window")
        for part in parts:
            total.add(part)
        total.publish()

    return 1e3 * least(close)


def releases(rounds: float) -> int:
    """Windows of half as many decisions as there were, from 64 on."""
    return math.ceil(math.log(rounds / 64) / math.log(1.5))


def day(found: dict[str, list[tuple[float, int]]]) -> None:
    peak = PEAK * DECISIONS / DAY
    (alone, _), policy = found["rounds so far T"][-1], found["features d"][2][1]
    table = new_table(
        "10^9 decisions a day: the pieces", ("piece", "one of it", "needed at the busiest hour")
    )
    table.add_row("the library, a round", f"{1e6 / alone:,.0f}/s", f"{peak * alone / 1e6:.1f}")
    for many, words in ((1, "one in a call"), (1000, "a thousand in a call")):
        for what, rate in zip(("decisions", "durable rewards"), served(many), strict=True):
            table.add_row(f"a server: {what}, {words}", f"{rate:,.0f}/s", f"{peak / rate:.1f}")
    for parts in (16, 1024):
        piece = f"closing a window of {parts:,} partitions"
        table.add_row(piece, f"{merged(parts):.1f} ms", "once in a window")
    table.add_row("releases of a year", f"{releases(365 * DECISIONS)}", "of a policy")
    table.add_row("a policy, d = 8", f"{policy:,} bytes", "from a cache")
    CONSOLE.print(table)


if __name__ == "__main__":
    found = growth()
    picture(found)
    day(found)
