"""What a bandit has learnt, in the words of its definition: all of it from released values.

Weights and their errors are those of `LinearBandit.summary`. A reward's mean in a
window is the released sum over the released count; its error holds the noise of both and the spread
that rewards can have at most.
"""

import math
from dataclasses import dataclass

import numpy as np

from discreet.arrays import Array
from discreet.bandits.predictions import Weights, lengths
from discreet.features import FeatureMap

ERRORS = 2.58  # standard errors on each side of an interval: 99% if they were exactly right
VISIBLE = 4.0  # standard deviations of its noise that a count must have to divide by it


@dataclass(frozen=True)
class Estimate:
    """A number, its standard error, and bounds that it keeps to in any case.

    value         as released
    error         its standard deviation
    least, most   bounds
    """

    value: float
    error: float
    least: float = -math.inf
    most: float = math.inf

    @property
    def low(self) -> float:
        """The lower end of its interval."""
        return max(self.value - ERRORS * self.error, self.least)

    @property
    def high(self) -> float:
        """The upper end."""
        return min(self.value + ERRORS * self.error, self.most)

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out 0."""
        return not self.low <= 0.0 <= self.high

    def minus(self, other: "Estimate") -> "Estimate":
        """The difference of two that have independent errors."""
        return Estimate(self.value - other.value, math.hypot(self.error, other.error))


@dataclass(frozen=True)
class Model:
    """What was learnt of theta, in the user's units.

    weights   mean and errors, for rows in the unit ball
    """

    weights: Weights
    unit: float  # of its predictions
    middle: float = 0.0  # of the rewards, where predictions have an intercept
    gram: Array | None = None  # sum of phi phi' over recent rows, if that is known

    def worth(self, row: Array) -> Estimate:
        """The expected reward of a row."""
        value = float(row @ self.weights.mean) + self.weights.level
        error = float(self.weights.errors(row[None])[0])
        return Estimate(self.middle + self.unit * value, self.unit * error)

    def effects(self, scale: float) -> list[Estimate]:
        """Every weight, times `scale`."""
        values = self.unit * scale * self.weights.mean
        errors = self.unit * scale * lengths(self.weights.root)
        pairs = zip(values.tolist(), errors.tolist(), strict=True)
        return [Estimate(value, error) for value, error in pairs]


@dataclass(frozen=True)
class Coefficient:
    """How much a column changes the expected reward of an action.

    estimate   of the change
    """

    column: str  # of the context; "1" for the level
    estimate: Estimate


def coefficients(model: Model, feature_map: FeatureMap) -> dict[str, list[Coefficient]]:
    """By action, or by attribute of actions: what each column of the context adds to the reward.

    A number adds it at the top of its range and subtracts it at the bottom; a category adds it when
    it applies.
    """
    estimates = iter(model.effects(feature_map.scale))
    return {
        _called(part): [
            Coefficient(column, next(estimates)) for column in feature_map.context_names
        ]
        for part in feature_map.parts
    }


def _called(part: str) -> str:
    return "every action" if part == "1" else part.removeprefix("action=")


# -- what it is worth ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Window:
    """One release, with the errors of what it says.

    number   of the window, from 1
    rounds   decisions in it
    at       when it was published, in seconds since 1970
    count    of rewards, or of reports
    """

    number: int
    rounds: int
    at: float
    count: Estimate
    total: Estimate | None  # None under local trust, where devices answer other questions
    mean: Estimate | None  # None where the count does not stand out of its noise
    epsilon: float | None  # what it costs, at the bandit's delta; None without privacy


def mean_reward(
    count: Estimate, total: Estimate, reward_range: tuple[float, float]
) -> Estimate | None:
    """Released sum over released count, within the range of rewards."""
    if count.value < max(VISIBLE * count.error, 1.0):
        return None
    low, high = reward_range
    mean = min(max(total.value / count.value, low), high)
    noise = math.hypot(total.error, mean * count.error) / count.value
    spread = (high - mean) * (mean - low)  # no variance is larger at this mean
    return Estimate(mean, math.sqrt(noise**2 + spread / count.value), low, high)


@dataclass(frozen=True)
class Comparison:
    """What a choice that does not look at the context would be worth to the average visitor.

    name    of the choice
    value   its expected reward
    """

    name: str
    value: Estimate
    gain: Estimate  # of the bandit over it


def comparisons(
    model: Model, feature_map: FeatureMap, now: Estimate, baseline: str | None
) -> list[Comparison]:
    """The bandit's mean reward against choosing blindly, and against one action for everybody.

    The average visitor stands in the released Gram matrix: a row holds its context times its
    action's part z, so  sum phi phi'  has  s^2 sum z_0 c(x)  where z_0 is a constant or the one
    action that was chosen.
    """
    visitor = None if model.gram is None else _average_visitor(model.gram, feature_map)
    if visitor is None:
        return []
    worth = {}
    rows = feature_map.rows_of(visitor)
    worth["choosing blindly"] = rows.mean(axis=0)
    if baseline is not None:
        worth[f"always {baseline}"] = rows[feature_map.actions.index(baseline)]
    found = []
    for name, row in worth.items():
        value = model.worth(row)
        found.append(Comparison(name, value, now.minus(value)))
    return found


def _average_visitor(gram: Array, feature_map: FeatureMap) -> Array | None:  # (columns,)
    """c(x) on average over recent visitors, as released; None if that is hidden by the noise."""
    columns = len(feature_map.context_names)
    starts = range(0, feature_map.dim, columns)
    blocks = [gram[at, at : at + columns] for at in starts]
    if feature_map.blocks != "per-action":
        blocks = blocks[:1]  # of the constant
    total = np.sum(blocks, axis=0)
    if total[0] <= 0:
        return None
    return np.asarray(np.clip(total / total[0], -1.0, 1.0))
