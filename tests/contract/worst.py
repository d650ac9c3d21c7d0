"""How far one replaced person moves each release, against what is booked for it.

Two runs on deaf mechanisms (forced.py) that differ in one person, who is one of a few extreme
records: opposite, at right angles, at the bound, beyond it, zero. `searched` tries all pairs of
them early and late in a stream, with feedback at once, in a later window or never, among people who
say nothing, all say the same, or anything.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from operator import ge
from typing import Any

import numpy as np
from checks import rehearse
from forced import Transcript, deaf

from discreet.audit.entries import Entry, Session
from discreet.audit.families import (
    DIM,
    Contextual,
    Fitted,
    Leader,
    Losses,
    Rows,
    Sparse,
    Sums,
    Trials,
    Visiting,
)
from discreet.regression import PrivateLogisticRegression

Record = Any
Pairs = list[tuple[Record, Record]]
NEVER = 10**9  # rounds
ALL = 0.995
TOGETHER = "in all scopes"
BEYOND = 10.0  # times a bound: what is farther is cut

# What the pairs that we know reach of a sensitivity, if it is less than ALL of it, and why not
# more: by a regular expression over "entry: release".
LESS: dict[str, tuple[float, str]] = {
    "LinearBandit descent": (
        0.5,
        "booked for a row that comes later in its window, at 2 (high - low) a step; of two rows in "
        "one place gradients (y - <x, theta>) x are never opposite and both of full length",
    ),
    "LinearBandit (?!.*descent).*: .*in all scopes": (
        0.95,
        "reached where a row moves to another window, which a person's one counted visit does not",
    ),
    "LinearBandit (?!.*descent)": (
        0.95,
        "a row that moves to another window costs more than one that is replaced: in all scopes",
    ),
    "SparseBandit logistic: entries": (0.58, "labels 0 and 1 are at 1/2 of their mean"),
    "FrankWolfe p = 1: entries": (0.5, "rows at random hardly agree, scores are lengths of sums"),
    "(SparseBandit logistic|FrankWolfe p = 1): slopes": (
        0.5,
        "the first window has no last step, whose slope is one of k + 1",
    ),
    "SparseBandit.*: slopes": (0.69, "the first window has no last step, as above"),
    "FrankWolfe simplex": (
        0.44,
        "a moment is longer than a gradient only where theta has moved along its row",
    ),
    "gradients, curvatures": (
        0.81,
        "gradients are opposite, or curvatures at right angles, or counts differ: no pair has all",
    ),
    "ABTest": (0.99, "rounding"),
    "Gram matrix and a sum": (0.97, "the sum of lengths moves most where matrices move less"),
    "re-weighted moments": (
        0.85,
        "opposite moments with Gram matrices at right angles: only if U is ill-conditioned",
    ),
    "sums for metrics.*": (0.98, "cubes and squares of two signs are not at their ends at once"),
    "identity central erm.*: weighted": (0.91, "|z|^2 is largest for one row, in one direction"),
    "central erm.*: weighted": (0.91, "as above"),
    "poisson central erm.*: minimiser": (
        0.57,
        "the worst residual is that of a prediction at an end of its range",
    ),
    "central erm.*: minimiser": (0.82, "as above"),
    "central sgd.*: gradient": (0.6, "the bound is for predictions as long as theta"),
    "central sgd.*: spectral": (0.9, "weights of the batch's other rows follow from noise"),
    "histogram of deviations": (0.07, "labels are 0 and 1 here, and means in one bin"),
    "PrivateLogisticRegression 4.*": (
        0.74,
        "beside an intercept rows are at right angles at most, and residuals of two of four "
        "classes are not opposite",
    ),
    "PrivateLogisticRegression 3.*": (0.87, "residuals of two of three classes are not opposite"),
    "gradient and information": (0.94, "rows of opposite gradients have the same information"),
    "PrivateSearchCV": (0.0, "a block changes its mind where candidates are close: test_search.py"),
    "single-pass: sketch": (0.0, "the rows that are tried are in other parts"),
}


def vectors(dim: int, more: Sequence[Any] = ()) -> list[np.ndarray]:
    """Axes and a diagonal, both ways; zero; one that is far too long; and others."""
    e = np.eye(dim)
    diagonal = np.ones(dim) / np.sqrt(dim)
    return [e[0], -e[0], e[-1], diagonal, -diagonal, 0 * e[0], BEYOND * e[0], *more]


def corners(dim: int) -> list[np.ndarray]:
    ones = np.ones(dim)
    return [ones, -ones, 2 * np.eye(dim)[0] - ones]


def in_ball(x: np.ndarray, norm: str) -> np.ndarray:
    """Of length 1 at most in this norm, or just 1 if it was longer than a half."""
    length = float(np.linalg.norm(x, float(norm.removeprefix("l"))))
    return x / length if length > 0.5 else x


def records(entry: Entry, more: Callable[[int], Sequence[Any]] = lambda dim: ()) -> list[Record]:
    """Extreme records; `more` vectors of a length beside them."""
    family = entry.family
    if isinstance(family, Leader):
        domain = entry.arguments["domain"]
        found = vectors(domain.dim, more(domain.dim))
        signs = np.array([1.0, 0.0, 1.0])[: domain.dim]
        if domain.loss_set == "box":
            return [signs, 1 - signs, *np.clip(found, 0, 1)]
        return [in_ball(x, domain.loss_set) for x in found]
    if isinstance(family, Losses):
        return [family.low, family.high, (family.low + family.high) / 2]
    if isinstance(family, Rows):
        found = vectors(family.dim, more(family.dim))
        found = [x if np.linalg.norm(x) > 2 else in_ball(x, "l1") for x in found]  # in every ball
        if entry.arguments["domain"].axis_vertices is not None:  # rows lie in the cube
            found += corners(family.dim)
        return [(x, y) for x in found for y in (-BEYOND, -1.0, 0.0, 1.0)]
    if isinstance(family, Sums):
        norm = entry.arguments["norm"]
        return [in_ball(x, norm) for x in vectors(family.dim, more(family.dim))]
    if isinstance(family, Trials):
        names = list(entry.arguments["metrics"])
        return [dict.fromkeys(names, value) for value in (0.0, 0.5, 1.0, BEYOND, -BEYOND)]
    if isinstance(family, Fitted):
        low, high = min(family.labels), max(family.labels)
        found = [(x, y) for x in vectors(family.dim, more(family.dim)) for y in (low, high)]
        return found + [(found[0][0], -BEYOND)] * (entry.of is not PrivateLogisticRegression)
    if isinstance(family, Contextual):
        found = [x[None] for x in vectors(DIM, more(DIM))]
        return [(x, y) for x in found for y in (family.low, family.high)]
    if isinstance(family, Sparse):
        rows = [*corners(family.dim), np.eye(family.dim)[0], np.zeros(family.dim)]
        return [(x, y) for x in rows for y in entry.make().reward_range]
    return [(x[None], y) for x in vectors(DIM, more(DIM)) for y in (-1.0, 1.0)]  # of devices


def lived(
    entry: Entry, heard: Transcript, others: list[Record], place: int, record: Record, late: int
) -> Transcript:
    """One run with this record in the place of somebody's; its feedback so many rounds later."""
    data = list(others)
    rounds = getattr(entry.arguments.get("people"), "rounds", None) or 1  # of one person
    first = min(place, entry.rounds - rounds)
    own = [t for each in range(rounds) for t in entry.family.replaced(others, first + each)]
    for t in own:
        data[t] = (*record, others[t][2]) if isinstance(entry.family, Visiting) else record
    steps = list(enumerate(entry.steps(data)))
    if late:  # two steps are a round
        moved = [(at, step) for at, step in steps if step[0] == "learn" and step[1] in own]
        steps = [each for each in steps if each not in moved]
        if late < NEVER:
            steps += [(at + 2 * late, step) for at, step in moved]
            steps.sort(key=lambda each: each[0])
    session = Session(entry.make())
    for _, (kind, t, step) in steps:
        heard.round = t if kind == "learn" else None
        step(session)
    heard.round = None
    return heard.ended()


