"""What local channels share: the budget of one report, coins, the grid of reports, the promise."""

import math
from fractions import Fraction

from discreet.arrays import integer, positive
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.noise import Noise, source
from discreet.privacy.portable import COINS, exp
from discreet.privacy.release import Release

# The last bits of a float report show how it was computed, and so whose it is. Reports on a sphere
# are rounded to a public grid, far finer than their noise and far coarser than those bits.
GRID = 2.0**-20  # of the sphere's radius

# Running a channel at a smaller epsilon than was asked for is always allowed. Coins have 52 bits:
# they cannot be arbitrarily one-sided, and the rounding of their bias must cost no privacy.
_LARGEST = 25.0
_SMALLEST = 1e-10  # below, a report is 10^10 times as wide as what it reports


def _spendable(epsilon: float) -> float:
    epsilon = min(epsilon, _LARGEST)
    return max(epsilon - 4e-15 * (1 + float(exp(epsilon))), epsilon / 2)


def odds_below(epsilon: float) -> Fraction:
    """An exact fraction just below e^epsilon: `math.exp` is within 2^-51 of it."""
    return Fraction(math.exp(epsilon)) * (1 - Fraction(1, 2**50))


def heads(odds: Fraction) -> int:
    """The most coins k out of 2^52 with k / (2^52 - k) <= odds, in exact arithmetic."""
    return math.floor(COINS * odds / (1 + odds))


class Channel:
    """What the channels share: the budget of one report, and the promise.

    epsilon         the privacy loss of all reports of one person; inf switches privacy off
    contributions   the most reports of one person; each is made at epsilon/contributions
    """

    mechanism: str
    reference: str

    def __init__(self, epsilon: float, contributions: int) -> None:
        self.epsilon = positive("epsilon", epsilon, allow_inf=True)
        self.contributions = integer("contributions", contributions)
        # k reports of one person cost k times one report: there is no sensitivity to multiply.
        each = self.epsilon / self.contributions
        if each < _SMALLEST:
            raise ValueError(
                f"epsilon must be at least {_SMALLEST:g} for each report: with less, a report says "
                "nothing; raise epsilon or lower contributions"
            )
        self.report_epsilon = _spendable(each)
        self.off = math.isinf(self.epsilon)
        self._samplers: set[str] = set()

    @property
    def guarantee(self) -> Guarantee:
        """What each person is promised, whatever happens to the reports."""
        release = Release.pure(
            what=f"{self.contributions} report(s) of one person",
            mechanism=self.mechanism,
            norm="any two records",
            sensitivity=1.0 if self.off else self.report_epsilon * self.contributions,
            scale=0.0 if self.off else 1.0,
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
