"""The rows that a release sums over, and what it costs them.

On very many rows the early steps of a fit look at a few rows only, chosen by public coins, and the
last step looks at all of them. Early rows have then spent a fraction E of mu^2, all others
nothing, and the last step is paid for by two scopes. Its noise is s = D/mu, for all of mu^2; early
rows enter its sums with weight a = sqrt(1 - E). Which rows are early is public, so

    replacing one of the other rows moves the sums by D:      (D/s)^2 = mu^2
    replacing an early row moves them by a D:                 E mu^2 + (a D/s)^2 = mu^2

A person who has k rows, a fraction p of them early, is paid for as well. With noise s = k D/mu
the cost is p^2 E + (p a + 1 - p)^2 of mu^2, convex in p and 1 at both ends: at most 1 between.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from discreet.arrays import Array
from discreet.privacy.mechanisms import Released
from discreet.privacy.release import Release
from discreet.regression.base import Problem
from discreet.regression.rows import Parts, Places, Query, sums

MANY_ROWS = 2**19  # beyond, early steps look at EARLY_ROWS rows only
EARLY_ROWS = 2**18
EARLY_SCOPE = "rows of early steps"
OTHER_SCOPE = "rows of the last step only"


@dataclass(frozen=True)
class Sample:
    """Some rows of a problem, what one release on them may cost, and the scope that pays."""

    problem: Problem  # whose rows these are
    X: Array  # the rows
    y: Array  # their labels
    mu: float  # what a release on them may cost
    scope: str | None = None  # None: every row pays
    early: Places | None = None  # rows that pay in EARLY_SCOPE what they have not spent there

    @classmethod
    def of(
        cls, problem: Problem, rows: Places | slice, mu: float, scope: str | None = None
    ) -> "Sample":
        """These rows of a problem."""
        return cls(problem, problem.X[rows], problem.y[rows], mu, scope)

    @classmethod
    def last(cls, problem: Problem, early: Places) -> "Sample":
        """All rows and all of mu for the others, what is left of it for the early ones."""
        return cls(problem, problem.X, problem.y, problem.budget.mu, OTHER_SCOPE, early)

    @property
    def weight_of_rows(self) -> float:
        """The sum of the rows' weights: their number, but early rows count less."""
        early = 0 if self.early is None else len(self.early)
        return len(self.X) - (1 - self._early_weight()) * early

    def release(
        self, query: Query, pack: Callable[[Parts], Array], *, sensitivity: float, what: str
    ) -> Released:
        """The packed sums of a query with Gaussian noise; `pack` is linear.

        `sensitivity` is how far everything one person has moves the packed sums, early or not.
        """
        noise = self.problem.noise
        total = pack(sums(query, self.X, self.y))
        if self.early is not None:
            some = pack(sums(query, self.problem.X[self.early], self.problem.y[self.early]))
            # Rounding to the lattice moves both scopes alike, whatever the weight of a row.
            rounding = noise.spacing("gaussian", sensitivity / self.mu) * math.sqrt(total.size)
            weight = self._early_weight(rounding / sensitivity)
            total = total - (1 - weight) * some
            self.problem.ledger.spend(
                Release.gaussian(
                    sensitivity=weight * sensitivity + rounding,
                    scale=(sensitivity + rounding) / self.mu,
                    what=f"{what} (the one release, as it costs early rows)",
                    sampler=noise.sampler("gaussian"),
                    scope=EARLY_SCOPE,
                )
            )
        return self.problem.release.gaussian(
            total, sensitivity=sensitivity, mu=self.mu, what=what, scope=self.scope
        )

    def _early_weight(self, rounding: float = 0.0) -> float:
        """a, such that (a + rounding) / (1 + rounding) = sqrt(1 - E)."""
        left = max(1 - self.problem.ledger.spent(EARLY_SCOPE), 0.0)
        return max(math.sqrt(left) * (1 + rounding) - rounding, 0.0)
