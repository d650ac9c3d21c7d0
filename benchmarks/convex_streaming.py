"""Streaming private convex optimisation: the paper's table, rates, dimensions, speed.

    OMP_NUM_THREADS=1 python benchmarks/convex_streaming.py [table] [entry] [rates] [inside]
                                               [sparse] [interior] [skewed] [speed] [--seeds 10]

table     SubOpt = (L(theta^) - L(theta))/(L(0) - L(theta)), y = <x, theta> + .05 z, x of unit l_q
          norm, theta = ones of unit l_p norm, test set of 10,000, (1, 1/T)-DP
entry     the same with a theta of one entry, beside NoisySGD and Frank-Wolfe in every round
inside    p = 1, theta at half the radius, T = 10^3 .. 10^5; Frank-Wolfe's vertices beside it
skewed    label noise .2 (Exp(1) - 1), rows whose mean is not zero: what shortening does to it
rates     excess risk against t, one learner per horizon, with the slope in log-log
sparse    p = 1, four entries of theta are not zero, d = 10^2 .. 10^5: growth with log d
interior  theta at half the radius, and at twice: then the best point is on the border, and slower
"""

import argparse
import math
import time
from collections.abc import Callable

import numpy as np
from kit import CONSOLE, new_table, run

from discreet.domains import LpBall
from discreet.experiments.measure import grid
from discreet.experiments.statistics import standard_error
from discreet.optimization import StreamingFrankWolfe
from discreet.privacy import SeededNoise
from papers.optimizers import LocalMD, NoisySFW, NoisySGD
from papers.slopes import slope

CELLS = ((1000, 5), (1000, 10), (2000, 5), (2000, 10))
PAPER = {1.5: (0.017, 0.20, 0.0024, 0.060), math.inf: (0.036, 0.092, 0.015, 0.058)}
PAPER_OTHER = {1.5: (0.52, 0.95, 0.44, 0.89), math.inf: (0.026, 0.053, 0.013, 0.038)}
TARGET = {1.5: (0.046, 0.17, 0.022, 0.056), math.inf: (0.037, 0.14, 0.018, 0.039)}
TEST = 10_000
GRID = (0.3, 1.0, 3.0, 10.0)  # factors for the baselines' steps: the best on the test set counts


class World:
    """y = <x, theta> + .05 z with |x|_q = 1, theta = size * ones of unit l_p norm, or one entry.

    skewed: noise .2 (Exp(1) - 1), and rows are normal around (1/2, ..., 1/2) before scaling.
    """

    def __init__(
        self,
        T: int,
        d: int,
        p: float,
        seed: int,
        size: float = 1.0,
        *,
        one_entry: bool = False,
        skewed: bool = False,
    ) -> None:
        rng = np.random.default_rng([seed, T, d])
        q = 1.0 if math.isinf(p) else p / (p - 1)
        X = rng.normal(size=(T + TEST, d)) + 0.5 * skewed
        X /= np.linalg.norm(X, q, axis=1, keepdims=True)
        self.theta = size * (np.eye(d)[0] if one_entry else np.full(d, d ** (-1 / p)))
        noise = 0.05 * rng.normal(size=T + TEST)
        if skewed:
            noise = 0.2 * (rng.exponential(size=T + TEST) - 1)
        y = X @ self.theta + noise
        self.X = X[:T]
        self.y = y[:T]
        self.test = X[T:]
        self.labels = y[T:]
        self.best = self.risk(self.theta)
        self.none = self.risk(0 * self.theta)

    def risk(self, theta: np.ndarray) -> float:
        """The mean squared error on the test set."""
        return float(np.mean((self.labels - self.test @ theta) ** 2))

    def suboptimality(self, theta: np.ndarray) -> float:
        """The fraction of the risk of theta = 0 that is left."""
        return (self.risk(theta) - self.best) / (self.none - self.best)


def stream(world: World, learner: StreamingFrankWolfe | LocalMD) -> float:
    for x, y in zip(world.X, world.y, strict=True):
        learner.learn(x, y)
    return world.suboptimality(learner.theta)


def ours(*, T: int, d: int, p: float, epsilon: float, seed: int) -> dict[str, float]:
    learner = StreamingFrankWolfe(LpBall(p, d), T, epsilon, 1 / T, noise=SeededNoise(seed))
    return {"value": stream(World(T, d, p, seed), learner)}


