"""Local channels: what all share, and those for numbers; sphere.py has the one for vectors.

A report is private before it leaves the device, and unbiased. Two statistics of one person: let
each person report one of the two, at random or by parity, rather than splitting epsilon.

Both channels for numbers choose between finitely many reports, with coins of 52 bits: probabilities
are fractions with a known denominator, and the loss is bounded in exact arithmetic, not up to
rounding.

    Wang et al. (2019)   t   C                l(t), r(t)     alpha
    here                 x   cells * step     start, + L     self._mixture / COINS
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.arrays import Array, finite, finite_range, integer, positive, within
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.noise import Noise, source
from discreet.privacy.portable import COINS, draw_coins, exp
from discreet.privacy.release import Release, observe
from discreet.privacy.shuffle import LARGEST_EPSILON

CELLS = 2**20  # on each side of 0: reports of the piecewise mechanism are -CELLS ... CELLS steps
RESPONSE = CELLS + 1  # on the wire: the larger of the two reports of randomised response


def _spendable(epsilon: float) -> float:
    """A smaller epsilon than was asked for: always allowed.

    Coins have 52 bits: they cannot be arbitrarily one-sided, and the rounding of their bias must
    cost no privacy.
    """
    epsilon = min(epsilon, LARGEST_EPSILON)
    return max(epsilon - 4e-15 * (1 + float(exp(epsilon))), epsilon / 2)


def odds_below(epsilon: float) -> Fraction:
    """An exact fraction just below e^epsilon: `math.exp` is within 2^-51 of it."""
    return Fraction(math.exp(epsilon)) * (1 - Fraction(1, 2**50))


def heads(odds: Fraction) -> int:
    """The most coins k out of 2^52 with k / (2^52 - k) <= odds, in exact arithmetic."""
    return math.floor(COINS * odds / (1 + odds))


class Channel:
    """What the channels share: the budget of one report, and the promise."""

    mechanism: str
    reference: str

    def __init__(self, epsilon: float, contributions: int) -> None:
        self.epsilon = positive("epsilon", epsilon, allow_inf=True)
        self.contributions = integer("contributions", contributions)
        # k reports of one person cost k times one report: there is no sensitivity to multiply.
        each = self.epsilon / self.contributions
        if each < 1e-10:  # a report is 10^10 times as wide as what it reports
            raise ValueError(
                "epsilon must be at least 1e-10 for each report: with less, a report says nothing; "
                "raise epsilon or lower contributions"
            )
        self.report_epsilon = _spendable(each)
        self.off = math.isinf(self.epsilon)
        self._samplers: set[str] = set()

    @property
    def guarantee(self) -> Guarantee:
        """What each person is promised, whatever happens to the reports."""
        release = Release.channel(
            math.inf if self.off else self.report_epsilon * self.contributions,
            what=f"{self.contributions} report(s) of one person",
            mechanism=self.mechanism,
            sampler=" and ".join(sorted(self._samplers)) or "nothing drawn yet",
        )
        return Guarantee(
            epsilon=self.epsilon,
            delta=0.0,
            trust="local",
            contributions=self.contributions,
            releases=(release,),
            unprotected=("that a report was sent, and when", "the public bounds"),
            reference=self.reference,
        )

    def draws_from(self, noise: Noise | None) -> Noise:
        """The source of a report's noise, which the promise names from now on."""
        noise = source(noise)
        self._samplers.add(noise.sampler(self.mechanism))
        return noise


