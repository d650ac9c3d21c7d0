"""The computed promise: machine readable, and in plain words."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from discreet.arrays import one_of
from discreet.privacy.gaussian import gaussian_epsilon, zcdp_epsilon
from discreet.privacy.release import Release, plain

_TRUST = {
    "central": "Everything this learner publishes",
    "joint": "Everything shown to everybody except the person concerned",
    "local": "Every report that leaves a device",
}
_VISITS = {
    "first": "the first reward of each person counts",
    "all": "one reward of each person in each window counts",
}


class Report(Protocol):
    """An audit that knows how to write itself down."""

    def to_dict(self) -> dict[str, Any]:
        """Lower bound, method, number of runs, confidence, code version."""


# What local privacy does not promise where device and learner are simulated together.
ONE_PROCESS = (
    "the decision served, to whoever serves it",
    "anything, against whoever runs this process: device and learner are one here",
)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What a learner promises each person over its whole life, and what it has released so far.

    `epsilon` and `delta` bound everything it will ever release; `epsilon_at` computes what the
    releases made so far cost, from their sensitivities and noise alone.
    """

    epsilon: float  # bound on the privacy loss of everything, now and later
    delta: float  # probability with which that bound may fail
    trust: str = "central"  # "central", "joint" or "local"
    contributions: int = 1  # rounds of one person that are covered
    releases: tuple[Release, ...] = ()  # what was published so far
    unprotected: tuple[str, ...] = ()  # what is not promised, in words
    reference: str = ""  # where the method comes from
    neighbours: str = "replace-one"  # which data sets are told apart
    audits: tuple[Mapping[str, Any], ...] = ()  # results of audits
    visits: str = ""  # of a person, that count: "first" or "all"; "" where a round is protected

    def __post_init__(self) -> None:
        one_of("trust", self.trust, tuple(_TRUST))
        one_of("visits", self.visits, ("", *_VISITS))

    @property
    def private(self) -> bool:
        """False when privacy is switched off (epsilon is infinite)."""
        return math.isfinite(self.epsilon)

    @property
    def unit(self) -> str:
        """What is hidden: a round, a user with a bounded number of rounds, a person with all."""
        if self.visits:
            return "person"
        k = self.contributions
        return "round" if k == 1 else f"user, at most {k} rounds"

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
        common = [release for release in self.releases if release.scope is None]
        scopes: dict[str, list[Release]] = {}
        for release in self.releases:
            if release.scope is not None:
                scopes.setdefault(release.scope, list(common)).append(release)
        distinct = {tuple(sorted(_costs(group))): group for group in (common, *scopes.values())}
        return max(_epsilon(group, delta) for group in distinct.values())

    def with_audit(self, report: Report) -> "Guarantee":
        """The same promise with one more attack on record."""
        return replace(self, audits=(*self.audits, report.to_dict()))

    def to_dict(self) -> dict[str, Any]:
        """A stable, versioned, JSON-ready record of the promise."""
        return {
            "format": 1,
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
            "audits": [dict(audit) for audit in self.audits],
        }

    def statement(self) -> str:
        """The promise in words for someone who is not an expert."""
        parts = [self._promise(), self._protected(), self._noise()]
        if self.unprotected:
            parts.append("Not protected: " + "; ".join(self.unprotected) + ".")
        for audit in self.audits:
            parts.append(
                f"Attacked {audit['runs']} times ({audit['method']}): the attack proves epsilon of "
                f"at least {audit['lower_bound']:.3g} at delta = {audit['delta']:g}, with "
                f"{audit['confidence']:.4g} confidence."
            )
        if self.reference:
            parts.append(f"Method: {self.reference}.")
        return "\n".join(parts)

    def _promise(self) -> str:
        if not self.private:
            return (
                "NO PRIVACY. epsilon is infinite: no noise is added, and what is published may "
                "reveal anyone's data."
            )
        odds = math.exp(self.epsilon)
        rounded = f"{odds:.3g}" if odds < 1e6 else f"e^{self.epsilon:g}"
        but = f", plus {self.delta:g}," if self.delta else ""
        return (
            f"{_TRUST[self.trust]} is differentially private (epsilon = {self.epsilon:g}, "
            f"delta = {self.delta:g}): whatever one person did, no outcome becomes more than "
            f"{rounded} times as likely{but} as it would be had they done anything else."
        )

    def _protected(self) -> str:
        if self.visits:
            return (
                "Protected: one person with everything they did in any number of visits, all of it "
                f"replaced; {_VISITS[self.visits]} (neighbours: {self.neighbours})."
            )
        who = (
            "one round: its features and its feedback, whatever they were"
            if self.contributions == 1
            else f"one person with everything they did in up to {self.contributions} rounds"
        )
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


def _costs(group: list[Release]) -> list[tuple[float, float, float]]:
    return [(release.epsilon, release.mu, release.rho) for release in group]


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
