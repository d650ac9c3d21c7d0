"""What may be spent, what one release spends, and (for tests and audits) seeing it leave.

A cost has three currencies; inf means that a release has no finite cost in it.

    epsilon   pure privacy loss: adds up
    mu        Gaussian differential privacy: mu^2 adds up
    rho       zero-concentrated differential privacy: adds up
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from discreet.arrays import integer, positive, real
from discreet.privacy.gaussian import bounded_range_mu, gaussian_mu, zcdp_rho
from discreet.state import value

_CURRENCIES = ("epsilon", "mu", "rho")


class WeakPromiseWarning(UserWarning):
    """The budget is legal and promises next to nothing."""


def weaknesses(epsilon: float, delta: float) -> list[str]:
    """What a weak budget means, in words; nothing for a usual one, or for one that is switched off.

    >>> weaknesses(1.0, 1e-6), len(weaknesses(50.0, 0.9))
    ([], 2)
    """
    words = []
    if 20 <= epsilon < math.inf:  # an outcome may become 500 million times as likely
        words.append(
            f"epsilon = {epsilon:g} promises next to nothing: an observer's guess about a person "
            f"may be right with odds of e^{epsilon:g} to 1; usual values are 0.1 to 10"
        )
    if 0.01 <= delta < 1:  # one person in a hundred may have no promise at all
        words.append(
            f"delta = {delta:g} promises next to nothing: with that chance a person's data may "
            "come out as they are; take much less than 1 / people, such as 1e-6"
        )
    return words


@value
@dataclass(frozen=True, slots=True)
class Budget:
    """A privacy budget for one person, over a learner's whole life.

    `contributions=k` protects a person who appears in up to k rounds: every sensitivity is
    multiplied by k (or, inside a running sum, by the exact norm of k columns). The caller must
    enforce that limit, for instance with `ContributionLimiter`. `epsilon=inf` switches privacy
    off: no noise is added anywhere, and every guarantee says so.

    >>> Budget(1.0, 1e-6).mu  # doctest: +ELLIPSIS
    0.2367...
    """

    epsilon: float  # the privacy loss; inf switches privacy off
    delta: float = 0.0  # 0 for pure privacy
    contributions: int = 1  # rounds in which one person may appear

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "epsilon", positive("epsilon", self.epsilon, allow_inf=True))
        if not 0 <= real("delta", self.delta) < 1:
            raise ValueError(f"delta must lie in [0, 1), got {self.delta!r}")
        set_(self, "delta", float(self.delta))
        set_(self, "contributions", integer("contributions", self.contributions))
        for weakness in weaknesses(self.epsilon, self.delta):
            warnings.warn(weakness, WeakPromiseWarning, stacklevel=4)

    @property
    def off(self) -> bool:
        """Whether privacy is switched off (epsilon is infinite)."""
        return math.isinf(self.epsilon)

    @property
    def pure(self) -> bool:
        """Whether delta is zero, so that only pure mechanisms will do."""
        return self.delta == 0

    @property
    def mu(self) -> float:
        """The Gaussian parameter of the whole budget; an error if delta is 0."""
        return math.inf if self.off else gaussian_mu(self.epsilon, self.delta)

    @property
    def rho(self) -> float:
        """The zero-concentrated parameter of the whole budget; an error if delta is 0."""
        return math.inf if self.off else zcdp_rho(self.epsilon, self.delta)


@value
@dataclass(frozen=True, slots=True)
class Release:
    """What was released, how far one person could move it, and the noise that hides the move.

    `sensitivity` is for everything one person contributes, measured in `norm`; `scale` is the
    noise's own parameter; `scope` names the rows it saw (None: all of them).
    """

    what: str  # was published, in words
    mechanism: str  # that made it
    norm: str  # in which `sensitivity` is measured
    sensitivity: float  # how far one person can move the value
    scale: float  # parameter of the noise
    epsilon: float  # its cost as pure privacy; inf where it has none
    mu: float  # its cost as Gaussian privacy; inf where it has none
    rho: float  # its cost as zCDP; inf where it has none
    sampler: str  # how the noise was drawn
    scope: str | None = None  # the rows it saw; None: all
    crowd: int | None = None  # honest reports that it was shuffled among; None: not shuffled

    def __post_init__(self) -> None:
        for name in ("sensitivity", "scale", *_CURRENCIES):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} of a release must be at least 0, not {name}=NaN or less")

    @classmethod
    def gaussian(cls, *, sensitivity: float, scale: float, **about: Any) -> "Release":
        """N(0, scale^2 I) on a value of this l2 sensitivity: mu = sensitivity / scale."""
        mu = _ratio(sensitivity, scale)
        about |= {"mechanism": "gaussian", "norm": "l2", "sensitivity": sensitivity, "scale": scale}
        return cls(epsilon=math.inf, mu=mu, rho=mu * mu / 2, **about)

    @classmethod
    def pure(cls, *, sensitivity: float, scale: float, **about: Any) -> "Release":
        """Noise of density exp(-norm(z)/scale), or any channel of this loss: width 2 epsilon."""
        epsilon = _ratio(sensitivity, scale)
        about |= {"sensitivity": sensitivity, "scale": scale}
        return cls(epsilon=epsilon, mu=bounded_range_mu(2 * epsilon), rho=epsilon**2 / 2, **about)

    @classmethod
    def channel(cls, epsilon: float, **about: Any) -> "Release":
        """What leaves a device through a channel of this epsilon, whatever the record is."""
        off = math.isinf(epsilon)
        noise = {"sensitivity": 1.0 if off else epsilon, "scale": 0.0 if off else 1.0}
        return cls.pure(norm="any two records", **noise, **about)

    @classmethod
    def selection(cls, *, sensitivity: float, scale: float, **about: Any) -> "Release":
        """Gumbel(scale) on scores that each move by `sensitivity`: width epsilon = 2 D / scale."""
        epsilon = 2 * _ratio(sensitivity, scale)
        about |= {"mechanism": "exponential", "norm": "linf"}
        about |= {"sensitivity": sensitivity, "scale": scale}
        return cls(epsilon=epsilon, mu=bounded_range_mu(epsilon), rho=epsilon**2 / 8, **about)

    @classmethod
    def concentrated(cls, *, rho: float, **about: Any) -> "Release":
        """A release of which only a zCDP cost is known."""
        return cls(epsilon=math.inf, mu=math.inf, rho=rho, **about)

    @classmethod
    def composed(cls, releases: Sequence["Release"], **about: Any) -> "Release":
        """Several adaptive releases on the same rows as one: what they cost together at worst.

        Costs add up in each currency: of those on all rows, and of the dearest scope. mu^2 adds up
        for every release that is mu-GDP, not only for Gaussian ones (Dong, Roth, Su 2022).
        """
        costs = {}
        for currency, exponent in (("epsilon", 1), ("mu", 2), ("rho", 1)):
            totals: dict[str | None, float] = {None: 0.0}
            for release in releases:
                cost = getattr(release, currency) ** exponent
                totals[release.scope] = totals.get(release.scope, 0.0) + cost
            common = totals.pop(None)
            costs[currency] = (common + max(totals.values(), default=0.0)) ** (1 / exponent)
        kinds = {release.mechanism for release in releases}
        return cls(
            mechanism="gaussian" if kinds == {"gaussian"} else "composition",
            norm="any two records",
            sensitivity=costs["mu"],
            scale=1.0,
            sampler="; ".join(sorted({release.sampler for release in releases})),
            **costs,
            **about,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values; a currency in which the release has no finite price is left out.

        So a Gaussian release has mu and rho, and no epsilon. Without any price, as without noise,
        all three are the string "inf".
        """
        record = asdict(self)
        priced = any(math.isfinite(record[name]) for name in _CURRENCIES)
        return {
            name: plain(item)
            for name, item in record.items()
            if not (priced and name in _CURRENCIES and math.isinf(item))
            and not (name == "crowd" and item is None)
        }

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> "Release":
        fields: dict[str, Any] = {n: math.inf if v == "inf" else v for n, v in record.items()}
        return cls(**(dict.fromkeys(_CURRENCIES, math.inf) | fields))


