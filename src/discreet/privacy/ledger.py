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
    "shuffled"  batches of reports against 1: a batch that hides its reports well enough among its
                honest people costs 1, one that does not has no price (`batch_keeps_promise`)

Numerical composition is tighter for mixtures but not valid for adaptively chosen noise; it is
used to report (`Guarantee.epsilon_at`), never to admit.

Several fits share one ledger by `part`: neighbours are then two worlds in which one person's rows
are others in everything that the fits see, at most `contributions` rows in each; the fits may see
the same table, parts of it or different tables. What a fit costs at most is set aside before it
reads anything, or the fit is refused; what stays booked is what it released.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from discreet.arrays import one_of
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.release import Budget, Release
from discreet.privacy.shuffle import Shuffled, batch_keeps_promise
from discreet.state import Stateful, damaged, value

CURRENCIES = ("gaussian", "pure", "zcdp", "shuffled")


def purposeful(purpose: str | None, what: str) -> str:
    """What is booked: with the name that an analysis was given, if it was.

    >>> purposeful("dose response 2026", "a fit of PrivateGLM")
    'dose response 2026: a fit of PrivateGLM'
    """
    if purpose is None:
        return what
    if not isinstance(purpose, str) or not purpose.strip():
        raise ValueError("purpose must be the name of an analysis, as text")
    return f"{purpose.strip()}: {what}"


class BudgetSpent(ValueError):  # noqa: N818 - it states a fact, the release is what is wrong
    """The release was refused, nothing was drawn: it would have cost more than is left."""


@value
@dataclass(frozen=True)
class Account:
    """What has been released and what that costs: the common part, and each scope's own."""

    releases: tuple[Release, ...] = ()  # in the order they were booked
    common: float = 0.0  # cost of releases that saw all rows
    scopes: dict[str, float] = field(default_factory=dict)  # cost of each scope beside that
    dearest: float = 0.0  # the largest of them

    def cost_in(self, scope: str | None) -> float:
        """The cost of a scope, or of the dearest one, beyond what is common to all."""
        return self.dearest if scope is None else self.scopes.get(scope, 0.0)

    def plus(self, release: Release, cost: float) -> "Account":
        releases = (*self.releases, release)
        if release.scope is None:
            return Account(releases, self.common + cost, self.scopes, self.dearest)
        here = self.cost_in(release.scope) + cost
        scopes = {**self.scopes, release.scope: here}
        return Account(releases, self.common, scopes, max(self.dearest, here))


