"""What a bandit says of the world: expected rewards, effects, worth; from released values alone.

Estimates and intervals are those of the posterior under a prior so wide that it neither shortens
theta nor narrows intervals. `theta`, by which the policy chooses, is shorter where little is known.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from discreet.arrays import Array, finite, row_norms
from discreet.bandits.belief import Belief
from discreet.bandits.holdout import Holdout
from discreet.bandits.parts import Model
from discreet.bandits.window import expected
from discreet.evaluation.worth import CONFIDENCE, Totals, Value, needed, values
from discreet.features import FeatureMap
from discreet.least_squares.posterior import root
from discreet.links import link as link_named

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


class Reading:
    """What anybody may read of a linear bandit: it is made of what was released."""

    dim: int
    horizon: int | None
    norm_bound: float
    reward_range: tuple[float, float]
    model: Model
    holdout: Holdout | None
    _scale: float  # the largest reward
    _belief: Any
    _totals: tuple[Totals, ...]

    @property
    def belief(self) -> Any:
        """What the releases so far say about theta: immutable, and safe to publish."""
        return self._belief

    @property
    def totals(self) -> tuple[Totals, ...]:
        """Number and sum of the rewards of each closed window, as released."""
        return self._totals

    @property
    def theta(self) -> Array:
        """The released weights, for features and rewards in the user's units; safe to publish."""
        return np.asarray(self._belief.weights * (self.reward_unit / self.norm_bound))

    @property
    def intercept(self) -> float:
        """What the prediction <phi, theta> lacks: 0 unless 0 is off the middle of the rewards."""
        return self.reward_middle + self.reward_unit * float(
            getattr(self._belief, "intercept", 0.0)
        )

    @property
    def reward_middle(self) -> float:
        """Of the rewards, where predictions are linear and have an intercept."""
        if not self._belief.constant or self.model.link != "identity":
            return 0.0
        return expected(self.reward_range, self.model.typical_reward)

    @property
    def reward_unit(self) -> float:
        """Of the belief's predictions, in the user's."""
        if self.model.link != "identity":
            return 1.0
        low, high = self.reward_range
        return (high - low) / 2 if self._belief.constant else self._scale

    def predict(self, features: ArrayLike, *, level: float = LEVEL) -> Prediction:  # (n, dim)
        """Expected rewards of rows, and credible intervals; safe to publish for public rows.

        The rows are the caller's: a prediction for a person's own features tells about them.
        """
        rows = finite("features", features)
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise ValueError(f"features must have shape (n, {self.dim}), got {rows.shape}")
        nu = link_named(self.model.link).mean
        return self._weights.predicted(rows, nu, self.reward_range, level)

    @property
    def _weights(self) -> Weights:
        return Weights.of(
            self._belief, self.reward_unit / self.norm_bound, self.reward_unit, self.reward_middle
        )

    def summary(self, feature_map: FeatureMap | None = None, *, level: float = LEVEL) -> Summary:
        """What each feature adds to the expected reward, with credible intervals; print it.

        With a feature map under its names, and as much as the feature can add: a number at the top
        of its range, a category where it applies. Without one, weights of single features.
        """
        if feature_map is not None and feature_map.dim != self.dim:
            raise ValueError(f"this map has {feature_map.dim} features, the bandit {self.dim}")
        names = [f"x{i}" for i in range(self.dim)] if feature_map is None else feature_map.names
        scale = 1.0 if feature_map is None else feature_map.scale
        return self._weights.summary(names, scale, level)

    def values(self, confidence: float = CONFIDENCE) -> tuple[Value, ...]:
        """What the policy was worth after each release, in the user's units; safe to publish.

        The intervals of all windows hold together with probability `confidence`.
        """
        return values(
            self._totals,
            self.reward_range,
            held_out=self._held_fraction,
            horizon=self.horizon,
            confidence=confidence,
        )

    @property
    def value(self) -> Value | None:
        """What a decision earns, under the policy and held out; None before the first release."""
        found = self.values()
        if not found or found[-1].proved is not None or self.holdout is None:
            return found[-1] if found else None
        forecast = needed(
            self._totals, self.reward_range, held_out=self._held_fraction, horizon=self.horizon
        )
        return replace(found[-1], needed=forecast)

    @property
    def _held_fraction(self) -> float:
        return 0.0 if self.holdout is None else self.holdout.fraction
