"""Attacks on everything: what they prove of each claim at epsilon = 1, and how fast.

    python benchmarks/audit.py [--full] [--workers 2] [--runs 10000] [--seed 0]

10^4 runs in each world; with --full 10^5 for attacks on Gaussian mechanisms and running sums. Every
figure of docs/audits.md is from here; the table and the figure are written to docs/.
"""

import argparse
import json
import time
from pathlib import Path

from discreet.audit import ATTACKS
from discreet.audit.attack import ROOMS
from discreet.audit.run import Audited, audit_all
from discreet.experiments.command_audit import figure

FOLDER = Path(__file__).parent.parent / "docs"
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
        for line in rows(results[-len(attacks) :]):
            print(line, flush=True)
        save(results, options.full)
    broken = [each.attack.name for each in results if each.sure.verdict == "BROKEN"]
    print(f"refuted at {CONFIDENCE} over {len(ATTACKS)} attacks: {broken or 'none'}")


def rows(results: list[Audited]) -> list[str]:
    """Lines of a Markdown table."""
    return [
        f"| {each.attack.name} | {each.attack.claim.kind} | {each.attack.near:.2f} "
        f"| {each.close.share:.2f} of {each.close.unit} | {each.close.lower_bound:.3f} "
        f"| {each.sure.lower_bound:.3f} | {each.close.runs // 2} "
        f"| {each.sure.verdict} |"
        for each in results
    ]


def save(results: list[Audited], full: bool) -> None:
    """One file for all rooms, whichever of them this run attacked; and the figure."""
    path = Path("out") / ("audit-full.json" if full else "audit.json")
    path.parent.mkdir(exist_ok=True)
    records = json.loads(path.read_text()) if path.exists() else {}
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
        bars = [(n, r["share"], r["near"]) for n, r in records.items() if "share" in r]
        figure(bars, FOLDER)


if __name__ == "__main__":
    main()
