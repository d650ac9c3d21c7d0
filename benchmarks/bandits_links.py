"""Where LinearBandit gains from a link: a linear and a logistic model of 0/1 rewards.

    python benchmarks/bandits_links.py [seeds] [from=SEED]

The worlds are those of calibration.py, with logistic means and weights for every action. Gain is
over blind choice, as a fraction of what there is to gain. Set OMP_NUM_THREADS=1.
"""

import sys
import warnings

import numpy as np
from calibration import calibration
from kit import CONSOLE, new_table, run, with_interval

from discreet.experiments.measure import grid

FIRST = 98000  # seed
SEEDS = 60
SETTINGS = (
    ("clicks", 1.0, 20_000),
    ("rare", 1.0, 50_000),
    ("even", 1.0, 50_000),
    ("even", 1.0, 200_000),
    ("steep", 1.0, 50_000),
    ("steep", 1.0, 200_000),
    ("steep", 3.0, 50_000),
)


def linked(*, seed: int, link: str, setting: tuple[str, float, int]) -> dict[str, float]:
    """One run: gain over all rounds, over the last fifth, and regret."""
    world, epsilon, rounds = setting
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that rounds are few
        found = calibration(seed=seed, world=world, epsilon=epsilon, rounds=rounds, link=link)
    fifths = np.asarray(found["fifths"])
    return {"gain": found["gain"], "last": float(fifths[-1]), "regret": found["regret"]}  # type: ignore[dict-item]


def main(seeds: int, first: int) -> None:
    links = ("identity", "logistic")
    found = run(grid(linked, seeds=range(first, first + seeds), link=links, setting=SETTINGS))
    table = new_table(
        f"With and without a link, {seeds} seeds from {first}",
        ("world", "epsilon", "rounds", "link", "gain", "last fifth", "10% of runs", "regret"),
    )
    for setting in SETTINGS:
        world, epsilon, rounds = setting
        for link in links:
            gain, last, regret = (
                found.over(linked, name, link=link, setting=setting)
                for name in ("gain", "last", "regret")
            )
            table.add_row(
                world,
                f"{epsilon:g}",
                f"{rounds:,}",
                link,
                f"{gain.mean():.3f}",
                f"{last.mean():.3f}",
                f"{np.quantile(last, 0.1):.2f}",
                with_interval(regret),
            )
    CONSOLE.print(table)


if __name__ == "__main__":
    start = next((int(each[5:]) for each in sys.argv[1:] if each.startswith("from=")), FIRST)
    main(next((int(each) for each in sys.argv[1:] if each.isdigit()), SEEDS), start)