class Ledger(Stateful):
    """Adds up what releases cost one person and refuses to exceed the budget.

    budget       what may be spent
    accounting   the currency: "gaussian", "pure", "zcdp" or "shuffled"; left out, "pure" if delta
                 is 0 and "gaussian" otherwise

    >>> ledger = Ledger(Budget(1.0, 1e-6))
    >>> half = Release.gaussian(sensitivity=1.0, scale=math.sqrt(2) / ledger.budget.mu,
    ...                         what="half", sampler="float, simulation only", scope="window 1")
    >>> _ = ledger.spend(half); _ = ledger.spend(half)
    >>> ledger.spend(half)
    Traceback (most recent call last):
    discreet.privacy.ledger.BudgetSpent: releasing 'half' would bring the total to 1.5 times ...

    A ledger that was saved or loaded writes each booking to its file at once, so that no crash can
    forget one.

    A `with` block closes the ledger at its end: what was promised then is final.

    >>> with Ledger(Budget(1.0, 1e-6)) as ledger:
    ...     _ = ledger.spend(half)
    >>> ledger.spend(half)
    Traceback (most recent call last):
    discreet.privacy.ledger.BudgetSpent: the ledger is closed: nothing can be released under it ...
    """

    _state = ("_account", "_closed")

    def __init__(self, budget: Budget, accounting: str | None = None) -> None:
        self.budget = budget
        default = "pure" if budget.pure else "gaussian"
        self.accounting = one_of("accounting", accounting or default, CURRENCIES)
        if self.accounting == "gaussian":
            self._limit = budget.mu**2
        elif self.accounting == "shuffled":
            self._limit = 1.0
        else:
            self._limit = budget.epsilon if self.accounting == "pure" else budget.rho
        self._account = Account()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._close()

    def _close(self) -> tuple[Release, ...]:
        """Nothing is released under it any more; what was."""
        with self._live:
            self._closed = True
            self._book(self._account)
            return self.releases

    @property
    def releases(self) -> tuple[Release, ...]:
        """Everything released so far, in order."""
        return self._account.releases

    def spent(self, scope: str | None = None) -> float:
        """The fraction of the budget that is gone: in one scope, or at worst over all of them."""
        return self._fraction(self._account.common + self._account.cost_in(scope))

    def share(self, release: Release) -> float:
        """The fraction of the budget that a release costs by itself."""
        return self._fraction(self._cost(release))

    def check(self, release: Release) -> None:
        """Raise `BudgetSpent` if this release would cost more than is left; change nothing."""
        self._refuse_if_closed()
        self._after(self._account, release)

    def spend(self, release: Release) -> Release:
        """Book a release that is about to be made, or raise `BudgetSpent` and change nothing."""
        self.check(release)  # a refusal is no act
        with self._live:
            self._refuse_if_closed()
            self._book(self._after(self._account, release))
        return release

    def _take_over(self) -> None:
        """Every booking is in the file before its release is made: nothing was lost."""

    @contextmanager
    def part(
        self, budget: Budget, accounting: str | None = None, *, what: str
    ) -> Iterator["Ledger"]:
        """A ledger of its own for something with a budget of its own, such as one fit.

        The whole budget is set aside here first, or `BudgetSpent` is raised. At the end of the
        block, also if it fails, the part is closed; what was released in it stays booked as one
        release, the rest is free again. Two parts may be open at once. No part is shuffled: that
        batches hide their reports is no cost that adds up with others.

        >>> whole, each = Ledger(Budget(1.0, 1e-6)), Budget(0.6, 1e-6)
        >>> with whole.part(each, what="a fit that fails before it releases anything") as part:
        ...     round(whole.spent(), 2), part.spent()
        (0.39, 0.0)
        >>> whole.spent()
        0.0
        """
        if budget.contributions != self.budget.contributions:
            raise ValueError(
                f"the ledger protects people of {self.budget.contributions} rows, this is for "
                f"{budget.contributions}; state the same contributions for both"
            )
        if accounting == "shuffled":
            raise ValueError(
                f"{what} promises (epsilon, delta) by shuffling, which has no price in a ledger of "
                "several fits: fit it without `ledger`, and add its epsilon and delta to those of "
                "the ledger; or take trust='central' or 'local'"
            )
        part = Ledger(budget, accounting)
        reserved = self.spend(part._ceiling(what))
        try:
            yield part
        finally:
            released = part._close()  # first: what came later would be booked nowhere
            kept = [Release.composed(released, what=what)] if released else []
            self._exchange(reserved, kept)

    def _ceiling(self, what: str) -> Release:
        """The most that everything under this ledger may cost, as one release."""
        budget = self.budget
        about: dict[str, Any] = {"what": what, "sampler": "set aside", "scale": 1.0}
        if self.accounting == "gaussian":
            return Release.gaussian(sensitivity=budget.mu, **about)
        about |= {"mechanism": "composition", "norm": "any two records"}
        if self.accounting == "pure":
            return Release.pure(sensitivity=budget.epsilon, **about)
        return Release.concentrated(rho=budget.rho, sensitivity=math.sqrt(2 * budget.rho), **about)

    def _exchange(self, reserved: Release, kept: list[Release]) -> None:
        """Book `kept` in place of what was set aside: it costs no more."""
        with self._live:
            releases = [r for r in self._account.releases if r is not reserved] + kept
            account = Account()
            for release in releases:
                account = account.plus(release, self._cost(release))
            self._book(account)

    def _book(self, account: Account) -> None:
        """Also in the file, if there is one: what is released later must be booked there before."""
        self._account = account
        if self._live.file is not None:
            self._save(self._live.file.path)

    def _including(self, *releases: Release) -> Self:
        """A new ledger with these releases booked too, or `BudgetSpent`; this one is unchanged.

        For owners who change several things in one step. The old ledger must not be used further.
        """
        self._refuse_if_closed()
        account = self._account
        for release in releases:
            account = self._after(account, release)
        after = type(self)(self.budget, self.accounting)
        after._commit(_account=account, _run=self._run)
        return after

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise BudgetSpent(
                "the ledger is closed: nothing can be released under it after its `with` block; "
                "open another for other people's data"
            )

    def _after(self, account: Account, release: Release) -> Account:
        """The account with this release booked, or `BudgetSpent`."""
        cost = self._cost(release)
        total = account.common + account.cost_in(release.scope) + cost
        # Fractions that add up to the budget must not fail by rounding; NaN is refused too.
        if not (cost >= 0 and total <= self._limit * (1 + 1e-12)):
            price = f"bring the total to {self._fraction(total):.3g} times the budget"
            if not math.isfinite(cost):
                price = f"cost more than any {self.accounting} budget"
            raise BudgetSpent(
                f"releasing {release.what!r} would {price} "
                f"(epsilon={self.budget.epsilon:g}, delta={self.budget.delta:g}); "
                "split the budget over the releases on the same rows"
            )
        return account.plus(release, cost)

    def guarantee(
        self,
        *,
        trust: str = "central",
        unprotected: tuple[str, ...] = (),
        reference: str = "",
        visits: str = "",
        record: str = "round",
        crowd: Shuffled | None = None,
    ) -> Guarantee:
        """The promise this ledger keeps, with everything released so far."""
        return Guarantee(
            epsilon=self.budget.epsilon,
            delta=0.0 if self.accounting == "pure" else self.budget.delta,
            contributions=self.budget.contributions,
            trust=trust,
            releases=self.releases,
            unprotected=unprotected,
            reference=reference,
            neighbours="replace-one-person" if visits else "replace-one",
            visits=visits,
            record=record,
            crowd=crowd,
        )

    def _validate(self) -> None:
        """Costs are computed again from the releases: no state can claim to have spent less."""
        account = Account()
        try:
            for release in self.releases:
                account = self._after(account, release)
        except (AttributeError, TypeError, BudgetSpent):
            raise damaged("releases") from None
        if account != self._account:
            raise damaged("costs")

    def _cost(self, release: Release) -> float:
        if self.budget.off:
            return 0.0
        if self.accounting == "gaussian":
            return release.mu**2
        if self.accounting == "shuffled":
            return self._batch_cost(release)
        return release.epsilon if self.accounting == "pure" else release.rho

    def _batch_cost(self, release: Release) -> float:
        """1 for a batch that hides its reports well enough; several of one person: in several."""
        budget = self.budget
        if release.scope is None or release.crowd is None or math.isinf(release.epsilon):
            return math.inf
        kept = batch_keeps_promise(
            budget.epsilon, budget.delta, release.epsilon, release.crowd,
            reports=budget.contributions,
        )  # fmt: skip
        return 1.0 if kept else math.inf

    def _fraction(self, cost: float) -> float:
        return cost / self._limit if cost else 0.0
