"""What a look at an experiment shows: intervals, p-values, verdicts. Computed from releases alone.

Of alpha = 1 - confidence, what bounds the variances has the part MEANS, half of it the means of
all arms and half the means of y (1 - y), and the differences of all pairs of arms have the rest,
in equal parts: with probability `confidence` everything that is shown about one metric holds at
all looks.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.evaluation.intervals import (
    SPREAD,
    Bets,
    Difference,
    Interval,
    Mean,
    difference,
    largest_variance,
)
from discreet.state import value

MEANS = 0.1  # no p-value is less than this part of alpha
TOP = 0.25  # of y (1 - y)
COUNTED = 0.1  # a batch counts if sampling varies by more than so much of the noise's variance
FACTOR, SCALES = 8.0, 7  # bets for 8, 64, ... times the first batch's variance
RELEASES = 12.0  # of a bandit's windows, which grow by half, count up to a horizon


@value
@dataclass(frozen=True)
class Released:
    """One release: of a batch, or of all batches so far."""

    sizes: tuple[int, ...]  # people in each arm, public
    sums: Array  # (arms, metrics), of values scaled to [0, 1], with noise
    stds: tuple[float, ...]  # of the noise in them, for each metric
    spreads: Array  # (arms, metrics), of y (1 - y), with 1 / SPREAD times that noise


@dataclass(frozen=True)
class Metric:
    """What is known of one metric, in its own units."""

    arms: dict[str, Interval]  # its mean in each arm
    differences: dict[tuple[str, str], Interval]  # first minus second
    p_values: dict[tuple[str, str], float]  # of no difference, valid under peeking
    higher_is_better: bool  # or lower

    def __getitem__(self, arm: str) -> Interval:
        return self.arms[arm]

    def difference(self, arm: str, other: str) -> Interval:
        """The mean in one arm minus that in another."""
        if (arm, other) in self.differences:
            return self.differences[arm, other]
        found = self.differences[other, arm]
        return Interval(-found.estimate, -found.high, -found.low)

    def p_value(self, arm: str, other: str) -> float:
        """At all looks together it is below any x with probability x at most, if arms are alike.

        Adjusted for all pairs of arms: below 1 - confidence where the interval excludes 0.
        """
        pair = (arm, other)
        return self.p_values[pair if pair in self.p_values else (other, arm)]

    def beats(self, arm: str, other: str) -> bool:
        """Whether an arm is proved to be better."""
        found = self.difference(arm, other)
        return found.low > 0 if self.higher_is_better else found.high < 0


@dataclass(frozen=True)
class Look:
    """What was known after so many looks; all from released numbers, safe to publish."""

    number: int  # 1 for the first
    people: dict[str, int]  # in each arm
    metrics: dict[str, Metric]  # by name; the first is the one that decides, the others guard
    sample_ratio_p_value: float  # of the declared split; small: people are lost on the way
    confidence: float  # that all intervals of a metric hold at all looks

    def __getitem__(self, metric: str) -> Metric:
        return self.metrics[metric]

    @property
    def winners(self) -> tuple[tuple[str, str], ...]:
        """Pairs of arms: the first beats the second in the main metric."""
        main = next(iter(self.metrics.values()))
        return tuple(pair for pair in itertools.permutations(self.people, 2) if main.beats(*pair))

    @property
    def broken(self) -> tuple[tuple[str, str, str], ...]:
        """Guardrails that are proved to be worse than in the first arm: metric, arm, first arm."""
        guards = list(self.metrics.items())[1:]
        control, *others = self.people
        return tuple(
            (name, arm, control)
            for name, metric in guards
            for arm in others
            if metric.beats(control, arm)
        )

    @property
    def verdicts(self) -> tuple[str, ...]:
        said = [f"{one} beats {other}" for one, other in self.winners]
        said = said or ["no difference is proved"]
        broken = [f"{name} is worse in {bad} than in {good}" for name, bad, good in self.broken]
        if len(self.metrics) > 1:
            said += broken or ["no guardrail broken"]
        if self.sample_ratio_p_value < 0.001:
            said.append("the arms are not filled as declared: look for people who got lost")
        return tuple(said)

    def to_dict(self) -> dict[str, Any]:
        metrics = {
            name: {
                "arms": {arm: _plain(each) for arm, each in metric.arms.items()},
                "differences": [
                    {"arm": a, "minus": b, **_plain(each), "p_value": metric.p_values[a, b]}
                    for (a, b), each in metric.differences.items()
                ],
                "higher_is_better": metric.higher_is_better,
            }
            for name, metric in self.metrics.items()
        }
        return {
            "look": self.number,
            "people": dict(self.people),
            "metrics": metrics,
            "sample_ratio_p_value": self.sample_ratio_p_value,
            "confidence": self.confidence,
            "verdicts": list(self.verdicts),
        }

    def __str__(self) -> str:
        return f"look {self.number}: " + "; ".join(self.verdicts)


def _plain(interval: Interval) -> dict[str, float]:
    return {"estimate": interval.estimate, "low": interval.low, "high": interval.high}


def counts(people: float, std: float) -> bool:
    """Whether a batch of so many in its smallest group says more than it adds noise."""
    return people / 4 >= COUNTED * std * std


class Reader:
    """Reads the releases of one metric, one after the other.

    looks    so many at most, each of everybody so far and with a bound of its own; 0: batches, in
             one process for any number of them
    alpha    chance that anything shown is wrong
    arms     how many
    people   in the smallest arm at the end, if that is known: intervals are narrow there
    """

    def __init__(self, looks: int, alpha: float, arms: int, people: float | None = None) -> None:
        self.looks = looks
        self.alpha = alpha
        self.arms = arms
        self.people = people
        self.bets = Bets.best() if looks else None  # fixed at the first release that counts
        self.shown = [Interval(0.5, 0.0, 1.0)] * arms  # of each arm's mean
        self.p_values = dict.fromkeys(itertools.combinations(range(arms), 2), 1.0)
        self._forget()

    def _forget(self) -> None:
        self.means = [Mean(0.0, 0.0, 0.0)] * self.arms
        self.spreads = [Mean(0.0, 0.0, 0.0)] * self.arms  # of y (1 - y), over its most
        self.variances = [TOP] * self.arms  # at most
        self.pairs = dict.fromkeys(self.p_values, Difference(0.0, 0.0, 0.0, 0.0))
        self.largest = dict.fromkeys(self.p_values, (0.0, 0.0))  # weights of single values

    def take(
        self,
        sizes: Sequence[float],
        sums: Sequence[float],
        stds: Sequence[float],
        spreads: Sequence[float] | None = None,
    ) -> None:
        """One more release: people in each arm, sums of their values, std of the noise in these.

        `spreads` are sums of y (1 - y). Without them these count as 0, which is no more than they
        are: enough, as only their lower bounds are used.
        """
        fresh = [Mean(s, n, std * std) for n, s, std in zip(sizes, sums, stds, strict=True)]
        calm = [Mean(0.0, n, 0.0) for n in sizes]
        if spreads is not None:
            calm = [
                Mean(s / TOP, n, (std / SPREAD / TOP) ** 2)
                for n, s, std in zip(sizes, spreads, stds, strict=True)
            ]
        if self.looks:
            self._forget()
        # Public, and known before the release.
        if all(n and (self.looks or counts(n, std)) for n, std in zip(sizes, stds, strict=True)):
            self._add(fresh, calm)
        if self.speaks:
            self._read()

    def _add(self, fresh: list[Mean], calm: list[Mean]) -> None:
        if self.bets is None:
            smallest = min(fresh, key=lambda each: each.count)
            self.bets = self._bets(smallest.count, smallest.noise)
        self.means = [before + more for before, more in zip(self.means, fresh, strict=True)]
        self.spreads = [before + more for before, more in zip(self.spreads, calm, strict=True)]
        for i, j in self.pairs:
            self.pairs[i, j] += difference(fresh[i], fresh[j])
            # Means may vary: m (1 - m) is concave if all values of an arm weigh the same, so each
            # weighs as the heaviest.
            size = fresh[i].count + fresh[j].count
            one, other = self.largest[i, j]
            self.largest[i, j] = (
                max(one, fresh[j].count / size),
                max(other, fresh[i].count / size),
            )

    def _bets(self, smallest: float, noise: float) -> Bets:
        if self.people is None:
            scales = (smallest / 8 + noise) * FACTOR ** np.arange(1.0, 1 + SCALES)
            return Bets.mixture(scales, np.ones(SCALES))
        last = self.people / 4 + RELEASES * noise
        return Bets.mixture(last / FACTOR ** np.arange(3.0), np.array([0.5, 0.3, 0.2]))

    def _read(self) -> None:
        """Means, what they say of variances, and what these say of differences."""
        assert self.bets is not None
        of_means = MEANS / 2 if self.pairs else 1.0
        limit = math.log(self.arms / (of_means * self.alpha)) + self._looked
        least = [0.0] * self.arms
        if self.pairs:
            least = [TOP * each.least(self.bets, limit) for each in self.spreads]
        self.shown = [
            replace(mean, spread=low).interval(self.bets, limit)
            for mean, low in zip(self.means, least, strict=True)
        ]
        self.variances = list(map(largest_variance, self.shown, least))
        for pair, found in self._differences().items():
            # On the event that the variances' bounds hold; else, with probability MEANS alpha, it
            # may be anything: so that is part of every p-value.
            log_chance = self._looked - found.against(self.bets, 0.0)
            chance = len(self.pairs) * math.exp(min(log_chance, 0.0))
            p = MEANS * self.alpha + chance
            self.p_values[pair] = min(self.p_values[pair], p)

    @property
    def speaks(self) -> bool:
        """Whether a release has counted, of everybody."""
        return self.bets is not None and all(each.count for each in self.means)

    @property
    def limit(self) -> float:
        """A difference is not possible if a bet against it has earned so much (a logarithm)."""
        return math.log(len(self.pairs) / ((1 - MEANS) * self.alpha)) + self._looked

    @property
    def _looked(self) -> float:
        """log of what many looks cost: both sides of each, where each has a bound of its own."""
        return math.log(2 * self.looks) if self.looks else 0.0

    def _differences(self) -> dict[tuple[int, int], Difference]:
        found = {}
        for pair, each in self.pairs.items():
            weights = zip(pair, self.largest[pair], strict=True)
            variance = sum(w * w * self.means[i].count * self.variances[i] for i, w in weights)
            found[pair] = replace(each, variance=variance)
        return found

    def differences(self) -> dict[tuple[int, int], Interval]:
        """Of each pair of arms: the first minus the second."""
        if not (self.speaks and self.pairs):
            return dict.fromkeys(self.pairs, Interval(0.0, -1.0, 1.0))
        assert self.bets is not None
        found = self._differences().items()
        return {pair: each.interval(self.bets, self.limit) for pair, each in found}
