"""One value that left the private side, and what it costs a person in three currencies.

    epsilon   pure privacy loss: adds up
    mu        Gaussian differential privacy: mu^2 adds up
    rho       zero-concentrated differential privacy: adds up

inf means that the release has no finite cost in that currency.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from discreet.privacy.gaussian import bounded_range_mu
from discreet.state import value

_CURRENCIES = ("epsilon", "mu", "rho")


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
        for name in ("sensitivity", "scale", "epsilon", "mu", "rho"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} of a release must be at least 0, not {name}=NaN or less")

    @classmethod
    def gaussian(cls, *, sensitivity: float, scale: float, **about: Any) -> "Release":
        """N(0, scale^2 I) on a value of this l2 sensitivity: mu = sensitivity / scale."""
        mu = _ratio(sensitivity, scale)
        return cls(
            mechanism="gaussian",
            norm="l2",
            sensitivity=sensitivity,
            scale=scale,
            epsilon=math.inf,
            mu=mu,
            rho=mu * mu / 2,
            **about,
        )

    @classmethod
    def pure(cls, *, mechanism: str, sensitivity: float, scale: float, **about: Any) -> "Release":
        """Noise of density exp(-norm(z)/scale), or any channel of this loss: width 2 epsilon."""
        epsilon = _ratio(sensitivity, scale)
        return cls(
            mechanism=mechanism,
            sensitivity=sensitivity,
            scale=scale,
            epsilon=epsilon,
            mu=bounded_range_mu(2 * epsilon),
            rho=epsilon**2 / 2,
            **about,
        )

    @classmethod
    def shuffled(cls, *, local_epsilon: float, crowd: int, **about: Any) -> "Release":
        """A batch of reports of this epsilon each, which hide among `crowd` (privacy/shuffle.py).

        The three currencies say what one report costs without the crowd.
        """
        off = math.isinf(local_epsilon)
        return cls.pure(
            norm="any two records",
            sensitivity=1.0 if off else local_epsilon,
            scale=0.0 if off else 1.0,
            crowd=crowd,
            **about,
        )

    @classmethod
    def selection(cls, *, sensitivity: float, scale: float, **about: Any) -> "Release":
        """Gumbel(scale) on scores that each move by `sensitivity`: width epsilon = 2 D / scale."""
        epsilon = 2 * _ratio(sensitivity, scale)
        return cls(
            mechanism="exponential",
            norm="linf",
            sensitivity=sensitivity,
            scale=scale,
            epsilon=epsilon,
            mu=bounded_range_mu(epsilon),
            rho=epsilon**2 / 8,
            **about,
        )

    @classmethod
    def concentrated(cls, *, mechanism: str, rho: float, **about: Any) -> "Release":
        """A release of which only a zCDP cost is known."""
        return cls(mechanism=mechanism, epsilon=math.inf, mu=math.inf, rho=rho, **about)

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
        """The release that `to_dict` wrote."""
        fields: dict[str, Any] = {n: math.inf if v == "inf" else v for n, v in record.items()}
        return cls(**(dict.fromkeys(_CURRENCIES, math.inf) | fields))


def plain(item: Any) -> Any:
    """`item` for JSON: an infinite number as the string "inf"."""
    return "inf" if isinstance(item, float) and math.isinf(item) else item


def _ratio(sensitivity: float, scale: float) -> float:
    return math.inf if scale == 0 else sensitivity / scale
