"""The computed promise: machine readable, and in plain words."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.arrays import one_of
from discreet.privacy.gaussian import gaussian_epsilon, zcdp_epsilon
from discreet.privacy.release import Release, plain, weaknesses
from discreet.privacy.shuffle import Shuffled, shuffled_epsilon
from discreet.state import value

_TRUST = {
    "central": "Everything this learner publishes",
    "joint": "Everything shown to everybody except the person concerned",
    "local": "Every report that leaves a device",
    "shuffled": "Everything that anybody but the relay sees",
}
_VISITS = {
    "first": "the first reward of each person counts",
    "all": "one reward of each person in each window counts",
}
_RECORDS = {  # what one person contributes: one of it, and what is in it
    "round": "one round: its features and its feedback, whatever they were",
    "row": "one row: its features and its label, whatever they were",
    "person": "one person: the values of all metrics, whatever they were",
}
# What nobody is promised whose rounds come one after the other.
STREAM = ("the number of rounds", "arrival times", "the public bounds")
# What local privacy does not promise where device and learner are simulated together.
ONE_PROCESS = (
    "the decision served, to whoever serves it",
    "anything, against whoever runs this process: device and learner are one here",
)


@value
@dataclass(frozen=True, slots=True)
class Guarantee:
    """What a learner promises each person over its whole life, and what it has released so far.

    `epsilon` and `delta` bound everything it will ever release; `epsilon_at` computes what the
    releases made so far cost, from their sensitivities and noise alone. `record` is what one person
    contributes: a round of a learner, or a row of a table.
    """

    epsilon: float  # bound on the privacy loss of everything, now and later
    delta: float  # probability with which that bound may fail
    trust: str = "central"  # "central", "joint", "local" or "shuffled"
    contributions: int = 1  # rounds of one person that are covered
    releases: tuple[Release, ...] = ()  # what was published so far
    unprotected: tuple[str, ...] = ()  # what is not promised, in words; people beyond the limit too
    reference: str = ""  # where the method comes from
    neighbours: str = "replace-one"  # which data sets are told apart
    visits: str = ""  # of a person, that count: "first" or "all"; "" where a record is protected
    record: str = "round"  # what one person contributes: "round", "row" or "person"
    crowd: Shuffled | None = None  # what batches are counted on for, under shuffled trust

    def __post_init__(self) -> None:
        one_of("trust", self.trust, tuple(_TRUST))
        one_of("visits", self.visits, ("", *_VISITS))
        one_of("record", self.record, tuple(_RECORDS))
        if (self.crowd is None) == (self.trust == "shuffled"):
            raise ValueError("a crowd belongs to shuffled trust, and only to that")
        if self.contributions > 1:
            more = f"people in more than {self.contributions} {self.record}s"
            limit = f"{more} (whoever calls must enforce that limit)"
            if limit not in self.unprotected:  # as it is in a promise made of another
                object.__setattr__(self, "unprotected", (*self.unprotected, limit))

    @property
    def local_epsilon(self) -> float:
        """What all reports of one person cost by themselves, against relay and server together.

        The same as `epsilon` under local trust; infinite where records leave the device.
        """
        if self.crowd is None or not self.private:
            return self.epsilon if self.trust == "local" else math.inf
        return self.contributions * self.crowd.local_epsilon

    @property
    def private(self) -> bool:
        """False when privacy is switched off (epsilon is infinite)."""
        return math.isfinite(self.epsilon)

    @property
    def unit(self) -> str:
        """What is hidden: a round or row, a user with some of them, a person with all."""
        if self.visits:
            return "person"
        k = self.contributions
        return self.record if k == 1 else f"user, at most {k} {self.record}s"

    @property
    def sampler(self) -> str:
        """How the noise is drawn; mechanism by mechanism where they differ."""
        drawn = sorted({(release.mechanism, release.sampler) for release in self.releases})
        if len({sampler for _, sampler in drawn}) <= 1:
            return drawn[0][1] if drawn else "nothing drawn yet"
        return "; ".join(f"{mechanism}: {sampler}" for mechanism, sampler in drawn)

    def epsilon_at(self, delta: float) -> float:
        """The smallest epsilon we can compute for the releases so far, at another delta.

        Sums over releases on the same rows, takes the worst of disjoint scopes. Exact for Gaussian
        releases; mixtures go through dp-accounting. A report, not a promise: where noise was chosen
        by looking at earlier releases, only `epsilon` and `delta` are guaranteed.
        """
        if not 0 <= delta < 1:
            raise ValueError(f"delta must lie in [0, 1), got {delta!r}")
        if self.trust == "shuffled":
            return self._shuffled_epsilon(delta)
        common = [release for release in self.releases if release.scope is None]
        scopes: dict[str, list[Release]] = {}
        for release in self.releases:
            if release.scope is not None:
                scopes.setdefault(release.scope, list(common)).append(release)
        distinct = {
            tuple(sorted((each.epsilon, each.mu, each.rho) for each in group)): group
            for group in (common, *scopes.values())
        }
        return max(_epsilon(group, delta) for group in distinct.values())

    def _shuffled_epsilon(self, delta: float) -> float:
        """Each of a person's reports is in another batch: k times the dearest one, at delta / k."""
        k = self.contributions
        pure = k * max((release.epsilon for release in self.releases), default=0.0)
        if delta == 0 or not 0 < pure < math.inf:
            return pure
        distinct = {(r.epsilon, r.crowd) for r in self.releases if r.crowd is not None}
        found = k * max(shuffled_epsilon(delta / k, *each) for each in distinct)
        return min(pure, found, self.epsilon if delta >= self.delta else math.inf)

    def spent(self) -> str:
        """What the releases so far cost, of what is promised for all that is ever released."""
        cost = self.epsilon_at(self.delta)
        limit = f"{self.epsilon:g} (delta = {self.delta:g})"
        return f"Spent so far: epsilon = {cost:.4g} of {limit}."

    def to_dict(self) -> dict[str, Any]:
        """A stable, versioned, JSON-ready record of the promise."""
        record = {
            "format": 2,  # 1: releases had "epsilon": "inf" where only mu or rho is finite
            "epsilon": plain(self.epsilon),
            "delta": self.delta,
            "trust": self.trust,
            "neighbours": self.neighbours,
            "unit": self.unit,
            "contributions": self.contributions,
            "sampler": self.sampler,
            "releases": [release.to_dict() for release in self.releases],
            "unprotected": list(self.unprotected),
            "reference": self.reference,
            "audits": [],  # a dossier shows them
        }
        if self.crowd is not None:
            record["local_epsilon"] = plain(self.local_epsilon)
            record["minimum"] = self.crowd.minimum
            record["honest"] = self.crowd.honest
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Guarantee":
        """The promise that `to_dict` wrote, or a service answered with.

        >>> from discreet.privacy import Budget, Ledger
        >>> promise = Ledger(Budget(1.0, 1e-6)).guarantee(record="row")
        >>> Guarantee.from_dict(promise.to_dict()) == promise
        True
        """
        try:
            crowd = None
            if record["trust"] == "shuffled":
                own = record["local_epsilon"] / record["contributions"]
                crowd = Shuffled(record["minimum"], record["honest"], own)
            given: dict[str, Any] = {
                "epsilon": float(record["epsilon"]), "delta": record["delta"],
                "trust": record["trust"], "contributions": record["contributions"],
                "releases": tuple(map(Release.from_dict, record["releases"])),
                "unprotected": tuple(record["unprotected"]), "reference": record["reference"],
                "neighbours": record["neighbours"], "crowd": crowd,
            }  # fmt: skip
            # What the record has only in the words of its unit and its statement.
            found = [cls(**given, visits=v, record=r) for v in ("", *_VISITS) for r in _RECORDS]
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ValueError("this is not the JSON of a guarantee") from None
        words = record.get("statement")
        for each in found:
            plain_words = {"statement": words if words is None else each.statement()}
            if {**each.to_dict(), **plain_words} == {**record, "statement": words}:
                if each.epsilon_at(each.delta) > each.epsilon * (1 + 1e-6):
                    raise ValueError("the releases of this guarantee cost more than it promises")
                return each
        raise ValueError("this guarantee was changed, or written by another version of discreet")

    def __repr__(self) -> str:
        terms = f"epsilon={self.epsilon:g}, delta={self.delta:g}, trust={self.trust!r}"
        return f"<Guarantee: {terms}, {self.unit}; {len(self.releases)} releases>"

    def __str__(self) -> str:
        return self.statement()

    def statement(self) -> str:
        """The promise in words for someone who is not an expert."""
        if not self.private:
            return "\n".join(filter(None, [_NO_PRIVACY, self._noise(), self._method()]))
        parts = [self._promise(), self._together(), self._protected(), self._noise()]
        parts += [f"WEAK: {weakness}." for weakness in weaknesses(self.epsilon, self.delta)]
        if self.unprotected:
            parts.append("Not protected: " + "; ".join(self.unprotected) + ".")
        return "\n".join(filter(None, [*parts, self._method()]))

    def _method(self) -> str:
        return f"Method: {self.reference}." if self.reference else ""

    def _promise(self) -> str:
        but = f", plus {self.delta:g}," if self.delta else ""
        whose = "one person did" if self.record == "round" else "the data of one person say"
        other = "had they done" if self.record == "round" else "had they said"
        return (
            f"{_TRUST[self.trust]} is differentially private (epsilon = {self.epsilon:g}, "
            f"delta = {self.delta:g}): whatever {whose}, no outcome becomes more than "
            f"{_times(self.epsilon)}{but} as it would be {other} anything else."
        )

    def _together(self) -> str:
        """The second number of shuffled trust, and what the first one counts on."""
        if self.crowd is None:
            return ""
        return (
            "Against the relay and the server together nobody hides in a crowd: there the reports "
            f"of one person are private by themselves (epsilon = {self.local_epsilon:g} at most, "
            f"delta = 0). The first promise counts on a relay that shuffles each batch, tells "
            "nothing but the reports, takes one of each person and releases no batch with fewer "
            f"than {self.crowd.minimum:.0%} of its planned reports; and on {self.crowd.honest:.0%} "
            "of these to be drawn by honest devices. With fewer, epsilon grows towards the second."
        )

    def _protected(self) -> str:
        if self.visits:
            return (
                "Protected: one person with everything they did in any number of visits, all of it "
                f"replaced; {_VISITS[self.visits]} (neighbours: {self.neighbours})."
            )
        k = self.contributions
        did = "everything they did in" if self.record == "round" else "all of their data in"
        who = _RECORDS[self.record] if k == 1 else f"one person with {did} up to {k} {self.record}s"
        return f"Protected: {who} (neighbours: {self.neighbours})."

    def _noise(self) -> str:
        if not self.private:
            return f"Released so far: {len(self.releases)} values, none with noise."
        if not self.releases:
            return "Released so far: nothing."
        made = f"Released so far: {len(self.releases)}; noise: {self.sampler}."
        samplers = " ".join(release.sampler for release in self.releases)
        if "simulation only" in samplers:
            made += (
                " SIMULATION ONLY: whoever knows the seed can remove the noise; use SecureNoise()"
                " (or noise=None) for real data."
            )
        elif "float" in samplers:
            made += (
                " Floating-point noise is not safe against someone who sees every bit of an"
                " output: round what you publish."
            )
        return made