@dataclass(frozen=True)
class _Response:
    """Randomised response on x in [-1, 1]: two reports, +bound and -bound, of mean x.

    For x = 1 (x = -1) the likely report has `likely` of the 2^52 coins, and likely / (2^52 -
    likely) <= e^epsilon. For every other x both have at least 2^52 - likely and at most likely
    coins: the same bound holds between any two values.
    """

    likely: int  # coins of the likely report, above half of them

    @classmethod
    def of(cls, epsilon: float) -> "_Response":
        return cls(heads(odds_below(epsilon)))

    @cached_property
    def bound(self) -> float:
        """(e^epsilon + 1) / (e^epsilon - 1): makes the mean x."""
        return COINS / (2 * self.likely - COINS)

    def coins_up(self, x: Array) -> NDArray[np.int64]:
        """How many of the 2^52 coins give +bound."""
        wanted = np.rint(COINS / 2 * (1 + x / self.bound))
        return np.clip(wanted.astype(np.int64), COINS - self.likely, self.likely)

    def draw(self, x: Array, coin: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.where(coin < self.coins_up(x), RESPONSE, -RESPONSE)

    def draw_one(self, x: float, coin: int) -> float:
        wanted = round(COINS / 2 * (1 + x / self.bound))  # to even, as rint
        up = min(max(wanted, COINS - self.likely), self.likely)
        return self.bound if coin < up else -self.bound

    def variance(self, x: float) -> float:
        return self.bound**2 - x * x


@dataclass(frozen=True)
class _Piecewise:
    """The piecewise mechanism on the integers -CELLS ... CELLS, for x in [-1, 1].

    A plateau of `plateau` neighbouring cells, placed by x, gets `inside` of the 2^52 coins; the
    other cells share the rest. Within either, a second coin c picks cell floor(c n / 2^52) of n,
    so that each gets floor(2^52 / n) or ceil(2^52 / n) coins. Whatever x is, a cell has therefore
        at most    inside ceil(2^52 / plateau)               of the 2^104 pairs of coins,
        at least   (2^52 - inside) floor(2^52 / others),
    and `inside` is the largest integer for which the ratio is at most e^epsilon. A plateau that
    starts between two cells is placed on either at random: a mixture keeps both bounds.
    """

    plateau: int  # its cells
    inside: int  # its coins

    @classmethod
    def of(cls, epsilon: float) -> "_Piecewise":
        total = 2 * CELLS + 1
        plateau = max(1, round(total / (math.exp(epsilon / 2) + 1)))
        uneven = Fraction(COINS // (total - plateau), -(-COINS // plateau))
        return cls(plateau, heads(odds_below(epsilon) * uneven))

    @property
    def others(self) -> int:
        """Cells outside of the plateau."""
        return 2 * CELLS + 1 - self.plateau

    @property
    def furthest(self) -> float:
        """The middle of the last plateau: where it is for x = 1."""
        return CELLS - (self.plateau - 1) / 2

    @cached_property
    def step(self) -> float:
        """The width of a cell, which makes the mean x.

        All cells together have mean 0, so those outside of a plateau with middle m have mean
        -m plateau / others, and a report m (inside - outside plateau / others) steps.
        """
        pull = Fraction(self.inside, COINS) - Fraction(
            (COINS - self.inside) * self.plateau, COINS * self.others
        )
        return float(1 / (Fraction(self.furthest) * pull))

    def start(self, x: Array) -> tuple[NDArray[np.int64], Array]:
        """The first cell of the plateau, rounded down, and what is left."""
        wanted = x * self.furthest - (self.plateau - 1) / 2
        first = np.clip(np.floor(wanted), -CELLS, CELLS + 1 - self.plateau)
        return first.astype(np.int64), np.clip(wanted - first, 0.0, 1.0)

    def draw(self, x: Array, coins: NDArray[np.int64]) -> NDArray[np.int64]:  # 3 coins for each x
        start, left = self.start(x)
        start = np.minimum(start + (coins[0] < left * COINS), CELLS + 1 - self.plateau)
        within_plateau = start + _cell(coins[2], self.plateau)
        outside = _cell(coins[2], self.others) - CELLS
        outside = np.where(outside < start, outside, outside + self.plateau)
        return np.where(coins[1] < self.inside, within_plateau, outside)

    def variance(self, x: float) -> float:
        middle = (x * self.furthest) ** 2 + (self.plateau**2 - 1) / 12
        squares = CELLS * (CELLS + 1) * (2 * CELLS + 1) / 3  # of all cells
        p = self.inside / COINS
        outside = (squares - self.plateau * middle) / self.others
        return float((p * middle + (1 - p) * outside) * self.step**2 - x * x)

    def probability(self, cells: NDArray[np.int64], x: float) -> Array:
        """Of each cell, up to the unevenness of the second coin."""
        (first,), (left,) = self.start(np.array([x]))
        p = self.inside / COINS
        result = np.zeros(cells.shape)
        for start, weight in ((first, 1 - left), (first + 1, left)):
            on = (cells >= start) & (cells < start + self.plateau)
            result += weight * np.where(on, p / self.plateau, (1 - p) / self.others)
        return result


def _cell(coins: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """floor(c n / 2^52), exactly: in two halves, since c n has more than 64 bits."""
    high, low = coins >> 26, coins & (2**26 - 1)
    return np.asarray((high * n + (low * n >> 26)) >> 26)


class IntervalChannel(Channel):
    """Unbiased, pure epsilon-LDP reports of numbers in an interval: the hybrid mechanism.

    With probability 1 - e^(-epsilon/2) the piecewise mechanism (uniform on [-C, C] with a higher
    plateau around the value, C = (e^(epsilon/2) + 1)/(e^(epsilon/2) - 1)), else randomised
    response. The error then has the same variance for every value. Where that is larger than the
    worst of randomised response alone (epsilon below .61) there is no piecewise part. For answers
    that are yes or no, `BinaryChannel` has less noise.

    Guarantee  epsilon-DP as coded: which mechanism is used does not depend on the value, and both
    bound the ratio of their coins by e^epsilon in exact arithmetic.

    Reference: Wang et al. (2019), "Collecting and analyzing multidimensional data with local
    differential privacy".

    epsilon         the privacy loss of all reports of one person; inf switches privacy off
    low, high       the ends of the interval
    contributions   the most reports of one person; each is made at epsilon/contributions

    >>> from discreet.privacy import SeededNoise
    >>> channel = IntervalChannel(1.0, low=0.0, high=1.0)
    >>> reports = channel.privatize(np.full(100_000, 0.25), SeededNoise(0))
    >>> bool(abs(reports.mean() - 0.25) < 0.02)
    True
    """

    _ends_only = False  # randomised response alone

    def __init__(
        self, epsilon: float, *, low: float = -1.0, high: float = 1.0, contributions: int = 1
    ) -> None:
        super().__init__(epsilon, contributions)
        self.low, self.high = finite_range("the range of numbers", (low, high))
        self._middle = self.low / 2 + self.high / 2
        self._half = self.high / 2 - self.low / 2
        self._response = _Response.of(self.report_epsilon)
        self._piecewise = _Piecewise.of(self.report_epsilon)
        self._mixture = round(-math.expm1(-self.report_epsilon / 2) * COINS)
        if self._ends_only or self._worst_variance(self._mixture) >= self._worst_variance(0):
            self._mixture = 0
        self.hybrid = self._mixture > 0
        self._step = self._piecewise.step if self.hybrid else 0.0  # of a cell; 0: no cells
        self._bound = 1.0 if self.off else max(CELLS * self._step, self._response.bound)
        self.mechanism = "hybrid channel" if self.hybrid else "randomized response"
        self.reference = "Wang et al. (2019)" if self.hybrid else "Warner (1965)"

    def _variance(self, x: float, mixture: int) -> float:
        a = mixture / COINS
        plain = self._response.variance(x)
        return plain if not mixture else a * self._piecewise.variance(x) + (1 - a) * plain

    def _worst_variance(self, mixture: int) -> float:
        """Linear in x^2: largest at 0 or at 1."""
        return max(self._variance(0.0, mixture), self._variance(1.0, mixture))

    @property
    def std(self) -> float:
        """The largest root-mean-square error of a report."""
        return 0.0 if self.off else math.sqrt(self._worst_variance(self._mixture)) * self._half

    @property
    def report_bound(self) -> float:
        """The largest distance of a report from the middle."""
        return self._bound * self._half

    @property
    def second_moment(self) -> float:
        """The largest mean of (report - middle)^2: at a bound of the interval."""
        return (1.0 if self.off else 1 + self._variance(1.0, self._mixture)) * self._half**2

    def privatize(
        self, values: ArrayLike, noise: Noise | None = None, *, clip: bool = False
    ) -> Array:
        """One report for each value, in the shape of `values`."""
        values = finite("values", values)
        if clip:  # before it is measured in half widths, which may overflow
            values = np.clip(values, self.low, self.high)
        x = self._standard(values)
        x = within("values (in half widths)", x[..., None], 1.0, norm="linf", clip=clip)[..., 0]
        if self.off:
            sent = np.clip(values, self.low, self.high)
        else:
            sent = self.decode(self._draw(x, self.draws_from(noise)))
        observe("report", sent)
        return sent

    def send(self, values: Array, noise: Noise) -> Array:
        """`privatize`, for values that are known to lie in [low, high] up to rounding."""
        return self.privatize(values, noise, clip=True)

    def report(self, value: float, noise: Noise) -> float:
        """`privatize` of one number that is known to lie in [low, high]."""
        return float(self.privatize(value, noise, clip=True))

    def decode(self, codes: NDArray[np.int64]) -> Array:
        """Reports from integers: +-(CELLS + 1) is randomised response, others are cells."""
        response = np.where(codes > 0, self._response.bound, -self._response.bound)
        x = np.where(np.abs(codes) == RESPONSE, response, codes * self._step)
        return np.asarray(self._middle + self._half * x)

    def encode(self, reports: Array) -> NDArray[np.int64]:
        """The integers that `decode` makes these reports of."""
        x = self._standard(reports)
        two = np.abs(np.abs(x) - self._response.bound) <= 1e-6 * (self._step or 1.0)
        cells = np.rint(x / (self._step or 1.0))
        return np.where(two, np.where(x > 0, RESPONSE, -RESPONSE), cells).astype(np.int64)

    def possible(self, reports: Array) -> NDArray[np.bool_]:
        """Which of these a device could have sent."""
        x = self._standard(reports)
        # Of rounding; also of a file that holds single precision.
        size = max(abs(self.low), abs(self.high))
        slack = (2.0**-23 * self.report_bound + 1e-15 * size) / self._half
        with np.errstate(invalid="ignore"):  # a comparison with NaN is false
            if self.off:
                return np.asarray(np.abs(x) <= 1 + slack)
            found = np.abs(np.abs(x) - self._response.bound) <= slack
            if self.hybrid:
                on_grid = np.abs(x - np.rint(x / self._step) * self._step) <= slack
                found |= on_grid & (np.abs(x) <= self._bound + slack)
            return np.asarray(found)

    def _standard(self, values: Array) -> Array:
        return np.asarray((values - self._middle) / self._half)

    def log_density(self, reports: ArrayLike, value: float) -> Array:
        """log probability of reports given a value."""
        report = self._standard(finite("reports", reports))
        x = self._standard(np.asarray(value))
        up = self._response.coins_up(x) / COINS
        response = np.asarray(np.log(np.where(report > 0, up, 1 - up)))
        if not self.hybrid:
            return response
        a = self._mixture / COINS
        two = np.abs(np.abs(report) - self._response.bound) <= self._step * 1e-6
        cells = np.rint(report / self._step).astype(np.int64)
        piecewise = np.log(a * self._piecewise.probability(cells, float(x)))
        return np.asarray(np.where(two, math.log1p(-a) + response, piecewise))

    @property
    def thresholds(self) -> dict[str, float]:
        """What a device in another language needs to draw the same reports."""
        found: dict[str, float] = {"likely": self._response.likely}
        if not self._ends_only:
            found["mixture"] = self._mixture
        if self.hybrid:
            found |= {"inside": self._piecewise.inside, "plateau": self._piecewise.plateau}
        return found

    def _draw(self, x: Array, noise: Noise) -> NDArray[np.int64]:
        """Reports of x in [-1, 1] as integers; the number of coins depends on the shape alone."""
        if not self.hybrid:
            return self._response.draw(x, draw_coins(noise, x.shape))
        which, first, *others = draw_coins(noise, (4, *x.shape))
        piecewise = self._piecewise.draw(x, np.stack([first, *others]))
        response = self._response.draw(x, first)
        return np.where(which < self._mixture, piecewise, response)


class BinaryChannel(IntervalChannel):
    """Unbiased, pure epsilon-LDP reports of yes or no (Warner 1965): one of two values.

    The report is c half widths above or below the middle, c = (e^epsilon + 1)/(e^epsilon - 1). For
    a value between the two it is rounded to one of them at random first, which is the method of
    Duchi, Jordan and Wainwright (2018) in one dimension. No other channel has smaller reports, nor
    a smaller worst second moment: what counts where reports are divided by probabilities.

    Guarantee  epsilon-DP as coded: of 2^52 equally likely coins either report has at most
    e^epsilon times as many for one value as for another.

    low, high   the two values, or the ends of the interval

    >>> from discreet.privacy import SeededNoise
    >>> channel = BinaryChannel(1.0)
    >>> reports = channel.privatize(np.ones(100_000), SeededNoise(0))
    >>> bool(abs(reports.mean() - 1.0) < 0.02), len(set(reports))
    (True, 2)
    """

    _ends_only = True

    def __init__(
        self, epsilon: float, *, low: float = 0.0, high: float = 1.0, contributions: int = 1
    ) -> None:
        super().__init__(epsilon, low=low, high=high, contributions=contributions)

    def report(self, value: float, noise: Noise) -> float:
        """The same in Python's own numbers: arrays of one entry take four times as long."""
        sent = value
        if not self.off:
            if not self._samplers:
                self.draws_from(noise)
            x = min(max((value - self._middle) / self._half, -1.0), 1.0)
            coin = int(float(noise.uniform(())) * COINS)
            sent = self._middle + self._half * self._response.draw_one(x, coin)
        observe("report", sent)
        return sent

    @property
    def std(self) -> float:
        """The root-mean-square error of a report of `low` or of `high`; in between it is larger."""
        return 0.0 if self.off else math.sqrt(self._variance(1.0, 0)) * self._half
