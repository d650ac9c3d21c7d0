"""The first demo: a private running average of a sensitive stream, after every single rating."""

import math
from pathlib import Path

import numpy as np

from discreet.privacy import Budget, PrefixSum, SeededNoise, Tree
from discreet.privacy.checks import Array, whole

_MECHANISMS: dict[str, str | Tree] = {
    "binary tree": Tree(branching=2),
    "best tree": "tree",
    "buffered Toeplitz": "blt",
}


def ratings(rounds: int, seed: int) -> Array:
    """A stream of satisfaction ratings in [0, 1] whose mean drifts: the sensitive data."""
    rng = np.random.default_rng(seed)
    time = np.arange(rounds) / rounds
    mean = 0.62 + 0.12 * np.sin(5 * time) - 0.15 * (time > 0.6)
    return rng.beta(6 * mean, 6 * (1 - mean))


def run(rounds: int, epsilon: float, delta: float, *, seed: int, out: Path) -> Path:
    """Print the table, save the figure, return its path."""
    whole("rounds", rounds, least=100)
    values = ratings(rounds, seed)
    t = np.arange(1.0, rounds + 1)
    truth = np.cumsum(values) / t
    private, promised = {}, {}
    for name, mechanism in _MECHANISMS.items():
        # A rating is in [0, 1]: replacing one moves the sum by at most 1.
        sums = PrefixSum(
            rounds,
            1,
            Budget(epsilon, delta),
            sensitivity=1.0,
            bound=1.0,
            mechanism=mechanism,
            noise=SeededNoise(seed),
        )
        private[name] = sums.add_many(values[:, None])[:, 0] / t
        promised[name] = sums
    _table(t, truth, private, promised)
    print("\n" + promised["buffered Toeplitz"].guarantee.statement())
    out.mkdir(parents=True, exist_ok=True)
    path = out / "running-average.png"
    _figure(path, t, truth, private, epsilon, delta)
    print(f"\nFigure: {path}")
    return path


def _table(t: Array, truth: Array, private: dict[str, Array], sums: dict[str, PrefixSum]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="The running average, published after every rating", title_justify="left")
    table.add_column("after", justify="right")
    table.add_column("truth", justify="right")
    for name in private:
        table.add_column(name, justify="right")
    for exponent in range(2, int(math.log10(len(t))) + 1):
        i = 10**exponent - 1
        row = [f"{values[i]:.4f}" for values in private.values()]
        table.add_row(f"{t[i]:,.0f}", f"{truth[i]:.4f}", *row)
    table.add_section()
    worst = {name: float(np.max(s.deviation(t.astype(int)))) for name, s in sums.items()}
    table.add_row("noise", "0", *(f"{value:.1f}" for value in worst.values()))
    console = Console()
    console.print(table)
    ratio = worst["binary tree"] / worst["buffered Toeplitz"]
    console.print(
        f"noise: largest standard deviation of the sum, in ratings; buffered Toeplitz "
        f"has {ratio:.1f} times less than the binary tree at the same privacy."
    )


def _figure(
    path: Path, t: Array, truth: Array, private: dict[str, Array], epsilon: float, delta: float
) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), constrained_layout=True)
    shown = t >= max(50, len(t) // 500)
    colours = {"binary tree": "#c9a227", "best tree": "#5b8e7d", "buffered Toeplitz": "#2f4b7c"}
    for name, values in private.items():
        left.plot(t[shown], values[shown], color=colours[name], linewidth=1, label=name)
        right.loglog(
            t[shown],
            _rolling_error(values, truth)[shown],
            color=colours[name],
            linewidth=1.5,
            label=name,
        )
    left.plot(t[shown], truth[shown], color="black", linewidth=1.5, label="truth")
    left.set(xscale="log", xlabel="ratings so far", ylabel="running average")
    left.set_ylim(truth[shown].min() - 0.1, truth[shown].max() + 0.1)
    right.set(xlabel="ratings so far", ylabel="error (root mean square, recent rounds)")
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False)
    figure.suptitle(f"A private running average, epsilon = {epsilon:g}, delta = {delta:g}")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _rolling_error(values: Array, truth: Array) -> Array:
    """Root mean square error over the second half of the rounds so far."""
    squares = np.concatenate([[0.0], np.cumsum((values - truth) ** 2)])
    t = np.arange(1, len(values) + 1)
    start = t // 2
    return np.asarray(np.sqrt((squares[t] - squares[start]) / (t - start)))