def sfw(*, T: int, d: int, p: float, step: float, seed: int) -> dict[str, float]:
    world = World(T, d, p, seed)
    learner = NoisySFW(LpBall(p, d), 1.0, 1 / T, step=step, noise=SeededNoise(seed))
    return {"value": world.suboptimality(learner.fit(world.X, world.y).theta)}


def sgd(*, T: int, d: int, p: float, step: float, seed: int) -> dict[str, float]:
    world = World(T, d, p, seed)
    learner = NoisySGD(LpBall(p, d), 1.0, 1 / T, passes=20, step=step, gradient_bound=0.3,
                       noise=SeededNoise(seed))  # fmt: skip
    return {"value": world.suboptimality(learner.fit(world.X, world.y).theta)}


def local(*, T: int, d: int, p: float, step: float, seed: int) -> dict[str, float]:
    learner = LocalMD(LpBall(p, d), T, 1.0, step=step, noise=SeededNoise(seed))
    return {"value": stream(World(T, d, p, seed), learner)}


def table(seeds: range) -> None:
    powers = (1.5, math.inf)
    places = {"T": (1000, 2000), "d": (5, 10), "p": powers}
    long = {"T": 10_000, "d": 5}
    found = run([
        *grid(ours, seeds=seeds, epsilon=(1.0, math.inf), **places),
        *grid(ours, seeds=seeds, epsilon=(1.0, math.inf), p=powers, T=(10_000,), d=(5,)),
        *(cell for rival in (sfw, sgd, local)
          for cell in grid(rival, seeds=seeds[:4], step=GRID, **places)),
    ])  # fmt: skip
    show = new_table(
        f"SubOpt, (1, 1/T)-DP, {len(seeds)} seeds; baselines with their best step",
        ("p", "T, d", "ours", "error", "target", "paper", "without privacy", "NoisySFW",
         "NoisySGD", "LocalMD", "paper's SFW/SGD"),
    )  # fmt: skip
    for p in powers:
        for cell, (T, d) in enumerate(CELLS):
            place = {"T": T, "d": d, "p": p}
            private = found.over(ours, epsilon=1.0, **place)
            others = [min(found.mean(rival, step=step, **place) for step in GRID)
                      for rival in (sfw, sgd, local)]  # fmt: skip
            show.add_row(
                f"{p:g}",
                f"{T}, {d}",
                f"{private.mean():.4f}",
                f"{standard_error(private):.4f}",
                f"{TARGET[p][cell]:g}",
                f"{PAPER[p][cell]:g}",
                f"{found.mean(ours, epsilon=math.inf, **place):.5f}",
                *(f"{value:.4f}" for value in others),
                f"{PAPER_OTHER[p][cell]:g}",
            )
    CONSOLE.print(show)
    for p in powers:
        private, plain = (found.over(ours, epsilon=e, p=p, **long) for e in (1.0, math.inf))
        CONSOLE.print(
            f"T = 10,000, d = 5, p = {p:g}: {private.mean():.2e} +- {standard_error(private):.0e}, "
            f"without privacy {plain.mean():.2e} +- {standard_error(plain):.0e}: "
            f"{private.mean() / plain.mean():.1f} times"
        )


def excess(*, T: int, d: int, p: float, size: float, seed: int) -> dict[str, float]:
    """E (x . (theta^ - theta))^2 on fresh rows, beyond that of the best in the ball."""
    world = World(T, d, p, seed, size)
    learner = StreamingFrankWolfe(
        LpBall(p, d), T, 1.0, 1 / T, label_bound=max(1.0, size), noise=SeededNoise(seed)
    )
    for x, y in zip(world.X, world.y, strict=True):
        learner.learn(x, y)
    best = world.theta / max(1.0, size)
    found, least = (np.mean((world.test @ (t - world.theta)) ** 2) for t in (learner.theta, best))
    return {"value": float(found - least)}


def one_entry(*, T: int, d: int, p: float, how: str, step: float, seed: int) -> dict[str, float]:
    """SubOpt for a theta of one entry."""
    world = World(T, d, p, seed, one_entry=True)
    if how == "NoisySGD":
        fit = NoisySGD(LpBall(p, d), 1.0, 1 / T, passes=20, step=step, gradient_bound=0.3,
                       noise=SeededNoise(seed))  # fmt: skip
        return {"value": world.suboptimality(fit.fit(world.X, world.y).theta)}
    learner = StreamingFrankWolfe(LpBall(p, d), T, 1.0, 1 / T, mechanism=how,
                                  noise=SeededNoise(seed))  # fmt: skip
    return {"value": stream(world, learner)}