def compared(one: Transcript, other: Transcript) -> Iterator[tuple[str, float]]:
    """For each release the fraction of what is booked by which two runs differ.

    And of all scopes together, in each of which one person may have a part: squares add up.
    """
    sides = [[each for each in run.given if each.kind != "term"] for run in (one, other)]
    scopes: dict[str, dict[str, float]] = {}
    for mine, theirs in zip(*sides, strict=False):
        if mine.value.shape == theirs.value.shape:
            what = "one report" if mine.release is None else kind_of(mine.release)
            fraction = mine.reached(theirs)
            yield what, fraction
            if (scope := getattr(mine.release, "scope", None)) is not None:
                here = scopes.setdefault(what, {})
                here[scope] = max(here.get(scope, 0.0), fraction)
    for what, here in scopes.items():
        yield f"{what}, {TOGETHER}", math.hypot(*here.values())


def kind_of(release: Any) -> str:
    """What was released, without the number of a stage, window or batch."""
    return re.sub(r",? (stage|window|batch) .*|\d+ ?", "", release.what).strip()


def streams(entry: Entry) -> list[list[Record]]:
    """The other people: they say nothing; all say the same; anything."""
    everybody = entry.data(0)
    quiet = entry.family.quiet(entry)
    first = everybody[0]
    if quiet is not None:
        silent = quiet[0]
    elif isinstance(first, tuple):
        silent = [(np.zeros_like(first[0]), 0.0)] * entry.rounds
    else:
        silent = [np.zeros_like(first)] * entry.rounds
    alike = [] if isinstance(entry.family, Visiting) else [[records(entry)[0]] * entry.rounds]
    return [silent, *alike, everybody]


