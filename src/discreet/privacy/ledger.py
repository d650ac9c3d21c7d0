"""The ledger: composes releases, and refuses the one that would overspend.

Releases on the same rows add up; releases on disjoint rows ("scopes") do not, so what counts is
the common part plus the dearest scope. Which scope a row belongs to must be public, or the
sensitivity must cover a row that leaves one scope for another. The ledger counts in one currency,
fixed before the first release, because adding costs step by step stays valid when later releases
are chosen by looking at earlier ones (privacy filters: Koskela et al. 2022, Whitehouse et al.
2023):

    "gaussian"  mu^2 against mu(epsilon, delta)^2: exact for Gaussian releases
    "pure"      epsilon against epsilon
    "zcdp"      rho against rho(epsilon, delta): for the generalised Gaussian, many selections

Numerical composition is tighter for mixtures but not valid for adaptively chosen noise; it is
used to report (`Guarantee.epsilon_at`), never to admit.
"""

import json
import math
from typing import Any

from discreet.privacy.budget import Budget
from discreet.privacy.checks import one_of
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.release import Release
from discreet.privacy.state import expect

_SLACK = 1 + 1e-12  # shares that add up to the budget must not fail by rounding


class BudgetSpent(ValueError):  # noqa: N818 - it states a fact, the release is what is wrong
    """The release was refused, nothing was drawn: it would have cost more than is left."""


class Ledger:
    """Adds up what releases cost one person and refuses to exceed the budget.

    >>> ledger = Ledger(Budget(1.0, 1e-6))
    >>> half = Release.gaussian(sensitivity=1.0, scale=math.sqrt(2) / ledger.budget.mu,
    ...                         what="half", sampler="float, simulation only", scope="window 1")
    >>> _ = ledger.spend(half); _ = ledger.spend(half)
    >>> ledger.spend(half)
    Traceback (most recent call last):
    discreet.privacy.ledger.BudgetSpent: releasing 'half' would cost 1.5 times the budget ...
    """

    def __init__(self, budget: Budget, accounting: str | None = None) -> None:
        self.budget = budget
        default = "pure" if budget.pure else "gaussian"
        self.accounting = one_of("accounting", accounting or default, ("gaussian", "pure", "zcdp"))
        if self.accounting == "gaussian":
            self._limit = budget.mu**2
        else:
            self._limit = budget.epsilon if self.accounting == "pure" else budget.rho
        self._common = 0.0
        self._scopes: dict[str, float] = {}
        self._dearest = 0.0
        self._releases: list[Release] = []

    @property
    def releases(self) -> tuple[Release, ...]:
        """Everything released so far, in order."""
        return tuple(self._releases)

    def spent(self, scope: str | None = None) -> float:
        """The share of the budget that is gone: in one scope, or at worst over all of them."""
        return self._share(self._common + self._cost_in(scope))

    def spend(self, release: Release) -> Release:
        """Book a release that is about to be made, or raise `BudgetSpent` and change nothing."""
        cost = self._cost(release)
        total = self._common + self._cost_in(release.scope) + cost
        if not (cost >= 0 and total <= self._limit * _SLACK):  # also refuses NaN
            share = f"{self._share(total):.3g} times the budget"
            raise BudgetSpent(
                f"releasing {release.what!r} would cost "
                f"{share if math.isfinite(cost) else f'more than any {self.accounting} budget'} "
                f"(epsilon={self.budget.epsilon:g}, delta={self.budget.delta:g}); "
                "split the budget over the releases on the same rows"
            )
        if release.scope is None:
            self._common += cost
        else:
            here = self._scopes.get(release.scope, 0.0) + cost
            self._scopes[release.scope] = here
            self._dearest = max(self._dearest, here)
        self._releases.append(release)
        return release

    def guarantee(
        self,
        *,
        trust: str = "central",
        unprotected: tuple[str, ...] = (),
        reference: str = "",
    ) -> Guarantee:
        """The promise this ledger keeps, with everything released so far."""
        k = self.budget.contributions
        if k > 1:
            limit = f"people in more than {k} rounds (whoever calls must enforce that limit)"
            unprotected = (*unprotected, limit)
        return Guarantee(
            epsilon=self.budget.epsilon,
            delta=0.0 if self.accounting == "pure" else self.budget.delta,
            contributions=self.budget.contributions,
            trust=trust,
            releases=self.releases,
            unprotected=unprotected,
            reference=reference,
        )

    def state_dict(self) -> dict[str, Any]:
        """Plain values from which `load_state_dict` continues the same account."""
        records = json.dumps([release.to_dict() for release in self._releases])
        return {**self._config(), "releases": records}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue a saved account; this ledger must be unused, its budget is checked again."""
        expect(state, **self._config())
        if self._releases:
            raise ValueError("load into a new Ledger: this one has releases that cannot be undone")
        account = Ledger(self.budget, self.accounting)
        for record in json.loads(state["releases"]):
            account.spend(Release.from_dict(record))
        self.__dict__.update(account.__dict__)

    def _config(self) -> dict[str, Any]:
        return {
            "format": 1,
            "accounting": self.accounting,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "contributions": self.budget.contributions,
        }

    def _cost(self, release: Release) -> float:
        if self.budget.off:
            return 0.0
        if self.accounting == "gaussian":
            return release.mu**2
        return release.epsilon if self.accounting == "pure" else release.rho

    def _cost_in(self, scope: str | None) -> float:
        return self._dearest if scope is None else self._scopes.get(scope, 0.0)

    def _share(self, cost: float) -> float:
        return cost / self._limit if cost else 0.0