def skewed_noise(*, T: int, d: int, p: float, bound: float, seed: int) -> dict[str, float]:
    """E (x . (theta^ - theta))^2 and what was shortened; a bound of 0 is the default."""
    world = World(T, d, p, seed, 0.5, skewed=True)
    learner = StreamingFrankWolfe(LpBall(p, d), T, 1.0, 1 / T, gradient_bound=bound or None,
                                  noise=SeededNoise(seed))  # fmt: skip
    for x, y in zip(world.X, world.y, strict=True):
        learner.learn(x, y)
    shift = world.test @ (learner.theta - world.theta)
    return {"value": float(np.mean(shift**2)), "shift": float(np.mean(shift)),
            "shortened": float(learner.shortened or 0.0)}  # fmt: skip


def one_norm(
    *, T: int, d: int, epsilon: float, size: float, seed: int, mechanism: str = "auto"
) -> dict[str, float]:
    """p = 1: signs as rows, four entries; the excess risk is |theta^ - theta|_2^2."""
    rng = np.random.default_rng([seed, T, d])
    theta = np.zeros(d)
    theta[:4] = size * np.array([0.4, -0.3, 0.2, -0.1])
    learner = StreamingFrankWolfe(
        LpBall(1, d), T, epsilon, 1 / T, mechanism=mechanism, noise=SeededNoise(seed)
    )
    for _ in range(T):
        x = rng.integers(0, 2, d, dtype=np.int8) * 2.0 - 1.0
        learner.learn(x, float(x[:4] @ theta[:4]) + 0.05 * rng.normal())
    return {"value": float(np.sum((learner.theta - theta) ** 2))}


def rates(
    seeds: range,
    sizes: tuple[float, ...] = (1.0,),
    powers: tuple[float, ...] = (1.0, 1.5, 2.0, math.inf),
) -> None:
    horizons = (1000, 4000, 16_000)
    found = run([
        *grid(one_norm, seeds=seeds, T=horizons, d=(10,), epsilon=(1.0,),
              size=sizes if 1.0 in powers else ()),
        *grid(excess, seeds=seeds, T=horizons, d=(10,), size=sizes,
              p=tuple(p for p in powers if p > 1)),
    ])  # fmt: skip
    show = new_table(f"excess risk at the last round, epsilon = 1, {len(seeds)} seeds, d = 10",
                     ("p", "|theta|_p", *(f"T = {T:,}" for T in horizons), "slope"))  # fmt: skip
    for p in powers:
        for size in sizes:
            if p == 1:
                means = [found.mean(one_norm, T=T, d=10, epsilon=1.0, size=size) for T in horizons]
            else:
                means = [found.mean(excess, T=T, d=10, p=p, size=size) for T in horizons]
            fitted = slope(horizons, means).value
            show.add_row(f"{p:g}", f"{size:g}", *(f"{m:.2e}" for m in means), f"{fitted:.2f}")
    CONSOLE.print(show)


def entry(seeds: range) -> None:
    powers = (1.5, math.inf)
    places = {"T": (1000, 2000), "d": (5, 10), "p": powers}
    found = run([
        *grid(one_entry, seeds=seeds, how=("auto", "blt"), step=(1.0,), **places),
        *grid(one_entry, seeds=seeds[:4], how=("NoisySGD",), step=GRID, **places),
    ])  # fmt: skip
    show = new_table(
        f"SubOpt, one entry, (1, 1/T)-DP, {len(seeds)} seeds; NoisySGD with its best step",
        ("p", "T, d", "ours", "error", "Frank-Wolfe", "NoisySGD", "ratio"),
    )
    for p in powers:
        for T, d in CELLS:
            place = {"T": T, "d": d, "p": p}
            mine = found.over(one_entry, how="auto", step=1.0, **place)
            rival = min(found.mean(one_entry, how="NoisySGD", step=s, **place) for s in GRID)
            plain = found.mean(one_entry, how="blt", step=1.0, **place)
            show.add_row(f"{p:g}", f"{T}, {d}", f"{mine.mean():.4f}", f"{standard_error(mine):.4f}",
                         f"{plain:.4f}", f"{rival:.4f}", f"{mine.mean() / rival:.1f}")  # fmt: skip
    CONSOLE.print(show)


