"""How much of each booked sensitivity one replaced person moves: a search for the worst pair.

    python benchmarks/sensitivities.py [part of the name of an entry of the registry ...]

For every private configuration of the registry: its mechanisms are told what enters them and hear
nothing, in runs that differ in one person (tests/contract/worst.py). Pairs of extreme records come
first, then random ones and steps from the best. For each kind of release the most that any pair
moves it, as a fraction of the sensitivity that is booked, and where that is less than all of it,
why. tests/contract/test_worst.py holds the extreme records to these fractions.
"""

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from kit import CONSOLE, new_table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "contract"))
from worst import ALL, Record, expects, records, searched

from discreet.audit.registry import PRIVATE

RANDOM, STEPS = 4, 2
MOST = 1 + 1e-9  # of a sensitivity, but for rounding


def near(rng: np.random.Generator, record: Record) -> Record:
    """A record close to another, inside the same bounds."""
    if not isinstance(record, tuple):
        return record
    x, y, *rest = record
    z = np.asarray(x, dtype=float) + 0.2 * rng.standard_normal(np.shape(x))
    z /= max(1.0, float(np.linalg.norm(z)) / max(float(np.linalg.norm(x)), 1e-9))
    return (z, y, *rest)


def main(parts: list[str]) -> None:
    warnings.simplefilter("ignore")  # of fits to sixty rows
    table = new_table(
        "Sensitivities that one replaced person reaches",
        ["configuration", "release", "reached", "why not all"],
    )
    for name, entry in PRIVATE.items():
        if not any(part in name for part in parts):
            continue
        rng = np.random.default_rng(0)

        def drawn(dim: int, rng: Any = rng) -> Any:
            found = rng.standard_normal((RANDOM, dim))
            return found / np.linalg.norm(found, axis=1, keepdims=True)

        found = searched(
            entry,
            records(entry, drawn),
            near=lambda record, rng=rng: near(rng, record),
            steps=STEPS,
        )
        for what, fraction in found.items():
            assert fraction <= MOST, (name, what, fraction)
            why = expects(f"{name}: {what}")[1] if fraction < ALL else ""
            table.add_row(name, what, f"{fraction:.2f}", why)
    CONSOLE.print(table)


if __name__ == "__main__":
    main(sys.argv[1:] or [""])
