"""What local channels share: the budget of one report, the grid of reports, and the promise."""

import math

import numpy as np

from discreet.privacy.checks import Array, positive, whole
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.noise import Noise, source
from discreet.privacy.release import Release

# The last bits of a float report show how it was computed, and so whose it is. Continuous reports
# are rounded to a public grid, far finer than their noise and far coarser than those bits.
GRID = 2.0**-20  # of a report's reach

# Running a channel at a smaller epsilon than was asked for is always allowed. Coins have 53 bits:
# they cannot be arbitrarily one-sided, and the rounding of their bias must cost no privacy.
_LARGEST = 25.0


def _spendable(epsilon: float) -> float:
    epsilon = min(epsilon, _LARGEST)
    return max(epsilon - 4e-15 * (1 + math.exp(epsilon)), epsilon / 2)


class Channel:
    """What the channels share: the budget of one report, and the promise."""

    mechanism: str
    reference: str

    def __init__(self, epsilon: float, contributions: int) -> None:
        self.epsilon = positive("epsilon", epsilon, allow_inf=True)
        self.contributions = whole("contributions", contributions)
        # k reports of one person cost k times one report: there is no sensitivity to multiply.
        self.report_epsilon = _spendable(self.epsilon / self.contributions)
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

    def _rounded(self, reports: Array, reach: float) -> Array:
        step = GRID * reach
        return np.asarray(np.rint(reports / step) * step)

    def _source(self, noise: Noise | None) -> Noise:
        noise = source(noise)
        self._samplers.add(noise.sampler(self.mechanism))
        return noise
