"""Streaming private convex optimisation: the paper's table, rates, dimensions, speed.

    OMP_NUM_THREADS=1 python benchmarks/convex_streaming.py [table] [rates] [sparse] [interior]
                                                            [speed] [--seeds 10]

table     SubOpt = (L(theta^) - L(theta))/(L(0) - L(theta)), y = <x, theta> + .05 z, x of unit l_q
          norm, theta = ones of unit l_p norm, test set of 10,000, (1, 1/T)-DP
rates     excess risk against t, one learner per horizon, with the slope in log-log
sparse    p = 1, four entries of theta are not zero, d = 10^2 .. 10^5: growth with log d
interior  theta at half the radius, and at twice: then the best point is on the border, and slower
"""

import argparse
import math
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from discreet.domains import LpBall
from discreet.optimization.baselines import LocalMD, NoisySFW, NoisySGD
from discreet.optimization.frank_wolfe import StreamingFrankWolfe
from discreet.privacy import SeededNoise

CONSOLE = Console(width=120)
CELLS = ((1000, 5), (1000, 10), (2000, 5), (2000, 10))
PAPER = {1.5: (0.017, 0.20, 0.0024, 0.060), math.inf: (0.036, 0.092, 0.015, 0.058)}
PAPER_OTHER = {1.5: (0.52, 0.95, 0.44, 0.89), math.inf: (0.026, 0.053, 0.013, 0.038)}
TARGET = {1.5: (0.046, 0.17, 0.022, 0.056), math.inf: (0.037, 0.14, 0.018, 0.039)}
TEST = 10_000
GRID = (0.3, 1.0, 3.0, 10.0)  # factors for the baselines' steps: the best on the test set counts


class World:
    """y = <x, theta> + .05 z with |x|_q = 1, theta = size * ones of unit l_p norm."""

    def __init__(self, T: int, d: int, p: float, seed: int, size: float = 1.0) -> None:
        rng = np.random.default_rng([seed, T, d])
        q = 1.0 if math.isinf(p) else p / (p - 1)
        X = rng.normal(size=(T + TEST, d))
        X /= np.linalg.norm(X, q, axis=1, keepdims=True)
        self.theta = size * np.full(d, d ** (-1 / p))
        y = X @ self.theta + 0.05 * rng.normal(size=T + TEST)
        self.X, self.y, self.test, self.labels = X[:T], y[:T], X[T:], y[T:]
        self.best, self.none = self.risk(self.theta), self.risk(0 * self.theta)

    def risk(self, theta: np.ndarray) -> float:
        """The mean squared error on the test set."""
        return float(np.mean((self.labels - self.test @ theta) ** 2))

    def suboptimality(self, theta: np.ndarray) -> float:
        """The share of the risk of theta = 0 that is left."""
        return (self.risk(theta) - self.best) / (self.none - self.best)


def stream(world: World, learner: StreamingFrankWolfe | LocalMD) -> float:
    for x, y in zip(world.X, world.y, strict=True):
        learner.learn(x, y)
    return world.suboptimality(learner.theta)


def ours(T: int, d: int, p: float, seed: int, epsilon: float = 1.0, **options: float) -> float:
    learner = StreamingFrankWolfe(
        LpBall(p, d), T, epsilon, 1 / T, noise=SeededNoise(seed), **options
    )
    return stream(World(T, d, p, seed), learner)


def sfw(T: int, d: int, p: float, seed: int, step: float) -> float:
    world, noise = World(T, d, p, seed), SeededNoise(seed)
    learner = NoisySFW(LpBall(p, d), 1.0, 1 / T, step=step, noise=noise)
    return world.suboptimality(learner.fit(world.X, world.y).theta)


def sgd(T: int, d: int, p: float, seed: int, step: float) -> float:
    world, noise = World(T, d, p, seed), SeededNoise(seed)
    learner = NoisySGD(
        LpBall(p, d), 1.0, 1 / T, passes=20, step=step, gradient_bound=0.3, noise=noise
    )
    return world.suboptimality(learner.fit(world.X, world.y).theta)


def local(T: int, d: int, p: float, seed: int, step: float) -> float:
    learner = LocalMD(LpBall(p, d), T, 1.0, step=step, noise=SeededNoise(seed))
    return stream(World(T, d, p, seed), learner)


def over(run: Callable[[int], float], seeds: range) -> tuple[float, float]:
    """Mean and standard error."""
    values = [run(seed) for seed in seeds]
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))


def best_step(run: Callable[[int, float], float], seeds: range) -> tuple[float, float]:
    return min(over(lambda seed, step=step: run(seed, step), seeds) for step in GRID)


