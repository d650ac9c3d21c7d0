"""Running sums: variance against the lower bound, pure privacy, speed. Prints tables, saves the
figure docs/prefix.png.

    python benchmarks/prefix.py
"""

import math
import time
from pathlib import Path

import matplotlib
import numpy as np
from kit import KeepingConsole
from rich.table import Table

from discreet.privacy import Budget, PrefixSum, SecureNoise, SeededNoise, Tree
from discreet.privacy.toeplitz import Buffered

matplotlib.use("Agg")
import matplotlib.pyplot as plt

CONSOLE = KeepingConsole(width=110)
BUDGET = Budget(1.0, 1e-6)


def lower_bound(T: int) -> float:
    """No factorisation has less *mean* variance (nuclear norm of the prefix matrix)."""
    j = np.arange(1, T + 1)
    return float(np.sum(1 / (2 * np.sin((2 * j - 1) * math.pi / (4 * T + 2)))) / T) ** 2


def gaussian_variances(T: int, mechanism: str | Tree) -> tuple[float, float]:
    """Maximal and mean variance per unit of l2 sensitivity and mu = 1."""
    # In many dimensions the tree takes Gaussian noise; per coordinate it does not depend on dim.
    dim = 1 if mechanism in ("blt", "toeplitz") else 1000
    sums = PrefixSum(T, dim, BUDGET, sensitivity=1.0, mechanism=mechanism, noise=SeededNoise(0))
    variance = (sums.std(np.arange(1, T + 1)) * BUDGET.mu) ** 2
    return float(variance.max()), float(variance.mean())


def approximate() -> dict[str, list[float]]:
    table = Table(title="Gaussian noise: maximal variance (mean), per unit sensitivity and mu = 1")
    names = {"binary tree": Tree(2), "best tree": "tree", "square root": "toeplitz", "blt": "blt"}
    curves: dict[str, list[float]] = {name: [] for name in (*names, "lower bound")}
    for column in ("T", *names, "lower bound", "blt / square root", "blt mean / bound"):
        table.add_column(column, justify="right")
    for exponent in range(8, 21, 2):
        T = 2**exponent
        values = {name: gaussian_variances(T, mechanism) for name, mechanism in names.items()}
        bound = lower_bound(T)
        for name, (_, mean) in values.items():
            curves[name].append(mean)
        curves["lower bound"].append(bound)
        ratio = values["blt"][0] / values["square root"][0]
        table.add_row(
            f"2^{exponent}",
            *(f"{largest:.2f} ({mean:.2f})" for largest, mean in values.values()),
            f"({bound:.2f})", f"{ratio:.4f}", f"{values['blt'][1] / bound:.3f}",
        )  # fmt: skip
    CONSOLE.print(table)
    return curves


def pure() -> None:
    table = Table(title="Pure privacy, epsilon = 1: maximal variance relative to the binary tree")
    shapes = {
        "binary Laplace": Tree(2),
        "k-ary": Tree(balanced=False),
        "k-ary, balanced digits": Tree(),
    }
    for column in ("T", *shapes):
        table.add_column(column, justify="right")
    for exponent in (10, 14, 16, 20):
        T = 2**exponent
        t = np.arange(1, T + 1)
        variances = [
            float(np.max(PrefixSum(T, 1, Budget(1.0), sensitivity=1.0, norm="l1", mechanism=tree,
                                   noise=SeededNoise(0)).std(t) ** 2))
            for tree in shapes.values()
        ]  # fmt: skip
        table.add_row(f"2^{exponent}", *(f"{value / variances[0]:.3f}" for value in variances))
    CONSOLE.print(table)

    T = 10**6
    N = 10
    t = np.arange(1, T + 1)
    table = Table(title=f"Losses in [0, 1]^{N}, T = {T:,}, epsilon = 1: std of the sum")
    for column in ("mechanism", "root mean square", "largest"):
        table.add_column(column, justify="right")
    for name, norm, sensitivity, tree in (
        ("binary tree, Laplace", "l1", float(N), Tree(2)),
        ("16-ary tree, Laplace", "l1", float(N), Tree(16, balanced=False)),
        ("best tree, K-norm noise", "linf", 1.0, Tree()),
    ):
        sums = PrefixSum(T, N, Budget(1.0), sensitivity=sensitivity, norm=norm, bound=float(N),
                         mechanism=tree, noise=SeededNoise(0))  # fmt: skip
        d = sums.std(t)
        table.add_row(name, f"{math.sqrt(np.mean(d**2)):.0f}", f"{d.max():.0f}")
    CONSOLE.print(table)


def long_streams() -> None:
    table = Table(title="Beyond 2^20 rounds: five buffers against the square root")
    for column in ("T", "maximal variance", "square root", "loss"):
        table.add_column(column, justify="right")
    known = 2**22
    head = PrefixSum(known, 1, BUDGET, sensitivity=1.0, mechanism="toeplitz")._calibration.design
    total = float(np.sum(head.coefficients**2))
    for exponent in (22, 24, 27, 30, 35, 40):
        T = 2**exponent
        design = Buffered.fitted(T)
        ours = (design.sensitivity(1) * float(design.std(np.array(T)))) ** 2
        # c_k^2 = 1/(pi (k + 1/4)) up to 1/k^3
        root = (total + math.log((T - 0.25) / (known - 0.25)) / math.pi) ** 2
        table.add_row(f"2^{exponent}", f"{ours:.2f}", f"{root:.2f}", f"{ours / root - 1:.1%}")
    CONSOLE.print(table)


