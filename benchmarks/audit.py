"""Attacks on everything: what they prove of each claim at epsilon = 1, and how fast.

    python benchmarks/audit.py [--full] [--workers 2] [--runs 10000] [--seed 0]

10^4 runs in each world; with --full 10^5 for attacks on Gaussian claims (slow learners less). All
figures of docs/audits.md are from here: results are kept in out/, so that rooms can be attacked one
by one; the last lines are the table of all of them, and the picture is written to docs/.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from discreet.audit import ATTACKS
from discreet.audit.attack import ROOMS
from discreet.audit.run import Audited, audit_all
from discreet.experiments.command_audit import figure

FOLDER = Path(__file__).parent.parent / "docs"
USUAL, FULL = Path("out/audit.json"), Path("out/audit-full.json")
CONFIDENCE = 0.999  # of all verdicts together


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rooms", nargs="*", default=ROOMS)
    options = parser.parse_args()
    results: list[Audited] = []
    for room in options.rooms:
        attacks = [each for each in ATTACKS.values() if each.room == room]
        if options.full:
            attacks = [each for each in attacks if each.claim.kind == "gaussian"]
        start = time.perf_counter()
        results += audit_all(
            attacks,
            10 * options.runs if options.full else options.runs,
            options.seed,
            confidence=CONFIDENCE,
            workers=options.workers,
            suite=len(ATTACKS),
        )
        print(f"{room}: {len(attacks)} attacks, {time.perf_counter() - start:.0f} s", flush=True)
        save(results, options.full)
    broken = [each.attack.name for each in results if each.sure.verdict == "BROKEN"]
    print(f"refuted at {CONFIDENCE} over {len(ATTACKS)} attacks: {broken or 'none'}")
    print("\n".join(table()))


def table() -> list[str]:
    """All that is kept, as a Markdown table: 10^4 runs, and 10^5 where they were made."""
    usual, full = kept(USUAL), kept(FULL)
    lines = [
        "| attack | claim | could be | proved, 95% | with 10^5 runs | proved, all together 99.9% |",
        "|---|---|---|---|---|---|",
    ]
    for room in ROOMS:
        for name in (each.name for each in ATTACKS.values() if each.room == room):
            if (one := usual.get(name)) is None:
                continue
            unit = " mu" if one["share_of"] == "mu" else ""
            more = ""
            if name in full:
                few = full[name]["runs"] < 200_000
                more = f"{full[name]['share']:.2f}{unit}" + f" ({full[name]['runs'] // 2:,})" * few
            lines.append(
                f"| {name} | {one['kind']} | {one['near']:.2f} | {one['share']:.2f}{unit} | {more} "
                f"| {one['sure']:.2f} |"
            )
    return lines


def save(results: list[Audited], full: bool) -> None:
    """One file for all rooms, whichever of them this run attacked; and the figure."""
    path = FULL if full else USUAL
    path.parent.mkdir(exist_ok=True)
    records = kept(path)
    for each in results:
        claim = each.attack.claim
        records[each.attack.name] = each.close.to_dict() | {
            "room": each.attack.room,
            "kind": claim.kind,
            "near": each.attack.near,
            "share": each.close.share,
            "share_of": each.close.unit,
            "sure": each.sure.lower_bound,
            "verdict": each.sure.verdict,
        }
    path.write_text(json.dumps(records, indent=1))
    if not full:
        figure([(n, r["share"], r["near"]) for n, r in records.items()], FOLDER)


def kept(path: Path) -> dict[str, dict[str, Any]]:
    """What earlier runs found about attacks that there still are."""
    records = json.loads(path.read_text()) if path.exists() else {}
    return {name: record for name, record in records.items() if name in ATTACKS}


if __name__ == "__main__":
    main()
