"""Three trusts side by side: the tables and the figure of docs/trust.md.

python benchmarks/trust.py [bandits] [hard] [regression] [million] [seeds]
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np
from bandits import Case, T, main, runs
from kit import CONSOLE, new_table, run, with_interval
from regression_local import FIRST, world

from discreet.experiments.measure import grid
from discreet.experiments.statistics import interval
from discreet.regression import PrivateLinearRegression

matplotlib.use("Agg")
import matplotlib.pyplot as plt

TRUSTS = {  # learner of benchmarks/bandits.py: label, colour
    "private": ("joint: trust the server", "#2f4b7c"),
    "shuffled": ("shuffled: trust the relay", "#d08c2f"),
    "local": ("local: trust nobody", "#8c3b3b"),
}
EPSILONS = (0.3, 1.0, 3.0, 8.0)
PEOPLE = (10**4, 10**5)


def bandits(seeds: int) -> None:
    cases = {(name, e): Case(name, epsilon=e) for name in TRUSTS for e in EPSILONS}
    found = runs(cases.values(), seeds)
    table = new_table(
        f"Regret at T = {T:,}, sphere, d = 5, delta = 1e-6 (local: 0): mean ± 95% (largest), "
        f"{seeds} seeds",
        ("trust", *(f"epsilon = {e:g}" for e in EPSILONS)),
    )
    picture, place = plt.subplots(figsize=(6.4, 4.2), constrained_layout=True)
    for name, (label, colour) in TRUSTS.items():
        columns = [found[cases[name, e]][:, 0] for e in EPSILONS]
        table.add_row(
            label.split(":")[0], *(f"{with_interval(c)} ({c.max():,.0f})" for c in columns)
        )
        mean, half = np.array([interval(column) for column in columns]).T
        place.plot(EPSILONS, mean, color=colour, label=label, marker="o", linewidth=1.8)
        place.fill_between(EPSILONS, np.maximum(mean - half, 1), mean + half, color=colour,
                           alpha=0.2, linewidth=0)  # fmt: skip
    place.set(xscale="log", yscale="log", xlabel="epsilon", ylabel=f"regret at {T:,} rounds")
    place.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
    place.minorticks_off()
    place.grid(alpha=0.25, linewidth=0.6)
    place.spines[["top", "right"]].set_visible(False)
    place.legend(frameon=False)
    path = Path(__file__).parents[1] / "docs" / "trust.png"
    picture.savefig(path, dpi=150)
    CONSOLE.print(table)


def hard(seeds: int) -> None:
    """More dimensions, and actions that are the same for everybody."""
    wanted = (("sphere", 20), ("fixed", 5))
    cases = {
        (name, world_name, d): Case(name, world=world_name, dim=d)
        for name in TRUSTS
        for world_name, d in wanted
    }
    found = runs(cases.values(), seeds)
    table = new_table(
        f"Regret at T = {T:,}, epsilon = 1: harder worlds, mean ± 95% (largest), {seeds} seeds",
        ("trust", *(f"{world_name}, d = {d}" for world_name, d in wanted)),
    )
    for name, (label, _) in TRUSTS.items():
        columns = [found[cases[name, *each]][:, 0] for each in wanted]
        table.add_row(
            label.split(":")[0], *(f"{with_interval(c)} ({c.max():,.0f})" for c in columns)
        )
    CONSOLE.print(table)


def fit(*, trust: str, n: int, seed: int) -> dict[str, float]:
    """Mean |<phi, theta^ - theta*>|, sphere."""
    X, y, theta = world("sphere", n, seed)
    model = PrivateLinearRegression(
        1.0, norm_bound=1.0, label_bound=1.0, fit_intercept=False, trust=trust, random_state=seed
    ).fit(X, y)
    return {"value": float(np.abs(X[:100_000] @ (model.coef_ - theta)).mean())}


def regression(seeds: int, people: tuple[int, ...] = PEOPLE) -> None:
    trusts = ("central", "shuffled", "local")
    found = run(grid(fit, seeds=range(FIRST, FIRST + seeds), trust=trusts, n=people))
    sizes = " and ".join(f"{n:,}" for n in people)
    table = new_table(
        f"Regression, {sizes} people, sphere, d = 5, epsilon = 1: mean |error| x 10^3, mean ± 95%, "
        f"{seeds} seeds",
        ("people", *trusts),
    )
    for n in people:
        columns = [1e3 * found.over(fit, trust=trust, n=n) for trust in trusts]
        table.add_row(f"{n:,}", *(with_interval(column) for column in columns))
    CONSOLE.print(table)


def million(seeds: int) -> None:
    """The same for 10^6 people: half a minute a fit."""
    regression(seeds, (10**6,))


if __name__ == "__main__":
    main(
        {"bandits": bandits, "hard": hard, "regression": regression, "million": million},
        sys.argv[1:],
    )
