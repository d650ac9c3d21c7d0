"""One page for whoever has to sign: what is promised, by what, what was released and attacked.

Everything on it is public: arguments, the computed promise, released scales, results of attacks on
simulated people. Nothing is read from a state but its promise and its arguments.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet import __version__
from discreet.experiments.markup import items, observer, page, paragraph, table, versions
from discreet.privacy import Guarantee
from discreet.privacy.release import Release

if TYPE_CHECKING:
    from discreet.audit.run import Audited

SIGN = ("Responsible for the system", "Data protection officer", "Approved by")
LONGEST = 400  # characters of an argument that are shown
_SECRET = ("noise", "seed", "random_state")
_SIZE = "seeds, noise and the number of people are the attack's own"


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


def html(dossier: Dossier) -> str:
    """The page."""
    promise = dossier.promise
    title = f"Privacy dossier: {dossier.kind}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">{escape(dossier.source)}, {dossier.made:%Y-%m-%d %H:%M} UTC</p>',
        _weak(promise),
        _facts(dossier),
        "<h2>The promise</h2>",
        *_promise(promise),
        _unprotected(promise),
        _definition(dossier),
        _releases(promise),
        _audits(dossier),
        _how_to_read(),
        _made_with(),
        _signatures(),
    ]
    return page(title, parts)


def _weak(promise: Guarantee) -> str:
    if promise.private:
        return ""
    words = "NO PRIVACY: epsilon is infinite, and nothing on this page protects anybody."
    return f'<div class="answer warning">{paragraph(words)}</div>'


def _facts(dossier: Dossier) -> str:
    promise = dossier.promise
    rows = [
        ("what", dossier.kind),
        ("read from", dossier.source),
        ("written by", f"discreet {dossier.written_by}" if dossier.written_by else ""),
        ("name of the run", dossier.run),
        ("dossier made", f"{dossier.made:%Y-%m-%d %H:%M} UTC by discreet {__version__}"),
        ("epsilon", f"{promise.epsilon:g}"),
        ("delta", f"{promise.delta:g}"),
        ("trust", promise.trust),
        ("unit of privacy", promise.unit),
        ("neighbouring data", promise.neighbours),
        ("releases so far", f"{len(promise.releases):,}"),
        ("method", promise.reference),
    ]
    shown = [(False, name, escape(text)) for name, text in rows if text]
    right = observer(promise.epsilon)
    note = (
        "Somebody who sees everything that is published, and knows everybody else's data, guesses "
        f"which of two things one person did: right {right} of the time, up to delta, where a coin "
        "is right 50%."
    )
    return table(("", ""), shown, right=()) + (paragraph(note) if promise.private else "")


def _promise(promise: Guarantee) -> list[str]:
    """The statement; what is not protected follows as a list."""
    lines = promise.statement().splitlines()
    return [paragraph(line) for line in lines if not line.startswith("Not protected: ")]


def _unprotected(promise: Guarantee) -> str:
    if not promise.private:
        return ""
    always = (
        "what people tell others themselves, and what is known of them from elsewhere",
        "facts about everybody that the data teach: they hold whether or not one person took part",
    )
    return "<h2>What is not protected</h2>" + items((*promise.unprotected, *always))


def _definition(dossier: Dossier) -> str:
    rows = [
        (False, escape(name), escape(_shown(value)))
        for name, value in dossier.definition.items()
        if name not in _SECRET
    ]
    return f"<h2>Definition</h2>{table(('argument', 'value'), rows, right=())}"


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


def _releases(promise: Guarantee) -> str:
    head = "<h2>Every release</h2>"
    if not promise.releases:
        return head + paragraph("Nothing has been released yet.")
    rows = []
    for release, scopes in _alike(promise.releases):
        rows.append((
            False, escape(release.what), f"{len(scopes):,}", escape(_scopes(scopes)),
            escape(release.mechanism), f"{release.sensitivity:.4g} ({escape(release.norm)})",
            f"{release.scale:.4g}", escape(_cost(release)), escape(release.sampler),
        ))  # fmt: skip
    columns = ("what", "times", "on", "mechanism", "sensitivity", "noise", "cost of one", "drawn")
    note = (
        "Sensitivity: how far one person with all they contribute can move the value, in that "
        "norm. Noise: the scale of its distribution (for Gaussian noise its standard deviation). "
        "Costs on the same data add up (epsilon and rho as they are, mu as squares); on disjoint "
        "data, named under “on”, the largest counts."
    )
    spent = ""
    if promise.private:
        now = promise.epsilon_at(promise.delta)
        spent = paragraph(
            f"Computed from these: epsilon = {now:.4g} at delta = {promise.delta:g} so far, of "
            f"{promise.epsilon:g} that are promised for everything that is ever released."
        )
    return f'{head}{table(columns, rows, right=(1, 4, 5))}<p class="note">{note}</p>{spent}'


def _alike(releases: Sequence[Release]) -> list[tuple[Release, list[str]]]:
    """Releases that differ in the data they saw only, together: the first, and all scopes."""
    groups: dict[tuple[Any, ...], tuple[Release, list[str]]] = {}
    for each in releases:
        key = (each.what, each.mechanism, each.norm, each.sensitivity, each.scale, each.sampler,
               each.epsilon, each.mu, each.rho)  # fmt: skip
        groups.setdefault(key, (each, []))[1].append(
            "all data" if each.scope is None else each.scope
        )
    return list(groups.values())


def _scopes(scopes: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(scopes))
    return ", ".join(distinct) if len(distinct) <= 3 else f"{distinct[0]} ... {distinct[-1]}"


def _cost(release: Release) -> str:
    prices = (("epsilon", release.epsilon), ("mu", release.mu), ("rho", release.rho))
    for name, price in prices:
        if math.isfinite(price):
            return f"{name} {price:.4g}"
    return "unlimited"


def _audits(dossier: Dossier) -> str:
    head = "<h2>Attacks on this configuration</h2>"
    audits = dossier.audits
    if audits is None:
        return head + paragraph("None were asked for: discreet dossier ... --audit runs them.")
    if not audits:
        return head + paragraph(
            "NOT ATTACKED: the library has no attack on this class with this trust, delta, number "
            "of contributions and kind of noise. The promise rests on its computation alone."
        )
    rows = []
    for audited in audits:
        close = audited.close
        rows.append((
            False, escape(audited.attack.name), f"{close.claim:g}", f"{close.lower_bound:.3f}",
            f"{close.fraction:.0%}" + (" of mu" if close.unit == "mu" else ""),
            f"{close.runs:,}", f"<b>{escape(audited.verdict)}</b>",
        ))  # fmt: skip
    columns = ("attack", "claim", "proved, 95%", "fraction", "runs", "verdict")
    claim = audits[0].attack.claim
    words = (
        f"Each attack makes a learner of this kind with epsilon = {claim.epsilon:g}, delta = "
        f"{claim.delta:g}, {dossier.promise.trust} trust and contributions = "
        f"{claim.contributions}, runs it on two data sets that differ in one person, and tells the "
        "two apart. BROKEN refutes the promise. Not refuted: p is the chance of such scores if the "
        "promise holds. No power: the attack would hardly notice a leak. That an attack proves no "
        "more proves nothing."
    )
    others = ", ".join(dossier.beside)
    if others:
        words += f" Not taken from this configuration: {others}; {_SIZE}."
    details = items(f"{audited.attack.name}: {audited.attack.description}" for audited in audits)
    return f"{head}{table(columns, rows, right=(1, 2, 3, 4))}{paragraph(words)}{details}"


def _how_to_read() -> str:
    notes = (
        "The promise is computed by the library from the sensitivity and the noise of every "
        "release; nobody typed it. It supposes that the program runs as published, on data inside "
        "the public bounds that are listed under Definition.",
        "It holds for what this object publishes. Other systems that learn from the same people "
        "have promises of their own, and these add up.",
        "delta is the chance with which the bound may fail; it should be far below one divided by "
        "the number of people.",
    )
    return "<h2>How to read this page</h2>" + items(notes)


def _made_with() -> str:
    return f"<h2>Made with</h2>{table(('', ''), versions(), right=())}"


def _signatures() -> str:
    boxes = "".join(
        f'<div class="sign"><p>{escape(who)}</p><p class="line"></p>'
        '<p class="soft">name, date, signature</p></div>'
        for who in SIGN
    )
    decision = (
        "Decision:  \N{BALLOT BOX} approved   \N{BALLOT BOX} approved with conditions   "
        "\N{BALLOT BOX} refused"
    )
    conditions = '<p class="soft">conditions</p><p class="line"></p><p class="line"></p>'
    inside = f"<h2>Signatures</h2>{paragraph(decision)}{conditions}{boxes}"
    return f'<section class="whole">{inside}</section>'


def not_shared(definition: Mapping[str, Any]) -> list[str]:
    """Arguments of a configuration that its attacks do not take over, by name."""
    shared = {"epsilon", "delta", "trust", "contributions", "unit", "visits", "link", "estimator",
              "method", "mechanism", *_SECRET}  # fmt: skip
    return [name for name, value in definition.items() if name not in shared and value is not None]
