"""Planted bugs and what catches them: one row for each, honest and broken.

    python benchmarks/mutations.py [part of a name or room]

An audit prints a lower bound on epsilon that holds with 99.99% confidence; the other detectors
compute (tests/mutation/mutants/kit.py), and those of kind "contract" are the generic checks of
tests/contract: they count complaints. Same seeds as in the tests.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "mutation"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "contract"))

from mutants import MUTANTS, SURE, by_registry

HEAD = (
    "room",
    "planted bug",
    "detector",
    "honest",
    "broken",
    "claim",
    "unit",
    "verdict",
    "by `discreet audit`",
)


def main(part: str = "") -> int:
    chosen = [m for m in MUTANTS if part.lower() in f"{m.room} {m.name}".lower()]
    print(f"bounds of audits: {SURE:.2%} confidence\n")
    print("| " + " | ".join(HEAD) + " |")
    print("|" + "---|" * len(HEAD))
    begun = time.process_time()
    survivors = []
    alarms = []
    for mutant in chosen:
        honest = mutant.catch()
        with mutant.plant():
            broken = mutant.catch()
            also = mutant.attack if mutant.kind != "audit" else ""  # else it is the detector
            tried = [(name, *by_registry(name)) for name in (also, mutant.tried) if name]
        verdict = "caught" if mutant.caught(broken) else "SURVIVES"
        survivors += [mutant] if verdict == "SURVIVES" else []
        if mutant.caught(honest):
            alarms.append(mutant)
            verdict += "; OPEN: " + mutant.open if mutant.open else "; FALSE ALARM"
        row = (
            mutant.room,
            mutant.name,
            mutant.kind,
            f"{honest:.3g}",
            f"{broken:.3g}",
            f"{mutant.claim:.3g}",
            mutant.unit,
            verdict,
            "; ".join(f"{name}: {b:.3g} of {c:g}" for name, b, c in tried),
        )
        print("| " + " | ".join(each.replace("|", "\\|") for each in row) + " |", flush=True)
    print(f"\n{len(chosen) - len(survivors)} of {len(chosen)} caught, {len(survivors)} survive,")
    print(
        f"{len(alarms)} alarms on the library itself, {time.process_time() - begun:.0f} s of CPU\n"
    )
    for mutant in chosen:
        print(f"{mutant.name} ({mutant.where}): {mutant.broken}")
    return len(survivors)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