def settings(entry: Entry) -> Iterator[tuple[int, list[Record], bool]]:
    """Which round is replaced, who the others are, whether stand-ins are real ones or zeros."""
    n = entry.rounds
    first = int(np.random.default_rng(1).permutation(n)[0])  # in the public order of fits
    return itertools.product((0, first, n // 2, n // 3, n - 1), streams(entry), (False, True))


def note(best: dict[str, float], tried: list[tuple[Record, Transcript]]) -> Pairs:
    """Keep the largest fractions of all pairs of runs; the pairs that have them."""
    pairs: dict[str, tuple[Record, Record]] = {}
    for (one, here), (other, there) in itertools.combinations(tried, 2):
        for what, fraction in compared(here, there):
            if fraction > best.get(what, -1.0):
                best[what] = fraction
                pairs[what] = (one, other)
    return list(pairs.values())


def searched(
    entry: Entry,
    known: list[Record],
    near: Callable[[Record], Record] | None = None,
    steps: int = 0,
    enough: float = math.inf,
) -> dict[str, float]:
    """The most that any pair of records moves each kind of release.

    It ends when each is moved by what is expected of it, and by `enough`; `near` are steps from
    the best pairs of a setting.
    """
    best: dict[str, float] = {}
    with deaf() as heard:
        for place, others, scripted in settings(entry):
            heard.script = None  # nothing is known
            if scripted:
                rehearse(entry, heard, 0, entry.data(2))
            # Stand-ins come in the order of calls: feedback may come late where they are zeros.
            late = (0, entry.rounds // 2, NEVER) if entry.family.late and not scripted else (0,)
            tried = [(record, lived(entry, heard, others, place, record, each))
                     for record in known for each in late]  # fmt: skip
            pairs = note(best, tried)
            if near is not None:
                close = [near(record) for pair in pairs for record in pair * steps]
                tried += [(each, lived(entry, heard, others, place, each, 0)) for each in close]
                note(best, tried)
            expected = (expects(f"{entry.name}: {what}")[0] for what in best)
            # Some releases are made only if those before look real.
            if scripted and all(map(ge, best.values(), (max(each, enough) for each in expected))):
                break
    return best


def expects(name: str) -> tuple[float, str]:
    """Which fraction of a sensitivity is reached, and why not all."""
    found = (known for part, known in LESS.items() if re.search(part, name))
    return next(found, (ALL, ""))
