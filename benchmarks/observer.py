"""What an observer can guess, by the budget: docs/observer.svg. Computed, nothing is measured.

python benchmarks/observer.py
"""

import math
from pathlib import Path

import matplotlib
import numpy as np
from kit import CONSOLE, new_table
from scipy.stats import norm

from discreet.privacy import gaussian_mu

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FIGURE = Path(__file__).parents[1] / "docs" / "observer.svg"
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
DELTA = 1e-6
BLUE = "#0072B2"
ORANGE = "#D55E00"


def promised(epsilon: float) -> float:
    """The chance of a right guess that epsilon allows, where both stories were equally likely."""
    return 1 / (1 + math.exp(-epsilon))


def gaussian(epsilon: float) -> float:
    """The same for Gaussian noise of that (epsilon, delta): Phi(mu / 2) is the best guess's."""
    return float(norm.cdf(gaussian_mu(epsilon, DELTA) / 2))


def main() -> None:
    table = new_table("A right guess, at most", ["epsilon", "any noise", "Gaussian noise"])
    for epsilon in EPSILONS:
        table.add_row(f"{epsilon:g}", f"{promised(epsilon):.3%}", f"{gaussian(epsilon):.3%}")
    CONSOLE.print(table)
    draw()


def draw() -> None:
    plt.rcParams.update({"svg.hashsalt": "discreet", "font.size": 10, "axes.spines.top": False})
    picture, (left, right) = plt.subplots(1, 2, figsize=(9, 3.3), layout="constrained")
    z = np.linspace(-4, 5, 400)
    mu = gaussian_mu(1.0, DELTA)
    for shift, colour, label in ((0.0, BLUE, "Ada said yes"), (mu, ORANGE, "Ada said no")):
        density = norm.pdf(z - shift)
        left.plot(z, density, color=colour, label=label)
        left.fill_between(z, density, color=colour, alpha=0.12)
    left.set(title="What is published, under two stories (epsilon = 1)", yticks=[], ylim=(0, 0.52))
    left.set_xlabel("published value, in standard deviations of its noise")
    left.legend(frameon=False, loc="upper right")

    grid = np.geomspace(0.05, 12, 200)
    right.plot(grid, [promised(e) for e in grid], color="#444444", label="the most epsilon allows")
    right.plot(
        grid, [gaussian(e) for e in grid], "--", color=BLUE, label="Gaussian noise, delta = 1e-6"
    )
    for epsilon in EPSILONS:
        chance = promised(epsilon)
        right.plot(epsilon, chance, "o", color="#444444")
        words = f"{chance:.0%}" if chance < 0.99 else "99.995%"
        right.annotate(words, (epsilon, chance), (-6, 6), textcoords="offset points", ha="right")
    right.set(xscale="log", ylim=(0.48, 1.08), xlabel="epsilon", xticks=EPSILONS)
    right.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    right.minorticks_off()
    right.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    right.set_title("How often the best guess is right")
    right.axhline(0.5, color="#999999", lw=0.8, ls=":")
    right.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, 0.96))
    for axis in (left, right):
        axis.spines["right"].set_visible(False)
    picture.savefig(FIGURE, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main()
