"""A local channel for numbers: randomised response, or the piecewise mechanism."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.privacy.channel import GRID, Channel
from discreet.privacy.checks import Array, finite, within
from discreet.privacy.noise import Noise


class IntervalChannel(Channel):
    """Unbiased, pure epsilon-LDP reports of numbers in an interval.

    Randomised response: the report is one of two values, c half widths from the middle,
    c = (e^epsilon + 1)/(e^epsilon - 1). Where its worst variance is smaller (epsilon above about
    1.3) the piecewise mechanism of Wang et al. (2019): uniform on [-c', c'] with a higher plateau
    around the value, c' = (e^(epsilon/2) + 1)/(e^(epsilon/2) - 1).

    >>> from discreet.privacy import SeededNoise
    >>> channel = IntervalChannel(1.0, low=0.0, high=1.0)
    >>> reports = channel.privatize(np.full(100_000, 0.25), SeededNoise(0))
    >>> bool(abs(reports.mean() - 0.25) < 0.02)
    True
    """

    def __init__(
        self, epsilon: float, *, low: float = -1.0, high: float = 1.0, contributions: int = 1
    ) -> None:
        super().__init__(epsilon, contributions)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(f"expected finite low < high, got low={low!r}, high={high!r}")
        self.low, self.high = float(low), float(high)
        self._half = math.exp(self.report_epsilon / 2)
        response = 1 / math.tanh(self.report_epsilon / 2)
        plateau = 2 * math.sqrt(self._half / 3) / (self._half - 1)
        self.piecewise = plateau < response
        self._reach = (self._half + 1) / (self._half - 1) if self.piecewise else response
        if self.off:
            self._reach = 1.0
        self._deviation = min(plateau, response)
        self.mechanism = "piecewise channel" if self.piecewise else "randomized response"
        self.reference = "Wang et al. (2019)" if self.piecewise else "Warner (1965)"

    @property
    def deviation(self) -> float:
        """The largest root-mean-square error of a report."""
        return 0.0 if self.off else self._deviation * (self.high - self.low) / 2

    @property
    def reach(self) -> float:
        """How far a report can be from the middle."""
        return self._reach * (self.high - self.low) / 2

    @property
    def second_moment(self) -> float:
        """The largest mean of (report - middle)^2: at a bound of the interval."""
        response = self.off or not self.piecewise
        moment = self._reach**2 if response else 1 + self._deviation**2
        return moment * ((self.high - self.low) / 2) ** 2

    def privatize(
        self, values: ArrayLike, noise: Noise | None = None, *, clip: bool = False
    ) -> Array:
        """One report for each value, in the shape of `values`."""
        x = self._standard(finite("values", values))
        x = within("values (in half widths)", x[..., None], 1.0, norm="linf", clip=clip)[..., 0]
        if not self.off:
            noise = self._source(noise)
            x = self._piecewise(x, noise) if self.piecewise else self._response(x, noise)
        return np.asarray((self.low + self.high) / 2 + (self.high - self.low) / 2 * x)

    def possible(self, reports: Array) -> NDArray[np.bool_]:
        """Which of these a device could have sent: one of two values, or within reach."""
        away = np.abs(self._standard(reports)) / self._reach  # a comparison with NaN is false
        slack = GRID + 1e-15 * max(abs(self.low), abs(self.high)) / self.reach  # of rounding
        least = 0.0 if self.off or self.piecewise else 1 - slack
        return np.asarray((away <= 1 + slack) & (away >= least))

    def report(self, value: float, noise: Noise) -> float:
        """One report of a number that is known to lie in [low, high]; the same as `privatize`."""
        if self.off:
            return value
        if not self._samplers:
            self._source(noise)
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        x = min(max((value - middle) / half, -1.0), 1.0)
        if self.piecewise:
            return middle + half * float(self._piecewise(np.array(x), noise))
        up = float(noise.uniform(1)[0]) < (1 + x / self._reach) / 2
        return middle + half * (self._reach if up else -self._reach)

    def log_density(self, reports: ArrayLike, value: float) -> Array:
        """log probability (or density, per half width) of reports given a value."""
        report, x = self._standard(finite("reports", reports)), self._standard(np.asarray(value))
        if not self.piecewise:
            return np.asarray(np.log((1 + np.sign(report) * x / self._reach) / 2))
        low = self._plateau(x)
        inside = (report >= low) & (report <= low + self._reach - 1)
        share = self._half / (self._half + 1)
        return np.log(np.where(inside, share / (self._reach - 1), (1 - share) / (self._reach + 1)))

    def _standard(self, values: Array) -> Array:
        return np.asarray((values - (self.low + self.high) / 2) / ((self.high - self.low) / 2))

    def _response(self, x: Array, noise: Noise) -> Array:
        up = noise.uniform(x.shape) < (1 + x / self._reach) / 2
        return np.where(up, self._reach, -self._reach)

    def _plateau(self, x: Array) -> Array:
        """Where the plateau starts; it is reach - 1 long, and reach + 1 remains outside."""
        return np.asarray((self._reach + 1) / 2 * x - (self._reach - 1) / 2)

    def _piecewise(self, x: Array, noise: Noise) -> Array:
        low, length = self._plateau(x), self._reach - 1
        inside, level = noise.uniform((2, *x.shape))
        outside = level * (self._reach + 1) - self._reach
        outside = np.where(outside <= low, outside, outside + length)
        up = inside < self._half / (self._half + 1)
        return self._rounded(np.where(up, low + level * length, outside), self._reach)