def table(seeds: range) -> None:
    show = Table(title=f"SubOpt, (1, 1/T)-DP, {len(seeds)} seeds; baselines with their best step")
    for column in ("p", "T, d", "ours", "error", "target", "paper", "without privacy"):
        show.add_column(column, justify="right")
    for column in ("NoisySFW", "NoisySGD", "LocalMD", "paper's SFW/SGD"):
        show.add_column(column, justify="right")
    few = range(seeds.start, seeds.start + 4)
    for p in (1.5, math.inf):
        for cell, (T, d) in enumerate(CELLS):
            mean, error = over(lambda s, T=T, d=d, p=p: ours(T, d, p, s), seeds)
            plain, _ = over(lambda s, T=T, d=d, p=p: ours(T, d, p, s, math.inf), seeds)
            others = [
                best_step(lambda s, step, f=f, T=T, d=d, p=p: f(T, d, p, s, step), few)[0]
                for f in (sfw, sgd, local)
            ]
            show.add_row(
                f"{p:g}",
                f"{T}, {d}",
                f"{mean:.4f}",
                f"{error:.4f}",
                f"{TARGET[p][cell]:g}",
                f"{PAPER[p][cell]:g}",
                f"{plain:.5f}",
                *(f"{value:.3f}" for value in others),
                f"{PAPER_OTHER[p][cell]:g}",
            )
    CONSOLE.print(show)
    for p in (1.5, math.inf):
        mean, error = over(lambda s, p=p: ours(10_000, 5, p, s), seeds)
        plain, off = over(lambda s, p=p: ours(10_000, 5, p, s, math.inf), seeds)
        CONSOLE.print(
            f"T = 10,000, d = 5, p = {p:g}: {mean:.2e} +- {error:.0e}, without privacy "
            f"{plain:.2e} +- {off:.0e}: {mean / plain:.1f} times"
        )


def excess(T: int, d: int, p: float, seed: int, size: float, epsilon: float) -> float:
    """E (x . (theta^ - theta))^2 on fresh rows, beyond that of the best in the ball."""
    world = World(T, d, p, seed, size)
    learner = StreamingFrankWolfe(
        LpBall(p, d), T, epsilon, 1 / T, label_bound=max(1.0, size), noise=SeededNoise(seed)
    )
    for x, y in zip(world.X, world.y, strict=True):
        learner.learn(x, y)
    best = world.theta / max(1.0, size)
    found, least = (np.mean((world.test @ (t - world.theta)) ** 2) for t in (learner.theta, best))
    return float(found - least)


def one_norm(T: int, d: int, seed: int, epsilon: float = 1.0, size: float = 1.0) -> float:
    """p = 1: signs as rows, four entries; the excess risk is |theta^ - theta|_2^2."""
    rng = np.random.default_rng([seed, T, d])
    theta = np.zeros(d)
    theta[:4] = size * np.array([0.4, -0.3, 0.2, -0.1])
    learner = StreamingFrankWolfe(LpBall(1, d), T, epsilon, 1 / T, noise=SeededNoise(seed))
    for _ in range(T):
        x = rng.integers(0, 2, d, dtype=np.int8) * 2.0 - 1.0
        learner.learn(x, float(x[:4] @ theta[:4]) + 0.05 * rng.normal())
    return float(np.sum((learner.theta - theta) ** 2))


def rates(
    seeds: range,
    sizes: tuple[float, ...] = (1.0,),
    powers: tuple[float, ...] = (1.0, 1.5, 2.0, math.inf),
) -> None:
    horizons = (1000, 4000, 16_000)
    show = Table(title=f"excess risk at the last round, epsilon = 1, {len(seeds)} seeds, d = 10")
    for column in ("p", "|theta|_p", *(f"T = {T:,}" for T in horizons), "slope"):
        show.add_column(column, justify="right")
    for p in powers:
        for size in sizes:
            if p == 1:
                runs = [lambda s, T=T, z=size: one_norm(T, 10, s, size=z) for T in horizons]
            else:
                runs = [lambda s, T=T, p=p, z=size: excess(T, 10, p, s, z, 1.0) for T in horizons]
            means = [over(run, seeds)[0] for run in runs]
            slope = np.polyfit(np.log(horizons), np.log(means), 1)[0]
            show.add_row(f"{p:g}", f"{size:g}", *(f"{m:.2e}" for m in means), f"{slope:.2f}")
    CONSOLE.print(show)


def sparse(seeds: range) -> None:
    T = 10_000
    show = Table(title=f"p = 1, T = {T:,}, epsilon = 1: |theta^ - theta|^2 (0.30 at zero)")
    for column in ("d", "ln 2d", "excess risk", "std. error", "excess/ln 2d", "without privacy"):
        show.add_column(column, justify="right")
    for d in (100, 1000, 10_000, 100_000):
        few = seeds if d < 10**5 else range(seeds.start, seeds.start + 2)
        mean, error = over(lambda s, d=d: one_norm(T, d, s), few)
        plain = f"{one_norm(T, d, seeds.start, math.inf):.4f}" if d < 10**4 else "-"
        log = math.log(2 * d)
        row = (f"{d:,}", f"{log:.1f}", f"{mean:.4f}", f"{error:.4f}", f"{mean / log:.5f}", plain)
        show.add_row(*row)
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
        "rates": rates,
        "sparse": sparse,
        "interior": lambda seeds: rates(seeds, (2.0, 0.5), (1.5, 2.0, math.inf)),
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
