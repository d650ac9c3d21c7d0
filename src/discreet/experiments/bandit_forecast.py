"""Before any decision: the regret to expect of a private bandit, and when it beats chance.

The forecast is the learner itself, run on a stand-in for your world: no constant is fitted, and
whatever the learner does well or badly is in it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from discreet.arrays import Array, finite, integer, one_of, positive, within
from discreet.bandits import LinearBandit, People
from discreet.environments import play
from discreet.environments.linear import LinearWorld, linear_world
from discreet.experiments.sheet import Setting, Sheet, Tick
from discreet.experiments.statistics import one_more
from discreet.privacy import SeededNoise
from discreet.words import rough

ACTIONS = 10  # in a round, by default
NOISE = 0.1  # of rewards, by default
SIGNS = 0.9  # noise from which on rewards are +1 or -1
MOST_ROUNDS = 10**7  # each is simulated
MOST_FEATURES = 150  # simulating takes time that grows with their cube: beyond, minutes
POOL = 1e6  # numbers in the action sets that a run meets again and again
BETTER = 0.5  # of uniform's regret
MOST_RUNS = 60  # of the learner: their median is off by a tenth, where single runs differ by half
FEWEST_RUNS = 6
SECONDS = 20.0  # that a forecast may take on one core, about
COST = {"none": 1, "joint": 1, "shuffled": 6, "local": 2}  # of a simulation, relative to joint's

# Of a dimension alone: what other worlds of the benchmark measured, relative to the sphere.
SPHERE = (
    "From the number of features alone it takes actions spread evenly over a sphere: other worlds "
    "had half to three times its regret, outside of these intervals; give public actions. "
)


@dataclass(frozen=True)
class Stream:
    """What is known before the first decision: all of it public.

    `features` is a dimension (actions spread evenly over the unit sphere, fresh every round); a
    public sample of rows (n, d) in the unit ball, of which every round has different ones, drawn
    at random (as many rows as actions: the same actions every round); or public action sets
    (n, actions, d), one of which is drawn every round. Rewards lie in [-1, 1], their mean is
    linear in the features, of any direction; `gap` is how much more the best action is worth than
    the average one. With `clicks`, rewards are 0 or 1, so many of them 1 on average, and there is
    a constant beside the features. With `people`, so many come again and again, at random, and all
    that one of them ever does is protected: `visits` says which of their rewards count.
    """

    features: Array | int  # dimension, rows or action sets, as above
    rounds: int  # decisions in all
    actions: int | None = None  # 10 or as many as there are rows, or those of the sets
    noise: float | None = None  # std of a reward around its mean: 0.1, unless clicks; 1: +1 or -1
    delta: float = 1e-6  # of joint and shuffled trust; local trust is pure
    contributions: int = 1  # rounds in which one person may appear
    gap: float | None = None  # the widest that there can be
    clicks: float | None = None  # fraction of rewards that are 1
    people: int | None = None  # who come again and again; None: a round is protected
    visits: str = "first"  # of a person that count, or "all"

    trusts: ClassVar[tuple[str, ...]] = ("joint", "shuffled", "local")
    axes: ClassVar[tuple[str, str]] = ("rounds", "regret so far")

    def __post_init__(self) -> None:
        integer("rounds", self.rounds, least=100)
        if self.rounds > MOST_ROUNDS:
            raise ValueError(
                f"rounds must be at most {MOST_ROUNDS:,}, got {self.rounds:,}: each is simulated; "
                "forecast fewer, regret hardly grows after that"
            )
        self._check_features()
        integer("contributions", self.contributions)
        if self.people is not None and integer("people", self.people) and self.contributions > 1:
            raise ValueError("people are protected with all their rounds: leave out contributions")
        if not 0 < self.delta < 1:
            raise ValueError(f"delta must lie between 0 and 1, got {self.delta!r}; try 1e-6")
        if self.noise is not None and positive("noise", self.noise) > 1:
            raise ValueError(f"noise is relative to the reward bound, at most 1; got {self.noise}")
        if self.clicks is not None:
            if not 0 < self.clicks < 1:
                raise ValueError(f"clicks must lie between 0 and 1, got {self.clicks!r}")
            if self.noise is not None:
                raise ValueError(
                    "clicks have the noise of yes and no; give clicks or noise, not both"
                )
        if self.widest_gap < 1e-9:
            raise ValueError("all actions of the public sample look alike: nothing to choose from")
        if self.gap is not None and positive("gap", self.gap) > self.widest_gap:
            raise ValueError(
                f"gap must be at most {self.widest_gap:.2g} with such features and rewards, got "
                f"{self.gap:g}; it is in units of the reward bound"
            )

    def _check_features(self) -> None:
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
            integer("dim", self.features, least=2)
        if self.known > MOST_FEATURES:
            raise ValueError(
                f"a forecast has at most {MOST_FEATURES} features, got {self.known}: it simulates "
                "the bandit, and that takes too long; forecast fewer, and expect regret to grow at "
                "least as fast as their number"
            )
        integer("actions", self.offered, least=2)
        if isinstance(self.features, np.ndarray) and self.offered > self.features.shape[-2]:
            raise ValueError(
                f"a round has {self.offered} different actions, and the public sample only "
                f"{len(self.features)} rows: give more rows, or fewer actions"
            )

    @property
    def known(self) -> int:
        """Number of features, without the constant."""
        features = self.features
        return int(features.shape[-1]) if isinstance(features, np.ndarray) else features

    @property
    def dim(self) -> int:
        """Number of features that the learner sees."""
        return self.known + (self.clicks is not None)

    @property
    def offered(self) -> int:
        """Actions in a round."""
        if not isinstance(self.features, np.ndarray):
            return ACTIONS if self.actions is None else self.actions
        available = int(self.features.shape[-2])  # rows, or actions of a set
        if self.features.ndim == 3:
            return available
        return min(ACTIONS, available) if self.actions is None else self.actions

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
        directions *= self._largest_effect / np.linalg.norm(directions, axis=0)
        values = self._drawn(max(50, 20_000 // self.offered), rng) @ directions
        return float(np.mean(values.max(axis=1) - values.mean(axis=1)))

    @property
    def _largest_effect(self) -> float:
        """How much the features can move the mean of a reward."""
        return 1.0 if self.clicks is None else min(self.clicks, 1 - self.clicks)

    def _drawn(self, n: int, rng: np.random.Generator) -> Array:  # -> (n, actions, known)
        features = self.features
        if not isinstance(features, np.ndarray):
            sphere = linear_world("sphere", dim=features, actions=self.offered, seed=0)
            return sphere.people(n, rng).features
        if features.ndim == 3:
            return np.asarray(features[rng.integers(len(features), size=n)])
        return np.asarray(features[_different(len(features), n, self.offered, rng)])

    def contexts(self, n: int, rng: np.random.Generator) -> Array:  # -> (n, actions, dim)
        """Action sets of the stand-in, in the unit ball."""
        drawn = self._drawn(n, rng)
        if self.clicks is None:
            return drawn
        return np.concatenate([np.ones((n, self.offered, 1)), drawn], axis=2) / math.sqrt(2)

    def world(self, seed: int) -> LinearWorld:
        """A stand-in for the world; the seed decides its parameter."""
        # Tagged: the bandit's coins have the same seed, and know nothing of theta.
        theta = np.random.default_rng([seed, 3]).standard_normal(self.known)
        fraction = 1.0 if self.gap is None else self.gap / self.widest_gap
        theta *= fraction * self._largest_effect / np.linalg.norm(theta)
        if self.clicks is None:
            noise = NOISE if self.noise is None else self.noise
            # Within [-1, 1] nothing but +1 and -1 is so noisy.
            kind = "sign" if noise >= SIGNS else "gaussian"
            return LinearWorld("stand-in", theta, self.contexts, self.offered, kind, noise)
        theta = math.sqrt(2) * np.append(self.clicks, theta)
        return LinearWorld("stand-in", theta, self.contexts, self.offered, distribution="zero-one")

    # -- as people read it -------------------------------------------------------------------------

    def runs(self, settings: Sequence[Setting]) -> int:
        """How many runs of each setting fit into the time: a function of the question alone."""
        one = 0.05 + self.rounds * (5e-7 + 3e-9 * self.offered * self.dim)  # seconds
        all_once = sum(COST[trust] * one for trust, _ in settings)
        return int(min(max(SECONDS // all_once, FEWEST_RUNS), MOST_RUNS))

    def work(self, settings: Sequence[Setting]) -> int:
        """Rounds to simulate."""
        return len(settings) * self.runs(settings) * self.rounds

    def answers(self, settings: Sequence[Setting], tick: Tick) -> "list[Forecast]":
        """A forecast for each setting."""
        runs = self.runs(settings)
        return [
            forecast(self, e, trust="joint" if trust == "none" else trust, runs=runs, tick=tick)
            for trust, e in settings
        ]

    def sheet(self, forecasts: "Sequence[Forecast]") -> Sheet:
        """The table; its first line is without privacy."""
        plain = forecasts[0]
        public = isinstance(self.features, np.ndarray)
        rewards = f"noise {NOISE if self.noise is None else self.noise:g}"
        if self.clicks is not None:
            rewards = f"{100 * self.clicks:g}% clicks"
        blind = rough(plain.uniform * self.rounds)
        limits = [
            rough(self.dim * self.contributions / line.epsilon) if line.trust == "joint" else "-"
            for line in forecasts
        ]
        often = self.contributions > 1
        note = (
            "better after: rounds after which expected regret per round stays below half of a "
            "uniform choice's. regret: what the best actions would have earned more by the end, in "
            f"units of the reward bound, in half of {len(plain.regret)} simulated runs less. one "
            "run: 19 in 20 have a regret in between. fraction: their mean (one that goes wrong can "
            "double it), of the regret of a uniform choice, which loses "
            f"{plain.uniform:.2g} a round. none: without privacy. d/epsilon: scale of the least "
            "that privacy costs under joint trust"
            + (f", times {self.contributions} contributions" if often else "")
            + (f"; {self.people:,} people, {self.visits} visits count" if self.people else "")
            + ". The forecast is the learner itself on a stand-in for your world, no better than "
            f"the stand-in. {'' if public else SPHERE}delta = {self.delta:g} (local: 0)."
        )
        return Sheet(
            title=f"{self.rounds:,} rounds, {self.offered} actions, "
            f"{self.known} features {'as public' if public else 'on a sphere'}, {rewards}",
            columns=("trust", "epsilon", "better after", "regret", "one run", "fraction",
                     "d/epsilon"),
            rows=[
                *((*line.row, limit) for line, limit in zip(forecasts, limits, strict=True)),
                ("uniform", "-", "never", blind, "-", "100%", "-"),
            ],
            lines=(0, len(forecasts) - 1),
            note=note,
            caption="Regret so far against rounds: mean of the runs, with the least and the "
            "largest. Both axes are logarithmic.",
            question={each.name: getattr(self, each.name) for each in fields(self)},
            answers=[line.record for line in forecasts],
        )  # fmt: skip

    def draw(self, axis: Any, trust: str, forecasts: "Sequence[Forecast]", tick: Tick) -> None:
        """Regret against rounds: private, without privacy, and a uniform choice."""
        from discreet.experiments.figures import colour_of

        plain = forecasts[0]
        t = plain.rounds[1:]
        axis.plot(t, plain.uniform * t, ":", color="grey", label="uniform choice")
        axis.plot(t, plain.regret.mean(axis=0)[1:], color="black", label="without privacy")
        lines = [line for line in forecasts if line.trust == trust]
        for line in lines:
            colour = colour_of(line.epsilon)
            curves = line.regret[:, 1:]
            axis.plot(t, curves.mean(axis=0), color=colour, label=f"epsilon = {line.epsilon:g}")
            ends = curves.min(axis=0), curves.max(axis=0)
            axis.fill_between(t, *ends, color=colour, alpha=0.2, linewidth=0)


@dataclass(frozen=True)
class Forecast:
    """Regret against rounds, in several runs; rewards in units of their bound."""

    trust: str  # "joint", "shuffled", "local", or "none" without privacy
    epsilon: float  # inf without privacy
    rounds: Array  # (k,), from 0 to the horizon
    regret: Array  # (runs, k), the sum so far
    uniform: float  # regret of a uniform choice, per round

    @property
    def expected(self) -> float:
        """Regret at the horizon, on average: a run in a hundred that goes wrong can double it."""
        return float(self.regret[:, -1].mean())

    @property
    def median(self) -> float:
        """Regret at the horizon: half of the runs have less."""
        return float(np.median(self.regret[:, -1]))

    @property
    def interval(self) -> tuple[float, float]:
        """Where the regret of one more run lies, with probability .95."""
        return one_more(self.regret[:, -1])

    @property
    def worst(self) -> float:
        """Regret at the horizon in the worst run."""
        return float(self.regret[:, -1].max())

    @property
    def fraction(self) -> float:
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

    @property
    def row(self) -> tuple[str, ...]:
        """As a table shows it."""
        after = self.better_after
        return (
            self.trust,
            "-" if math.isinf(self.epsilon) else f"{self.epsilon:g}",
            "never" if math.isinf(after) else rough(after),
            rough(self.median),
            "-".join(map(rough, self.interval)),
            f"{rough(100 * self.fraction)}%",
        )

    @property
    def record(self) -> dict[str, Any]:
        """All numbers, plain."""
        low, high = self.interval
        return {
            "trust": self.trust,
            "epsilon": self.epsilon,
            "better_after": self.better_after,
            "regret": self.median,
            "low": low,
            "high": high,
            "mean": self.expected,
            "worst": self.worst,
            "fraction": self.fraction,
            "runs": len(self.regret),
            "rounds": self.rounds.tolist(),
            "mean_regret": self.regret.mean(axis=0).tolist(),
        }


def forecast(
    stream: Stream,
    epsilon: float,
    *,
    trust: str = "joint",
    runs: int = MOST_RUNS,
    seed: int = 0,
    tick: Tick = lambda rounds: None,
) -> Forecast:
    """Run `LinearBandit` on stand-ins for the world; epsilon = inf is without privacy.

    >>> stream = Stream(features=3, rounds=5000)
    >>> private, plain = forecast(stream, 1.0, runs=4), forecast(stream, math.inf, runs=4)
    >>> plain.expected < private.expected < 0.1 * private.uniform * 5000
    True
    >>> bool(private.better_after < 500)
    True
    """
    positive("epsilon", epsilon, allow_inf=True)
    one_of("trust", trust, ("joint", "shuffled", "local"))
    if trust != "joint" and stream.people is not None:
        raise ValueError(f"{trust} trust protects reports: say contributions in place of people")
    integer("runs", runs)
    marks = _marks(stream.rounds)
    regret = np.empty((runs, len(marks)))
    uniform = np.empty(runs)
    for run in range(runs):
        curve, uniform[run] = _simulated(stream, epsilon, trust, [seed, run], tick)
        regret[run] = curve[marks]
    name = "none" if math.isinf(epsilon) else trust
    return Forecast(name, float(epsilon), marks.astype(float), regret, float(uniform.mean()))


def _different(
    rows: int, n: int, k: int, rng: np.random.Generator
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """k different ones of so many rows, n times, every choice as likely: (n, k)."""
    places = np.empty((n, 0), dtype=np.int64)
    for taken in range(k):
        place = rng.integers(rows - taken, size=n)  # among those that are left,
        for earlier in np.sort(places, axis=1).T:
            place += place >= earlier  # counted past those that are not
        places = np.column_stack([places, place])
    return places


def _marks(rounds: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Where a curve is looked at: 0, and steps of about a quarter up to the horizon."""
    steps = np.geomspace(8, rounds, math.ceil(math.log(rounds / 8, 1.25)) + 1)
    return np.unique(np.append(0, np.rint(steps))).astype(np.int64)