_NO_PRIVACY = (
    "NO PRIVACY. epsilon is infinite: no noise is added, and what is published may reveal anyone's "
    "data.\nProtected: nothing and nobody."
)


def _times(epsilon: float) -> str:
    """e^epsilon in words, never rounded down.

    >>> _times(1.0), _times(0.001), _times(20.0)
    ('2.72 times as likely', '1.0011 times as likely', 'e^20 times as likely')
    """
    odds = math.exp(min(epsilon, 700.0))
    if odds > 1e6:
        return f"e^{epsilon:g} times as likely"
    # Three digits, or where it is close to 1 two of the excess.
    digits = 2 - math.floor(math.log10(odds))
    if odds < 1.5:
        digits = 1 - math.floor(math.log10(math.expm1(epsilon)))
    rounded = math.ceil(odds * 10.0**digits - 1e-6) / 10.0**digits
    return f"{rounded:.{max(digits, 0)}f} times as likely"


def _epsilon(group: list[Release], delta: float) -> float:
    """The best of several valid ways to compose releases on the same rows."""
    pure = math.fsum(release.epsilon for release in group)
    if delta == 0:
        return pure
    mu = math.sqrt(math.fsum(release.mu**2 for release in group))
    rho = math.fsum(release.rho for release in group)
    known = min(pure, gaussian_epsilon(mu, delta), zcdp_epsilon(rho, delta))
    if len(group) < 2 or all(release.mechanism == "gaussian" for release in group):
        return known
    rest = [release for release in group if math.isinf(release.epsilon)]
    if 0 < len(rest) < len(group):  # the pure part by summing, whatever else is there
        added = math.fsum(release.epsilon for release in group if math.isfinite(release.epsilon))
        known = min(known, added + _epsilon(rest, delta))
    return min(known, _numeric_epsilon(group, delta))


def _numeric_epsilon(group: list[Release], delta: float) -> float:
    """Numerical composition by dp-accounting: Gaussians as they are, the rest as pure releases."""
    pures = [release.epsilon for release in group if release.mechanism != "gaussian"]
    if any(math.isinf(release.mu) for release in group) or max(pures) > 50:
        return math.inf  # without a finite price, or beyond what it can discretise
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    parts = []
    gaussian = math.sqrt(math.fsum(r.mu**2 for r in group if r.mechanism == "gaussian"))
    if gaussian:
        parts.append(pld.from_gaussian_mechanism(1 / gaussian))
    for epsilon in pures:
        pure = common.DifferentialPrivacyParameters(epsilon, 0.0)
        parts.append(pld.from_privacy_parameters(pure))
    total = parts[0]
    for part in parts[1:]:
        total = total.compose(part)
    return float(total.get_epsilon_for_delta(delta))
