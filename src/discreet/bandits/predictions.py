"""What a bandit expects of rows, and what each feature adds; from released values alone.

Estimates and intervals are those of the posterior under a prior so wide that it neither shortens
theta nor narrows intervals. `theta`, by which the policy chooses, is shorter where little is known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from discreet.arrays import Array, row_norms
from discreet.bandits.belief import Belief
from discreet.least_squares.posterior import root

LEVEL = 0.95
WIDE = 4.0  # |theta| of the prior behind intervals, in units of the largest reward: hardly any


@dataclass(frozen=True)
class Prediction:
    """Expected rewards in the user's units, with credible intervals."""

    mean: Array  # one for each row
    low: Array  # ends of the intervals
    high: Array  # the same, above
    level: float  # probability that the belief gives to each interval


@dataclass(frozen=True)
class Effect:
    """What one feature adds to the expected reward (to the link's argument, if there is a link)."""

    name: str  # of the feature
    effect: float  # its posterior mean
    low: float  # end of the credible interval
    high: float  # the same, above

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out 0."""
        return not self.low <= 0 <= self.high


@dataclass(frozen=True)
class Summary:
    """Effects of all features; printed as a table, the clear ones marked with a star."""

    effects: tuple[Effect, ...]  # one for each feature
    intercept: float  # what is added to every prediction
    level: float  # probability that the belief gives to each interval

    def __str__(self) -> str:
        width = max(len(each.name) for each in self.effects)
        lines = [f"{'':{width}}    effect   {100 * self.level:g}% interval"]
        for each in self.effects:
            ends = f"{each.low:+.3f} to {each.high:+.3f}{' *' * each.clear}"
            lines.append(f"{each.name:{width}}    {each.effect:+.3f}   {ends}")
        if self.intercept:
            lines.append(f"{'intercept':{width}}    {self.intercept:+.3f}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Weights:
    """theta with its error, in the user's units.

    The prediction for a row is <row, mean> + level, with an error of variance
    |root' row + offset|^2.
    """

    mean: Array  # (features,)
    level: float  # the intercept
    root: Array  # (features, d)
    offset: Array  # (d,)

    @classmethod
    def of(cls, belief: Any, unit: float, reward: float, middle: float) -> "Weights":
        """From a belief whose weights are in this unit, and rewards too, from the middle."""
        if not isinstance(belief, Belief):
            raise ValueError("intervals need trust='joint', and a policy other than 'descent'")
        prior = belief.prior_precision(max(WIDE, belief.radius))
        posterior = belief.posterior.with_prior(prior)
        mean, level = belief.split(posterior.mean)
        error, offset = belief.split(root(posterior.covariance))
        return cls(unit * mean, middle + reward * float(level), unit * error, reward * offset)

    def predicted(
        self, rows: Array, nu: Any, limits: tuple[float, float], confidence: float
    ) -> Prediction:
        """Means nu(<row, mean> + level) within the limits."""
        middle = rows @ self.mean + self.level
        half = half_width(confidence) * row_norms(rows @ self.root + self.offset, "l2")
        mean, low, high = (
            np.clip(nu(each), *limits) for each in (middle, middle - half, middle + half)
        )
        return Prediction(mean, low, high, confidence)

    def summary(self, names: Sequence[str], scale: float, confidence: float) -> Summary:
        """What features add that are `scale` where they apply fully."""
        errors = row_norms(self.root, "l2")
        found = effects(names, self.mean, errors, scale, confidence)
        return Summary(found, self.level, confidence)


def half_width(level: float) -> float:
    """Standard deviations on each side of an interval."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    return -float(scipy.special.ndtri((1 - level) / 2))


def effects(
    names: Sequence[str], weights: Array, errors: Array, scale: float, level: float
) -> tuple[Effect, ...]:
    """Weights of features that are `scale` where they apply fully."""
    z = half_width(level)
    return tuple(
        Effect(name, scale * w, scale * (w - z * e), scale * (w + z * e))
        for name, w, e in zip(names, weights.tolist(), errors.tolist(), strict=True)
    )