def _simulated(
    stream: Stream, epsilon: float, trust: str, seeds: list[int], tick: Tick
) -> tuple[Array, float]:
    """Regret after 0, 1, 2, ... rounds of one run, and that of a uniform choice per round."""
    number = int(np.random.SeedSequence(seeds).generate_state(1)[0])
    rng = np.random.default_rng([number, 1])
    world = stream.world(number)
    size = int(min(stream.rounds, max(1000, POOL // (stream.offered * stream.dim))))
    pool = world.people(size, rng)
    bandit = LinearBandit(
        stream.dim,
        stream.rounds,
        epsilon,
        None if trust == "local" else stream.delta,
        trust=trust,
        reward_range=world.reward_range,
        people=(
            People(rounds=stream.contributions)
            if stream.people is None
            else People(visits=stream.visits)
        ),
        seed=number,
        noise=SeededNoise(number),
    )
    everybody = stream.people or 0
    coming = np.random.default_rng([number, 2])

    def visitors(n: int) -> list[int]:
        return [int(each) for each in coming.integers(everybody, size=n)]

    who = visitors if everybody else None
    played = play(bandit, world, stream.rounds, seed=rng, progress=tick, pool=pool, who=who)
    uniform = float(np.mean(pool.best[:, None] - pool.means))
    return np.cumsum(np.append(0.0, played.regret)), uniform
