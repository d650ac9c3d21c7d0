"""Before any decision: the regret to expect of a private bandit, and when it beats chance.

The forecast is the learner itself, run on a stand-in for your world: no constant is fitted, and
whatever the learner does well or badly is in it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from discreet.bandits import LinearBandit
from discreet.environments import LinearWorld, linear_world
from discreet.experiments.planning import COLOURS
from discreet.privacy import SeededNoise
from discreet.privacy.checks import Array, finite, one_of, positive, whole, within

ACTIONS, NOISE = 10, 0.1  # unless told otherwise
MOST_ROUNDS = 10**7  # each is simulated
MOST_FEATURES = 400  # beyond, LinearBandit has no widths
POOL = 1e6  # numbers in the action sets that a run meets again and again
SECONDS = 10.0  # that a plan may take on one core, about
FEWEST_RUNS, MOST_RUNS = 4, 20
BETTER = 0.5  # of uniform's regret

Tick = Callable[[int], object]  # told how many rounds were simulated


@dataclass(frozen=True)
class Stream:
    """What is known before the first decision: all of it public.

    `features` is a dimension (actions spread evenly over the unit sphere, fresh every round); a
    public sample of rows (n, d) in the unit ball, from which actions are drawn; or public action
    sets (n, actions, d), one of which is drawn every round. Rewards lie in [-1, 1], their mean is
    linear in the features, of any direction; `gap` is how much more the best action is worth than
    the average one. With `clicks`, rewards are 0 or 1, so many of them 1 on average, and there is
    a constant beside the features.
    """

    features: Array | int
    rounds: int
    actions: int | None = None  # 10, or those of the sets
    noise: float | None = None  # deviation of a reward around its mean: 0.1, unless clicks
    delta: float = 1e-6  # under joint trust; local trust is pure
    contributions: int = 1  # rounds in which one person may appear
    gap: float | None = None  # the widest that there can be
    clicks: float | None = None

    def __post_init__(self) -> None:
        whole("rounds", self.rounds, least=100)
        if self.rounds > MOST_ROUNDS:
            raise ValueError(
                f"rounds must be at most {MOST_ROUNDS:,}, got {self.rounds:,}: each is simulated; "
                "plan for fewer, regret hardly grows after that"
            )
        if isinstance(self.features, np.ndarray):
            sample = within("features", finite("features", self.features), 1, norm="l2", clip=False)
            if sample.ndim not in (2, 3) or 0 in sample.shape:
                raise ValueError(
                    "features must be a dimension, rows (n, d) or action sets (n, actions, d); "
                    f"got shape {sample.shape}"
                )
            if sample.ndim == 3 and self.actions is not None:
                raise ValueError("the action sets have their actions already; leave out actions")
        else:
            whole("dim", self.features, least=2)
        if self.known > MOST_FEATURES:
            raise ValueError(f"a plan has at most {MOST_FEATURES} features, got {self.known}")
        whole("actions", self.offered, least=2)
        whole("contributions", self.contributions)
        if not 0 < self.delta < 1:
            raise ValueError(f"delta must lie between 0 and 1, got {self.delta!r}; try 1e-6")
        if self.noise is not None and positive("noise", self.noise) > 1:
            raise ValueError(f"noise is relative to the reward bound, at most 1; got {self.noise}")
        if self.clicks is not None and not 0 < self.clicks < 1:
            raise ValueError(f"clicks must lie between 0 and 1, got {self.clicks!r}")
        if self.clicks is not None and self.noise is not None:
            raise ValueError("clicks have the noise of yes and no; give clicks or noise, not both")
        if self.widest_gap < 1e-9:
            raise ValueError("all actions of the public sample look alike: nothing to choose from")
        if self.gap is not None and positive("gap", self.gap) > self.widest_gap:
            raise ValueError(
                f"gap must be at most {self.widest_gap:.2g} with such features and rewards, got "
                f"{self.gap:g}; it is in units of the reward bound"
            )

    @property
    def known(self) -> int:
        """Number of features, without the constant."""
        if isinstance(self.features, np.ndarray):
            return int(self.features.shape[-1])
        return self.features

    @property
    def dim(self) -> int:
        """Number of features that the learner sees."""
        return self.known + (self.clicks is not None)

    @property
    def offered(self) -> int:
        """Actions in a round."""
        if isinstance(self.features, np.ndarray) and self.features.ndim == 3:
            return int(self.features.shape[1])
        return ACTIONS if self.actions is None else self.actions

    @cached_property
    def widest_gap(self) -> float:
        """The gap when features matter as much as they can, on average over all directions.

        >>> round(Stream(5, 1000, actions=10).widest_gap, 2)
        0.66
        >>> round(Stream(5, 1000, actions=10, clicks=0.1).widest_gap, 3)
        0.066
        """
        rng = np.random.default_rng(0)
        directions = rng.standard_normal((self.known, 64))
        directions *= self._reach / np.linalg.norm(directions, axis=0)
        values = self._drawn(max(50, 20_000 // self.offered), rng) @ directions
        return float(np.mean(values.max(axis=1) - values.mean(axis=1)))

    @property
    def _reach(self) -> float:
        """How much the features can move the mean of a reward."""
        return 1.0 if self.clicks is None else min(self.clicks, 1 - self.clicks)

    def _drawn(self, n: int, rng: np.random.Generator) -> Array:  # -> (n, actions, known)
        features = self.features
        if not isinstance(features, np.ndarray):
            sphere = linear_world("sphere", dim=features, actions=self.offered, seed=0)
            return sphere.contexts(n, rng)
        places = rng.integers(len(features), size=n if features.ndim == 3 else (n, self.offered))
        return np.asarray(features[places])

    def contexts(self, n: int, rng: np.random.Generator) -> Array:  # -> (n, actions, dim)
        """Action sets of the stand-in, in the unit ball."""
        drawn = self._drawn(n, rng)
        if self.clicks is None:
            return drawn
        return np.concatenate([np.ones((n, self.offered, 1)), drawn], axis=2) / math.sqrt(2)

    def world(self, seed: int) -> LinearWorld:
        """A stand-in for the world; the seed decides its parameter."""
        theta = np.random.default_rng(seed).standard_normal(self.known)
        share = 1.0 if self.gap is None else self.gap / self.widest_gap
        theta *= share * self._reach / np.linalg.norm(theta)
        if self.clicks is None:
            noise = NOISE if self.noise is None else self.noise
            return LinearWorld("stand-in", theta, self.contexts, noise=noise)
        theta = math.sqrt(2) * np.append(self.clicks, theta)
        return LinearWorld("stand-in", theta, self.contexts, law="zero-one")


@dataclass(frozen=True)
class Forecast:
    """Regret against rounds, in several runs; rewards in units of their bound."""

    trust: str  # "joint", "local", or "none" without privacy
    epsilon: float
    rounds: Array  # (k,), from 0 to the horizon
    regret: Array  # (runs, k), the sum so far
    uniform: float  # regret of a uniform choice, per round

    @property
    def expected(self) -> float:
        """Regret at the horizon, on average."""
        return float(self.regret[:, -1].mean())

    @property
    def worst(self) -> float:
        """Regret at the horizon in the worst run."""
        return float(self.regret[:, -1].max())

    @property
    def share(self) -> float:
        """Expected regret at the horizon relative to that of a uniform choice."""
        return self.expected / (self.uniform * float(self.rounds[-1]))

    @property
    def better_after(self) -> float:
        """Rounds after which expected regret per round stays below half of uniform's.

        inf if it does not within the horizon.
        """
        per_round = np.diff(self.regret.mean(axis=0)) / np.diff(self.rounds)
        (late,) = np.nonzero(per_round >= BETTER * self.uniform)
        if len(late) == 0:
            return 0.0
        end = late[-1] + 1
        return math.inf if end == len(per_round) else float(self.rounds[end])


def forecast(
    stream: Stream,
    epsilon: float,
    *,
    trust: str = "joint",
    runs: int = MOST_RUNS,
    seed: int = 0,
    tick: Tick | None = None,
) -> Forecast:
    """Run `LinearBandit` on stand-ins for the world; epsilon = inf is without privacy.

    >>> plan = Stream(features=3, rounds=5000)
    >>> private, plain = forecast(plan, 1.0, runs=4), forecast(plan, math.inf, runs=4)
    >>> plain.expected < private.expected < 0.1 * private.uniform * 5000
    True
    >>> bool(private.better_after < 500)
    True
    """
    positive("epsilon", epsilon, allow_inf=True)
    one_of("trust", trust, ("joint", "local"))
    whole("runs", runs)
    marks = _marks(stream.rounds)
    regret, uniform = np.empty((runs, len(marks))), np.empty(runs)
    for run in range(runs):
        curve, uniform[run] = _simulated(stream, epsilon, trust, [seed, run], tick or _silent)
        regret[run] = curve[marks]
    name = "none" if math.isinf(epsilon) else trust
    return Forecast(name, float(epsilon), marks.astype(float), regret, float(uniform.mean()))


def _marks(rounds: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Where a curve is looked at: 0, and steps of about a quarter up to the horizon."""
    steps = np.geomspace(8, rounds, math.ceil(math.log(rounds / 8, 1.25)) + 1)
    return np.unique(np.append(0, np.rint(steps))).astype(np.int64)


