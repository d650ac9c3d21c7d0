"""How much of each booked sensitivity one replaced person moves: a search for the worst pair.

    python benchmarks/sensitivities.py [part of the name of an entry of the registry ...]

For every private configuration of the registry: its mechanisms are told what enters them and hear
nothing (tests/contract/forced.py), in runs that differ in one person. Pairs of extreme records come
first: opposite, at right angles, at the bound, zero, early or late in the stream, with feedback at
once, in a later window or never, among people who say nothing, at random or of one kind; then
random pairs and steps from the best. For each kind of release the most that any pair moves it, as a
fraction of the sensitivity that is booked. Less than .9 is noise that people pay for, or a bound
that no single pair reaches; then the reason is given.
"""

import itertools
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from kit import CONSOLE, new_table

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
from discreet.audit.registry import PRIVATE

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "contract"))
from checks import rehearse
from forced import Given, Transcript, deaf

Record = Any
RANDOM, STEPS = 4, 2
LEAST = 0.9
NEVER = 10**9  # rounds
REASONS: dict[str, str] = {}  # regular expression over "entry: release" -> why less is reached


def vectors(rng: np.random.Generator, dim: int, random: int) -> list[np.ndarray]:
    """Axes and a diagonal, both ways; half of one; zero; and random ones on the sphere."""
    e = np.eye(dim)
    known = [e[0], -e[0], e[-1], np.ones(dim) / np.sqrt(dim), -np.ones(dim) / np.sqrt(dim)]
    drawn = rng.standard_normal((random, dim))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return [*known, 0.5 * e[0], 0 * e[0], *drawn]


def corners(dim: int) -> list[np.ndarray]:
    ones = np.ones(dim)
    return [ones, -ones, 2 * np.eye(dim)[0] - ones]


def within(x: np.ndarray, norm: str) -> np.ndarray:
    """Of length 1 at most in this norm, or just 1 if it was longer than a half."""
    length = float(np.linalg.norm(x, float(norm.removeprefix("l"))))
    return x / length if length > 0.5 else x


def records(entry: Entry, rng: np.random.Generator, random: int) -> list[Record]:
    """Extreme records, and random ones."""
    family = entry.family
    if isinstance(family, Leader):
        domain = entry.arguments["domain"]
        found = vectors(rng, domain.dim, random)
        signs = np.array([1.0, 0.0, 1.0])[: domain.dim]
        if domain.loss_set == "box":
            return [signs, 1 - signs, *np.clip(found, 0, 1)]
        return [within(x, domain.loss_set) for x in found]
    if isinstance(family, Losses):
        return [family.low, family.high, (family.low + family.high) / 2]
    if isinstance(family, Rows):
        found = [within(x, "l1") for x in vectors(rng, family.dim, random)]  # in every l_q ball
        if entry.arguments["domain"].axis_vertices is not None:  # rows lie in the cube
            found += corners(family.dim)
        return [(x, y) for x in found for y in (-1.0, 0.0, 1.0)]
    if isinstance(family, Sums):
        return [within(x, entry.arguments["norm"]) for x in vectors(rng, family.dim, random)]
    if isinstance(family, Trials):
        names = list(entry.arguments["metrics"])
        values = [0.0, 1.0, *rng.random(random)]
        return [dict.fromkeys(names, float(value)) for value in values]
    if isinstance(family, Fitted):
        ends = (min(family.labels), max(family.labels))
        return [(x, y) for x in vectors(rng, family.dim, random) for y in ends]
    if isinstance(family, Contextual):
        found = [x[None] for x in vectors(rng, DIM, random)]
        return [(x, y) for x in found for y in (family.low, family.high)]
    if isinstance(family, Sparse):
        rows = [*corners(family.dim), np.eye(family.dim)[0], np.zeros(family.dim)]
        return [(x, y) for x in rows for y in entry.make().reward_range]
    return [(x[None], y) for x in vectors(rng, DIM, random) for y in (-1.0, 1.0)]  # of devices


def near(rng: np.random.Generator, record: Record) -> Record:
    """A record close to another, inside the same bounds."""
    if not isinstance(record, tuple):
        return record
    x, y, *rest = record
    z = np.asarray(x, dtype=float) + 0.2 * rng.standard_normal(np.shape(x))
    z /= max(1.0, float(np.linalg.norm(z)) / max(float(np.linalg.norm(x)), 1e-9))
    return (z, y, *rest)