def inside(seeds: range) -> None:
    horizons = (1000, 10_000, 100_000)
    kinds = ("auto", "vertices")
    found = run([
        cell for T in horizons
        for cell in grid(one_norm, seeds=seeds if T < 100_000 else seeds[:4], T=(T,), d=(10,),
                         epsilon=(1.0,), size=(0.5,), mechanism=kinds)
    ])  # fmt: skip
    show = new_table(f"p = 1, theta inside, d = 10, epsilon = 1: excess risk, {len(seeds)} seeds",
                     ("mechanism", *(f"T = {T:,}" for T in horizons), "slope"))  # fmt: skip
    for kind in kinds:
        means = [found.mean(one_norm, T=T, d=10, epsilon=1.0, size=0.5, mechanism=kind)
                 for T in horizons]  # fmt: skip
        fitted = slope(horizons, means).value
        show.add_row(kind, *(f"{m:.2e}" for m in means), f"{fitted:.2f}")
    CONSOLE.print(show)


def skewed(seeds: range) -> None:
    bounds = (0.0, 0.065, 1.0)
    horizons = (1000, 10_000)
    found = run(grid(skewed_noise, seeds=seeds, T=horizons, d=(5,), p=(1.5,), bound=bounds))
    show = new_table(
        f"skewed label noise, p = 1.5, d = 5, epsilon = 1, {len(seeds)} seeds",
        ("bound", "T", "excess risk", "mean shift of predictions", "shortened, as released"),
    )
    for bound in bounds:
        for T in horizons:
            place = {"T": T, "d": 5, "p": 1.5, "bound": bound}
            risk, shift, told = (
                found.mean(skewed_noise, name, **place) for name in ("value", "shift", "shortened")
            )
            show.add_row(f"{bound:g}" if bound else "default", f"{T:,}", f"{risk:.1e}",
                         f"{shift:+.3f}", f"{told:.2f}")  # fmt: skip
    CONSOLE.print(show)


def sparse(seeds: range) -> None:
    T = 10_000
    dims = (100, 1000, 10_000, 100_000)
    setting = {"T": T, "size": 1.0}
    axes = {"T": (T,), "size": (1.0,)}
    found = run([
        *grid(one_norm, seeds=seeds, d=dims[:3], epsilon=(1.0,), **axes),
        *grid(one_norm, seeds=seeds[:2], d=dims[3:], epsilon=(1.0,), **axes),
        *grid(one_norm, seeds=seeds[:1], d=dims[:2], epsilon=(math.inf,), **axes),
    ])  # fmt: skip
    show = new_table(
        f"p = 1, T = {T:,}, epsilon = 1: |theta^ - theta|^2 (0.30 at zero)",
        ("d", "ln 2d", "excess risk", "std. error", "excess/ln 2d", "without privacy"),
    )
    for d in dims:
        runs = found.over(one_norm, d=d, epsilon=1.0, **setting)
        plain = "-"
        if d in dims[:2]:
            plain = f"{found.mean(one_norm, d=d, epsilon=math.inf, **setting):.4f}"
        log = math.log(2 * d)
        show.add_row(f"{d:,}", f"{log:.1f}", f"{runs.mean():.4f}", f"{standard_error(runs):.4f}",
                     f"{runs.mean() / log:.5f}", plain)  # fmt: skip
    CONSOLE.print(show)


def speed(seeds: range) -> None:
    for p, d, rounds in ((1.5, 100, 5000), (2, 100, 5000), (math.inf, 100, 5000), (1, 10**5, 200)):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(min(rounds, 500), d)) / (2 * d)
        names = ("auto", "every-round") if p == 1 else ("auto",)
        for name in names:
            best = math.inf
            for _ in range(3):
                noise = SeededNoise(0)
                learner = StreamingFrankWolfe(
                    LpBall(p, d), rounds, 1.0, 1e-6, mechanism=name, noise=noise
                )
                start = time.process_time()
                for t in range(rounds):
                    learner.learn(X[t % len(X)], 0.3)
                best = min(best, (time.process_time() - start) / rounds)
            CONSOLE.print(f"p = {p:g}, d = {d:,}, {name}: {best * 1e6:.1f} microseconds a step")


def main() -> None:
    parts: dict[str, Callable[[range], None]] = {
        "table": table,
        "entry": entry,
        "rates": rates,
        "inside": inside,
        "sparse": sparse,
        "interior": lambda seeds: rates(seeds, (2.0, 0.5), (1.5, 2.0, math.inf)),
        "skewed": skewed,
        "speed": speed,
    }
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=", ".join(parts))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=1000, help="the first seed")
    options = parser.parse_args()
    for name in options.parts or parts:
        parts[name](range(options.first, options.first + options.seeds))


if __name__ == "__main__":
    main()