def _silent(rounds: int) -> None:
    pass


def _simulated(
    stream: Stream, epsilon: float, trust: str, seeds: list[int], tick: Tick
) -> tuple[Array, float]:
    """Regret after 0, 1, 2, ... rounds of one run, and that of a uniform choice per round.

    The run meets the same action sets again and again, with fresh rewards; drawing new ones for
    every round would take longer than deciding.
    """
    number = int(np.random.SeedSequence(seeds).generate_state(1)[0])
    rng = np.random.default_rng([number, 1])
    world = stream.world(number)
    size = int(min(stream.rounds, max(1000, POOL // (stream.offered * stream.dim))))
    pool = world.contexts(size, rng)
    values = world.means(pool)
    losses = values.max(axis=1, keepdims=True) - values  # (size, actions)
    bandit = LinearBandit(
        stream.dim,
        stream.rounds,
        epsilon,
        stream.delta if trust == "joint" else None,
        trust=trust,
        reward_range=(-1.0, 1.0) if stream.clicks is None else (0.0, 1.0),
        contributions=stream.contributions,
        seed=number,
        noise=SeededNoise(number),
    )
    regret = np.zeros(stream.rounds + 1)
    done = 0
    while done < stream.rounds:
        start = done % size
        n = min(bandit.rounds_until_release, size - start, stream.rounds - done)
        decisions = bandit.decide_many(pool[start : start + n])
        bandit.learn_many(decisions, world.rewards(decisions.rows, rng))
        regret[done + 1 : done + n + 1] = losses[np.arange(start, start + n), decisions.action]
        done += n
        tick(n)
    return np.cumsum(regret), float(losses.mean())


# -- the command ----------------------------------------------------------------------------------


def run(stream: Stream, epsilons: Sequence[float], *, trust: str = "joint", out: Path) -> Path:
    """Simulate, print the table, save the figure, return its path."""
    one_of("trust", trust, ("joint", "local", "both"))
    trusts = ("joint", "local") if trust == "both" else (trust,)
    for epsilon in epsilons:
        positive("epsilon", epsilon)
    settings = [("joint", math.inf)]
    settings += [(model, e) for model in trusts for e in sorted(set(epsilons))]
    runs = _affordable(stream, settings)
    with _progress(len(settings) * runs * stream.rounds) as tick:
        forecasts = [forecast(stream, e, trust=model, runs=runs, tick=tick)
                     for model, e in settings]  # fmt: skip
    _table(stream, forecasts)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "plan.png"
    figure(path, stream, forecasts)
    print(f"\nFigure: {path}")
    return path


def _affordable(stream: Stream, settings: Sequence[tuple[str, float]]) -> int:
    """How many runs of each setting fit into the time; a function of the question alone."""
    one = 0.08 + stream.rounds * (5e-7 + 3e-9 * stream.offered * stream.dim)  # seconds
    all_once = sum(2 * one if trust == "local" else one for trust, _ in settings)
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


def _table(stream: Stream, forecasts: Sequence[Forecast]) -> None:
    from rich.console import Console
    from rich.table import Table

    plain = forecasts[0]
    what = "as public" if isinstance(stream.features, np.ndarray) else "on a sphere"
    rewards = f"noise {NOISE if stream.noise is None else stream.noise:g}"
    if stream.clicks is not None:
        rewards = f"{100 * stream.clicks:g}% clicks"
    table = Table(
        title=f"{stream.rounds:,} rounds, {stream.offered} actions, "
        f"{stream.known} features {what}, {rewards}",
        title_justify="left",
    )
    columns = ("trust", "epsilon", "better after", "regret", "worst", "share", "d/epsilon")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for line in forecasts:
        table.add_row(
            line.trust,
            "-" if line is plain else f"{line.epsilon:g}",
            "never" if math.isinf(line.better_after) else _digits(line.better_after),
            _digits(line.expected),
            _digits(line.worst),
            f"{_digits(100 * line.share)}%",
            _digits(_limit(stream, line.epsilon)) if line.trust == "joint" else "-",
            end_section=line is plain or line is forecasts[-1],
        )
    table.add_row("uniform", "-", "never", _digits(plain.uniform * stream.rounds), "-", "100%", "-")
    console = Console()
    console.print(table)
    often = stream.contributions > 1
    console.print(
        "better after: rounds after which expected regret per round stays below half of a uniform "
        "choice's. regret: what the best actions would have earned more by the end, in units of "
        f"the reward bound; mean of {len(plain.regret)} simulated runs. worst: of these. share: of "
        f"the regret of a uniform choice, which loses {plain.uniform:.2g} a round. none: without "
        "privacy. d/epsilon: scale of the least that privacy costs under joint trust"
        + (f", times {stream.contributions} contributions" if often else "")
        + ". The forecast is the learner itself on a stand-in for your world, no better than the "
        f"stand-in. delta = {stream.delta:g} (local: 0)."
    )


def _limit(stream: Stream, epsilon: float) -> float:
    return stream.dim * stream.contributions / epsilon


def _digits(value: float) -> str:
    """Two significant digits."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else np.format_float_positional(rounded, trim="-")


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
