"""The forecast of a bandit as people read it: a table and a figure."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import numpy as np

from discreet.arrays import one_of, positive
from discreet.experiments.bandit_forecast import (
    MOST_RUNS,
    NOISE,
    Forecast,
    Stream,
    Tick,
    forecast,
)
from discreet.experiments.regression_forecast import COLOURS
from discreet.experiments.sheet import Files, Sheet
from discreet.words import rough

SECONDS = 20.0  # that a forecast may take on one core, about
FEWEST_RUNS = 6
# Of a dimension alone: what other worlds of the benchmark measured, relative to the sphere.
SPHERE = (
    "From the number of features alone it takes actions spread evenly over a sphere: other worlds "
    "had half to three times its regret, outside of these intervals; give public actions. "
)
COST = {"joint": 1, "shuffled": 6, "local": 2}  # of a simulation, in units of joint trust's


def run(stream: Stream, epsilons: Sequence[float], *, trust: str = "joint", files: Files) -> None:
    """Simulate, print the table, save the figure and what else is asked for."""
    one_of("trust", trust, ("joint", "shuffled", "local", "both", "all"))
    trusts = {"both": ("joint", "local"), "all": tuple(COST)}.get(trust, (trust,))
    for epsilon in epsilons:
        positive("epsilon", epsilon)
    settings = [("joint", math.inf)]
    settings += [(model, e) for model in trusts for e in sorted(set(epsilons))]
    runs = _affordable(stream, settings)
    files.prepare()
    with _progress(len(settings) * runs * stream.rounds) as tick:
        forecasts = [forecast(stream, e, trust=model, runs=runs, tick=tick)
                     for model, e in settings]  # fmt: skip
    figure(files.figure, stream, forecasts)
    _sheet(stream, forecasts).tell(files)


def _affordable(stream: Stream, settings: Sequence[tuple[str, float]]) -> int:
    """How many runs of each setting fit into the time; a function of the question alone."""
    one = 0.05 + stream.rounds * (5e-7 + 3e-9 * stream.offered * stream.dim)  # seconds
    all_once = sum(COST[trust] * one for trust, _ in settings)
    return int(min(max(SECONDS // all_once, FEWEST_RUNS), MOST_RUNS))


@contextmanager
def _progress(total: int) -> Iterator[Tick]:
    """A bar while rounds are simulated, on a terminal only."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("simulating", total=total)
        yield lambda rounds: progress.advance(task, rounds)


def _sheet(stream: Stream, forecasts: Sequence[Forecast]) -> Sheet:
    plain = forecasts[0]
    public = isinstance(stream.features, np.ndarray)
    rewards = f"noise {NOISE if stream.noise is None else stream.noise:g}"
    if stream.clicks is not None:
        rewards = f"{100 * stream.clicks:g}% clicks"
    rows = [
        [
            line.trust,
            "-" if line is plain else f"{line.epsilon:g}",
            "never" if math.isinf(line.better_after) else rough(line.better_after),
            rough(line.median),
            "-".join(map(rough, line.interval)),
            f"{rough(100 * line.fraction)}%",
            rough(_limit(stream, line.epsilon)) if line.trust == "joint" else "-",
        ]
        for line in forecasts
    ]
    blind = rough(plain.uniform * stream.rounds)
    rows.append(["uniform", "-", "never", blind, "-", "100%", "-"])
    often = stream.contributions > 1
    note = (
        "better after: rounds after which expected regret per round stays below half of a uniform "
        "choice's. regret: what the best actions would have earned more by the end, in units of "
        f"the reward bound, in half of {len(plain.regret)} simulated runs less. one run: 19 in 20 "
        "have a regret in between. fraction: their mean (one that goes wrong can double it), of "
        f"the regret of a uniform choice, which loses {plain.uniform:.2g} a round. none: "
        "without privacy. d/epsilon: scale of the least that privacy costs under joint trust"
        + (f", times {stream.contributions} contributions" if often else "")
        + (f"; {stream.people:,} people, {stream.visits} visits count" if stream.people else "")
        + ". The forecast is the learner itself on a stand-in for your world, no better than the "
        f"stand-in. {'' if public else SPHERE}delta = {stream.delta:g} (local: 0)."
    )
    return Sheet(
        title=f"{stream.rounds:,} rounds, {stream.offered} actions, "
        f"{stream.known} features {'as public' if public else 'on a sphere'}, {rewards}",
        columns=("trust", "epsilon", "better after", "regret", "one run", "fraction", "d/epsilon"),
        rows=rows,
        lines=(0, len(forecasts) - 1),
        note=note,
        caption="Regret so far against rounds: mean of the runs, with the least and the largest. "
        "Both axes are logarithmic.",
        question={each.name: getattr(stream, each.name) for each in fields(stream)},
        answers=[
            {
                "trust": line.trust,
                "epsilon": line.epsilon,
                "better_after": line.better_after,
                "regret": line.median,
                "low": line.interval[0],
                "high": line.interval[1],
                "mean": line.expected,
                "worst": line.worst,
                "fraction": line.fraction,
                "runs": len(line.regret),
                "rounds": line.rounds.tolist(),
                "mean_regret": line.regret.mean(axis=0).tolist(),
            }
            for line in forecasts
        ],
    )


def _limit(stream: Stream, epsilon: float) -> float:
    return stream.dim * stream.contributions / epsilon


def figure(path: Path, stream: Stream, forecasts: Sequence[Forecast]) -> None:
    """Regret against rounds: private, without privacy, and a uniform choice."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plain, *private = forecasts
    trusts = list(dict.fromkeys(line.trust for line in private))
    picture, axes = plt.subplots(
        1, len(trusts), figsize=(6.2 * len(trusts), 4.2), constrained_layout=True, squeeze=False,
        sharey=True,
    )  # fmt: skip
    t = plain.rounds[1:]
    for axis, trust in zip(axes[0], trusts, strict=True):
        axis.loglog(t, plain.uniform * t, ":", color="grey", label="uniform choice")
        axis.loglog(t, plain.regret.mean(axis=0)[1:], color="black", label="without privacy")
        lines = [line for line in private if line.trust == trust]
        for line, colour in zip(lines, COLOURS * len(lines), strict=False):
            curves = line.regret[:, 1:]
            label = f"epsilon = {line.epsilon:g}"
            axis.loglog(t, curves.mean(axis=0), color=colour, label=label)
            axis.fill_between(t, curves.min(axis=0), curves.max(axis=0), color=colour, alpha=0.2,
                              linewidth=0)  # fmt: skip
        axis.set(xlabel="rounds", title=f"{trust} trust")
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False)
    axes[0, 0].set_ylabel("regret so far")
    picture.savefig(path, dpi=110)
    plt.close(picture)