def users() -> None:
    table = Table(title="k rounds of one person: noise relative to k = 1 (at most k)")
    ks = (2, 5, 20, 50, 200)
    for column in ("mechanism", "T", *(f"k = {k}" for k in ks)):
        table.add_column(column, justify="right")
    for mechanism in ("blt", Tree(2), Tree()):
        for T in (1000, 100_000):
            scales = [
                PrefixSum(T, 1000, Budget(1.0, 1e-6, k), sensitivity=1.0, mechanism=mechanism,
                          noise=SeededNoise(0)).guarantee.releases[0].scale
                for k in (1, *ks)
            ]  # fmt: skip
            name = (
                mechanism
                if isinstance(mechanism, str)
                else f"tree, {mechanism.branching or 'best'} branching"
            )
            table.add_row(name, f"{T:,}", *(f"{scale / scales[0]:.1f}" for scale in scales[1:]))
    CONSOLE.print(table)


def speed() -> None:
    table = Table(title="Speed (SeededNoise)")
    for column in ("what", "dim", "time", "against a plain numpy running sum"):
        table.add_column(column, justify="right")
    rounds = 20_000
    for name, budget, dim in (
        ("blt add", BUDGET, 10), ("tree add", Budget(1.0), 10), ("blt add", BUDGET, 10_000),
    ):  # fmt: skip
        sums = PrefixSum(10**6, dim, budget, sensitivity=2.0, norm="linf", noise=SeededNoise(0))
        x = np.full(dim, 0.1)
        plain = np.zeros(dim)
        count = rounds if dim < 100 else 1000
        ours = timed(lambda sums=sums, x=x: sums.add(x), count)
        base = timed(lambda plain=plain, x=x: np.add(plain, x, out=plain).copy(), count)
        table.add_row(name, f"{dim:,}", f"{ours * 1e6:.1f} us", f"{ours / base:.1f} times")
    for name, budget in (("blt, 10^6 rounds at once", BUDGET), ("tree, 10^6 rounds", Budget(1.0))):
        X = np.full((10**6, 10), 0.1)
        sums = PrefixSum(10**6, 10, budget, sensitivity=2.0, norm="linf", noise=SeededNoise(0))
        start = time.perf_counter()
        sums.add_many(X)
        ours = time.perf_counter() - start
        start = time.perf_counter()
        np.cumsum(X, axis=0)
        base = time.perf_counter() - start
        table.add_row(name, "10", f"{ours:.2f} s", f"{ours / base:.0f} times")
    start = time.perf_counter()
    for _ in range(200):
        Buffered.fitted(10**6).sensitivity(1)
    table.add_row("blt parameters", "", f"{(time.perf_counter() - start) / 200 * 1e3:.3f} ms", "")
    CONSOLE.print(table)


def exact() -> None:
    table = Table(title="SecureNoise, epsilon = 1, delta = 1e-6, 10 dimensions: largest std, time")
    for column in ("T", "exact blt", "over float blt", "best tree", "tree / blt", "blt add",
                   "tree add", "tree / blt"):  # fmt: skip
        table.add_column(column, justify="right")
    for exponent in (6, 10, 14, 16, 20, 24):
        T = 2**exponent
        made = {
            name: PrefixSum(T, 10, BUDGET, sensitivity=2.0, mechanism=mechanism, noise=noise)
            for name, mechanism, noise in (
                ("blt", "blt", SecureNoise()),
                ("float", "blt", SeededNoise(0)),
                ("tree", "tree", SecureNoise()),
            )
        }
        std = {
            name: sums._calibration.unit * sums._calibration.largest for name, sums in made.items()
        }
        x = np.full(10, 0.1)
        times = {}
        for name in ("blt", "tree"):  # the mean: a tree draws more in some rounds than in others
            rounds = min(T, 500)
            start = time.perf_counter()
            for _ in range(rounds):
                made[name].add(x)
            times[name] = (time.perf_counter() - start) / rounds
        table.add_row(
            f"2^{exponent}", f"{std['blt']:.2f}", f"{std['blt'] / std['float'] - 1:.0e}",
            f"{std['tree']:.2f}", f"{std['tree'] / std['blt']:.2f}",
            f"{times['blt'] * 1e3:.2f} ms", f"{times['tree'] * 1e3:.2f} ms",
            f"{times['tree'] / times['blt']:.2f}",
        )  # fmt: skip
    CONSOLE.print(table)


def timed(call, count: int) -> float:
    best = math.inf
    for _ in range(10):
        start = time.perf_counter()
        for _ in range(count // 10):
            call()
        best = min(best, (time.perf_counter() - start) / (count // 10))
    return best


def figure(curves: dict[str, list[float]]) -> None:
    picture, axis = plt.subplots(figsize=(7, 4.2), constrained_layout=True)
    T = 2.0 ** np.arange(8, 21, 2)
    styles = {"binary tree": "#c9a227", "best tree": "#5b8e7d", "square root": "#999999",
              "blt": "#2f4b7c", "lower bound": "black"}  # fmt: skip
    for name, values in curves.items():
        line = "--" if name in ("lower bound", "square root") else "-"
        axis.loglog(T, values, line, color=styles[name], base=2,
                    label={"blt": "buffered Toeplitz (default)"}.get(name, name))  # fmt: skip
    axis.set(xlabel="rounds T", ylabel="mean variance of a running sum")
    axis.set_title("Gaussian running sums, per unit of sensitivity and mu = 1")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    path = Path(__file__).parents[1] / "docs" / "prefix.png"
    picture.savefig(path, dpi=110)
    CONSOLE.print(f"Figure: docs/{path.name}")


def main() -> None:
    figure(approximate())
    pure()
    long_streams()
    users()
    speed()
    exact()


if __name__ == "__main__":
    main()
