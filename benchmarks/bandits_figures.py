"""Regret against rounds, epsilon and dimension: docs/bandits.png.

python benchmarks/bandits_figures.py [seeds]
"""

import sys
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
from bandits import Case, T, main, runs
from kit import CONSOLE, new_table

from discreet.experiments.statistics import interval

matplotlib.use("Agg")
import matplotlib.pyplot as plt

LEARNERS = {  # label, colour
    "continual tree": ("continual LinUCB, binary tree", "#b0b4ba"),
    "continual blt": ("continual LinUCB, buffered Toeplitz", "#d08c2f"),
    "private": ("LinearBandit", "#2f4b7c"),
    "LinUCB": ("LinUCB, not private", "#5b8e7d"),
}
ROUNDS = tuple(int(t) for t in np.unique(np.geomspace(50, T, 25).astype(int)))
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
DIMS = (2, 5, 10, 20, 40)
BASE = Case("private", dim=10)


def cases(name: str) -> dict[str, list[Case]]:
    """What each panel shows, with one case for each of its points; the first is a curve."""
    case = replace(BASE, learner=name)
    by_epsilon = [replace(case, epsilon=epsilon) for epsilon in EPSILONS]
    if name == "LinUCB":
        by_epsilon = [case] * len(EPSILONS)
    return {
        "rounds": [replace(case, marks=ROUNDS)],
        "epsilon": by_epsilon,
        "dimension": [replace(case, dim=d) for d in DIMS],
    }


def figures(seeds: int) -> None:
    wanted = {name: cases(name) for name in LEARNERS}
    everything = [case for panels in wanted.values() for panel in panels.values() for case in panel]
    draw(wanted, runs(everything, seeds), seeds)


def points(panel: list[Case], found: dict[Case, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and half width of the band, along the panel's axis."""
    columns = [column for case in panel for column in found[case].T]
    mean, half = np.array([interval(column) for column in columns]).T
    return mean, half


def draw(wanted, found: dict[Case, np.ndarray], seeds: int) -> None:
    d = BASE.dim
    epsilon = BASE.epsilon
    axes = {
        "rounds": ("rounds", ROUNDS, np.full(len(ROUNDS), d / epsilon), f"d = {d}, epsilon = 1"),
        "epsilon": ("epsilon", EPSILONS, d / np.array(EPSILONS), f"d = {d}, {T:,} rounds"),
        "dimension": ("d", DIMS, np.array(DIMS) / epsilon, f"epsilon = 1, {T:,} rounds"),
    }
    picture, places = plt.subplots(1, 3, figsize=(13, 4.3), sharey=True)
    for place, (panel, (label, x, limit, title)) in zip(places, axes.items(), strict=True):
        table = new_table(f"Regret against {label}, {seeds} seeds", ("", *(f"{v:,}" for v in x)))
        for name, (legend, colour) in LEARNERS.items():
            mean, half = points(wanted[name][panel], found)
            mark = {"marker": "o", "markersize": 3.5} if len(x) < 10 else {}
            place.plot(x, mean, color=colour, label=legend, linewidth=1.8, **mark)
            place.fill_between(x, np.maximum(mean - half, 0.5), mean + half, color=colour,
                               alpha=0.2, linewidth=0)  # fmt: skip
            table.add_row(name, *(f"{m:,.0f}" for m in mean))
        place.plot(x, limit, color="black", linestyle=(0, (4, 3)), linewidth=1,
                   label="d / epsilon, the lower bound's privacy term")  # fmt: skip
        place.set(xscale="log", yscale="log", xlabel=label, ylim=(0.8, 20_000))
        if len(x) < 10:
            place.set_xticks(x, [f"{v:g}" for v in x])
            place.minorticks_off()
        place.set_title(title, fontsize=10)
        place.grid(alpha=0.25, linewidth=0.6)
        place.spines[["top", "right"]].set_visible(False)
        if label != "rounds":
            CONSOLE.print(table)
    places[0].set_ylabel("regret")
    handles, labels = places[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="lower center", ncols=5, frameon=False, fontsize=9)
    picture.tight_layout(rect=(0, 0.07, 1, 1))
    path = Path(__file__).parents[1] / "docs" / "bandits.png"
    picture.savefig(path, dpi=150)
    CONSOLE.print(f"Figure: docs/{path.name}")


if __name__ == "__main__":
    main({"figures": figures}, sys.argv[1:])