def lived(
    entry: Entry, heard: Transcript, others: list[Record], place: int, record: Record, late: int
) -> Transcript:
    """One run with this record in the place of somebody's; its feedback so many steps later."""
    data = list(others)
    rounds = getattr(entry.arguments.get("people"), "rounds", None) or 1  # of one person
    first = min(place, entry.rounds - rounds)
    own = [t for each in range(rounds) for t in entry.family.replaced(others, first + each)]
    for t in own:
        data[t] = (*record, others[t][2]) if isinstance(entry.family, Visiting) else record
    steps = entry.steps(data)
    if late:
        moved = [each for each in steps if each[0] == "learn" and each[1] in own]
        at = steps.index(moved[0]) + late
        steps = [each for each in steps if each not in moved]
        steps[at:at] = moved if late < NEVER else []
    session = Session(entry.make())
    for kind, t, step in steps:
        heard.round = t if kind == "learn" else None
        step(session)
    heard.round = None
    return heard.ended()


def compared(one: Transcript, other: Transcript) -> Iterator[tuple[str, float]]:
    """For each release the fraction of what is booked by which two runs differ."""
    sides = [[each for each in run.given if each.kind != "term"] for run in (one, other)]
    for mine, theirs in zip(*sides, strict=False):
        if mine.value.shape == theirs.value.shape:
            yield kind_of(mine), mine.reached(theirs)


def kind_of(given: Given) -> str:
    """Without the number of a stage, window or batch."""
    if given.release is None:
        return "one report"
    return re.sub(r",? (stage|window|batch) .*|\d+ ?", "", given.release.what).strip()


def searched(entry: Entry) -> dict[str, float]:
    """The most that any pair of records moves each kind of release."""
    rng = np.random.default_rng(0)
    first = records(entry, rng, RANDOM)
    quiet = entry.family.quiet(entry)
    streams = [entry.data(0), *([quiet[0]] if quiet else []), [first[0]] * entry.rounds]
    if isinstance(entry.family, Visiting):
        streams = streams[:2]
    last = entry.rounds - 1
    best: dict[str, float] = {}
    with deaf() as heard:
        for others, place, scripted in itertools.product(streams, (0, last), (True, False)):
            heard.script = None  # nothing is known
            if scripted:
                rehearse(entry, heard, 0, entry.data(2))
            # Stand-ins come in the order of calls: feedback may come late where they are zeros.
            late = (0, entry.rounds // 2, NEVER) if entry.family.late and not scripted else (0,)
            tried = [(record, lived(entry, heard, others, place, record, each))
                     for record in first for each in late]  # fmt: skip
            close = [near(rng, record) for pair in note(best, tried) for record in pair * STEPS]
            tried += [(record, lived(entry, heard, others, place, record, 0)) for record in close]
            note(best, tried)
    return best


def note(
    best: dict[str, float], tried: list[tuple[Record, Transcript]]
) -> list[tuple[Record, Record]]:
    """Keep the largest fractions of all pairs of runs; the pairs that have them."""
    pairs: dict[str, tuple[Record, Record]] = {}
    for (one, here), (other, there) in itertools.combinations(tried, 2):
        for what, fraction in compared(here, there):
            if fraction > best.get(what, -1.0):
                best[what] = fraction
                pairs[what] = (one, other)
    return list(pairs.values())


def reason(name: str) -> str:
    """Why less than nine tenths are reached."""
    return next((words for part, words in REASONS.items() if re.search(part, name)), "")


def main(parts: list[str]) -> None:
    warnings.simplefilter("ignore")  # of fits to sixty rows
    table = new_table(
        "Sensitivities that one replaced person reaches",
        ["configuration", "release", "reached", "why not all"],
    )
    for name, entry in PRIVATE.items():
        if not any(part in name for part in parts):
            continue
        for what, fraction in searched(entry).items():
            assert fraction <= 1 + 1e-9, (name, what, fraction)
            why = reason(f"{name}: {what}") if fraction < LEAST else ""
            table.add_row(name, what, f"{fraction:.2f}", why)
            print(
                name,
                "|",
                what,
                f"{fraction:.3f}",
                why or ("NO REASON" if fraction < LEAST else ""),
                flush=True,
            )
    CONSOLE.print(table)


if __name__ == "__main__":
    main(sys.argv[1:] or [""])
