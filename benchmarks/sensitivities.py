"""How much of each booked sensitivity one replaced row really moves: a search for the worst pair.

    python benchmarks/sensitivities.py [part of an attack's name]

For every private fit that is attacked (`discreet.audit.attacks.regression`): the attack's pair,
pairs that are worst for one statistic (opposite labels, opposite rows, right angles), then random
pairs and steps from the best one. For each release the most that any pair moves it, as a fraction
of the sensitivity that is booked. A fraction below .9 is noise that people pay for, or a bound that
no single pair reaches; the reasons stand in docs/audits.md.
"""

import sys
from dataclasses import replace
from functools import partial

import numpy as np
from kit import CONSOLE, new_table

from discreet.arrays import Array
from discreet.audit.attacks import ATTACKS
from discreet.audit.attacks.regression import FITS, Fit, Row, turned
from discreet.audit.rows import Claim, noise_of
from discreet.audit.transcript import compare
from discreet.privacy.observation import observed

RANDOM, STEPS = 24, 24


def moved(fit: Fit, claim: Claim, limit: int | None, pair: tuple[Row, Row]) -> dict[str, float]:
    """For each kind of release, the most that this pair moves one, over what is booked for it."""
    with observed("release") as seen:
        both = compare(partial(replace(fit, pair=pair).run, claim), 0, noise_of(1, 0), limit)
    found: dict[str, float] = {}
    for one, other, each in zip(both.here, both.there, seen, strict=False):
        if each.release is None or each.release.mechanism != "gaussian":
            continue
        what = each.release.what.partition(", stage")[0]
        fraction = float(np.linalg.norm(one.centre - other.centre)) / each.release.sensitivity
        found[what] = max(found.get(what, 0.0), fraction)
    return found


def candidates(fit: Fit, rng: np.random.Generator) -> list[tuple[Row, Row]]:
    """Pairs to begin with: one that was designed, worst ones of simple statistics, random ones."""
    low, high = sorted(label for _, label in fit.pair)
    low = min(low, 0.0)
    e = np.array([1.0, 0.0])
    pairs = [fit.pair, ((e, low), (e, high)), ((e, low), (-e, low)), ((e, high), (-e, high))]
    for cosine in (0.0, 0.4, 0.7):
        (a, _), (b, _) = turned(cosine)
        pairs += [((a, x), (b, y)) for x in (low, high) for y in (low, high)]
    return pairs + [(row(rng, low, high), row(rng, low, high)) for _ in range(RANDOM)]


def row(rng: np.random.Generator, low: float, high: float) -> Row:
    """A row on the sphere, or inside it, with any label."""
    x: Array = rng.standard_normal(2)
    return x / np.linalg.norm(x) * rng.choice([1.0, rng.random()]), float(rng.uniform(low, high))


def near(rng: np.random.Generator, pair: tuple[Row, Row]) -> tuple[Row, Row]:
    """A pair close to another."""
    out = []
    for x, y in pair:
        z = np.resize(x, 2) + 0.2 * rng.standard_normal(2)
        out.append((z / max(1.0, float(np.linalg.norm(z))), y + 0.1 * rng.standard_normal()))
    return out[0], out[1]


def searched(name: str) -> dict[str, float]:
    """The most that any pair moved each release of a fit."""
    rng = np.random.default_rng(0)
    attack = ATTACKS[name]
    fit, limit = FITS[name], attack.draw.limit  # type: ignore[attr-defined]
    best: dict[str, tuple[float, tuple[Row, Row]]] = {}
    pairs = candidates(fit, rng)
    for _ in range(2):
        for pair in pairs:
            for what, fraction in moved(fit, attack.claim, limit, pair).items():
                if fraction > best.get(what, (0.0, pair))[0]:
                    best[what] = (fraction, pair)
        pairs = [near(rng, pair) for _, pair in best.values() for _ in range(STEPS // len(best))]
    return {what: fraction for what, (fraction, _) in best.items()}


def main(part: str = "") -> None:
    table = new_table(
        "Sensitivities that a replaced row reaches", ["fit", "release", "reached", "booked"]
    )
    for name in FITS:
        if part in name and name != "search cv":
            for what, fraction in searched(name).items():
                assert fraction <= 1 + 1e-9, (name, what, fraction)
                table.add_row(name, what, f"{fraction:.2f}", "1")
    CONSOLE.print(table)


if __name__ == "__main__":
    main(*sys.argv[1:2])
