"""One page for whoever has to sign: what is promised, by what, what was released and attacked.

Everything on it is public: arguments, the computed promise, released scales, results of attacks on
simulated people. Nothing is read from a state but its promise and its arguments.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet import __version__
from discreet.experiments.pages import render
from discreet.experiments.power import verdict
from discreet.privacy import Guarantee
from discreet.privacy.release import Release, plain
from discreet.words import listed

if TYPE_CHECKING:
    from discreet.audit.run import Audited

LONGEST = 400  # characters of an argument that are shown
_SECRET = ("noise", "seed", "random_state")


@dataclass(frozen=True)
class Dossier:
    """What a page is about.

    The audits are None where none were asked for, and empty where no attack of the library is one
    on this configuration.
    """

    kind: str  # the class, or what else is described
    source: str  # the file, or whatever it was read from
    promise: Guarantee  # computed
    definition: Mapping[str, Any]  # arguments, plain
    written_by: str = ""  # version of discreet that wrote the file
    run: str = ""  # the random name of a live object
    audits: "Sequence[Audited] | None" = None  # of the attacks that fit
    beside: Sequence[str] = field(default=())  # arguments that the attacks do not share
    made: datetime = field(default_factory=lambda: datetime.now(UTC))  # when

    @property
    def arguments(self) -> list[tuple[str, str]]:
        shown = {name: each for name, each in self.definition.items() if name not in _SECRET}
        return [(name, _shown(value)) for name, value in shown.items()]

    @property
    def releases(self) -> list[tuple[str, ...]]:
        """Those that look alike in one line."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for each in self.promise.releases:
            where = "all data" if each.scope is None else each.scope
            groups.setdefault(_line(each), []).append(where)
        return [
            (what, f"{len(scopes):,}", _scopes(scopes), *rest)
            for (what, *rest), scopes in groups.items()
        ]

    @property
    def samplers(self) -> str:
        """Who drew the noise."""
        return listed(sorted({each.sampler for each in self.promise.releases}))


def html(*dossiers: Dossier) -> str:
    kinds = list(dict.fromkeys(each.kind for each in dossiers))
    private = [each.promise for each in dossiers]
    return render(
        "dossier.html",
        title=f"Privacy dossier: {listed(kinds)}",
        dossiers=dossiers,
        verdict=verdict,
        version=__version__,
        # Somebody who is in all of them, by basic composition.
        together=(sum(each.epsilon for each in private), sum(each.delta for each in private)),
    )


ASKED = None  # for whoever deploys it to say


def record(dossier: Dossier) -> dict[str, Any]:
    """The same for machines: the promise, an entry for the public registry, SP 800-226's questions.

    The entry has the sections and tiers of the Differential Privacy Deployments Registry
    (arXiv 2509.13509; registry.opendp.org). What only a deployer knows is null.
    """
    promise = dossier.promise
    audits = [{**each.close.to_dict(), "verdict": verdict(each)} for each in dossier.audits or ()]
    return {
        "format": 1,
        "kind": dossier.kind,
        "made": dossier.made.isoformat(timespec="seconds"),
        "versions": {"discreet": __version__, "file": dossier.written_by or None},
        "definition": {
            name: _shown(value) for name, value in dossier.definition.items() if name not in _SECRET
        },
        "promise": promise.to_dict(),
        "statement": promise.statement(),
        "audits": None if dossier.audits is None else audits,
        "registry": _entry(promise),
        "sp_800_226": _questions(promise, dossier.audits),
    }


def _entry(promise: Guarantee) -> dict[str, Any]:
    flavor = "pure" if promise.delta == 0 else "approximate"
    return {
        "tier_1": dict.fromkeys(
            ("data_curator", "intended_use", "data_product", "publication_date"), ASKED
        ),
        "tier_2": {
            "flavor": f"{flavor} differential privacy, replace-one neighbours",
            "privacy_unit": promise.unit,
            "epsilon": plain(promise.epsilon),
            "delta": promise.delta,
            "deployment_model": promise.trust,
        },
        "tier_3": {
            "neighbours": promise.neighbours,
            "contributions_covered": promise.contributions,
            "unprotected_quantities": list(promise.unprotected),
            "mechanisms": sorted({each.mechanism for each in promise.releases}),
            "composition": "of the releases in `promise`: all on the same rows, and the dearest "
            "of disjoint scopes",
            "post_processing": "whatever is computed from releases costs nothing",
            "sampler": promise.sampler,
            "reference": promise.reference,
            "implementation": f"discreet {__version__}",
            "justification_of_epsilon": ASKED,
            "access_control": ASKED,
        },
    }


def _questions(promise: Guarantee, audits: Any) -> list[dict[str, Any]]:
    """The components of the differential privacy pyramid of NIST SP 800-226, from its top down."""
    tried = "none was asked for" if audits is None else f"{len(audits)} of the library, in `audits`"
    answers = (
        ("How strong is the guarantee?", f"epsilon {promise.epsilon:g}, delta {promise.delta:g}"),
        ("What is the unit of privacy?", f"{promise.unit}; neighbours: {promise.neighbours}"),
        ("Are the mechanisms correct?", f"releases in `promise`; attacks: {tried}"),
        ("Is the noise exact?", promise.sampler),
        ("What is not covered?", "; ".join(promise.unprotected)),
        ("Who is trusted?", f"{promise.trust} trust"),
        ("How useful are the results, and for whom are they worse?", ASKED),
        ("Who can reach the raw data, and how long are they kept?", ASKED),
        ("How were the data collected?", ASKED),
    )
    return [{"question": question, "answer": answer} for question, answer in answers]


def _shown(value: Any) -> str:
    """An argument in words: plain values as JSON, arrays by their shape, objects by their class."""
    text = _plain(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def _plain(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, str):
        return value
    if isinstance(value, np.ndarray):
        return f"an array of shape {' x '.join(map(str, value.shape)) or 'one'}"
    if isinstance(value, Mapping):
        if "@" in value:  # as `discreet.state` encodes an object
            return _object(str(value["@"]), value.get("of"))
        return "; ".join(f"{name}: {_plain(each)}" for name, each in value.items()) or "none"
    if isinstance(value, Sequence):
        return ", ".join(map(_plain, value)) or "none"
    return json.dumps(value, default=str)


def _object(kind: str, of: Any) -> str:
    if kind == "tuple":
        return _plain(of)
    if kind == "given":
        return str(of)
    return f"{kind} ({_plain(of)})" if of else kind


def _line(release: Release) -> tuple[str, ...]:
    """A release as it is shown, whatever data it saw."""
    return (
        release.what,
        f"{release.sensitivity:.4g} ({release.norm})",
        f"{release.mechanism} {release.scale:.4g}",
        _cost(release),
    )


def _scopes(scopes: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(scopes))
    return ", ".join(distinct) if len(distinct) <= 3 else f"{distinct[0]} ... {distinct[-1]}"


def _cost(release: Release) -> str:
    prices = (("epsilon", release.epsilon), ("mu", release.mu), ("rho", release.rho))
    for name, price in prices:
        if math.isfinite(price):
            return f"{name} {price:.4g}"
    return "unlimited"


def not_shared(definition: Mapping[str, Any]) -> list[str]:
    """Arguments of a configuration that its attacks do not take over, by name."""
    shared = {"epsilon", "delta", "trust", "contributions", "people", "link", "model", "policy",
              "method", "mechanism", *_SECRET}  # fmt: skip
    return [name for name, value in definition.items() if name not in shared and value is not None]