def plain(item: Any) -> Any:
    """`item` for JSON: an infinite number as the string "inf"."""
    return "inf" if isinstance(item, float) and math.isinf(item) else item


def _ratio(sensitivity: float, scale: float) -> float:
    return math.inf if scale == 0 else sensitivity / scale


# -- seeing releases -------------------------------------------------------------------------------

# Mechanisms, channels and running sums report every value that they publish, and nothing else: no
# private value, no noise, no state. An observer sees what any attacker who reads all outputs would.


class Observed(NamedTuple):
    """A published value.

    kind   "release" of a mechanism or of a sum that is published once, "sum" of a running sum,
           "report" through a channel, or "choice" by the exponential mechanism
    """

    kind: str
    value: Any  # a copy of what was published
    release: Release | None  # the record of its cost, where it has one


_observer: list[Observed] | None = None
_kinds: tuple[str, ...] = ()  # that are observed; empty: all
_inside: ContextVar[bool] = ContextVar("_inside", default=False)


@contextmanager
def observed(*kinds: str) -> Iterator[list[Observed]]:
    """A list that fills with all that is published while the block runs, or with some kinds of it.

    Values published in one call stand in one entry. One block at a time, in one thread.
    """
    global _observer, _kinds
    if _observer is not None:
        raise RuntimeError("observed() is active already; use the list of the outer block")
    seen: list[Observed] = []
    _observer, _kinds = seen, kinds
    try:
        yield seen
    finally:
        _observer = None


@contextmanager
def unpublished() -> Iterator[None]:
    """What mechanisms compute in this block stays inside: it is part of a value not yet released.

    For a private computation that runs a mechanism on its way, such as a trial fit whose outcome
    becomes one vote: the vote's release is what is paid for and what is seen.
    """
    outside = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(outside)


def observe(kind: str, value: Any, release: Release | None = None) -> None:
    """Tell the observer, if there is one, that this value is published now."""
    if _observer is not None and not _inside.get() and (kind in _kinds or not _kinds):
        _observer.append(Observed(kind, np.array(value, dtype=np.float64), release))


def values(seen: list[Observed]) -> list[Any]:
    """The published values alone."""
    return [each.value for each in seen]
