"""Attacks on everything: what they prove of each claim at epsilon = 1, and how fast.

    python benchmarks/audit.py [--full] [--workers 2] [--runs 10000] [--seed 0]
    python benchmarks/audit.py --ideal     what perfect attacks would prove, over seeds

10^4 runs in each world; with --full 10^5 for attacks on Gaussian claims (slow learners less). All
figures of docs/audits.md are from here: results are kept in out/, so that rooms can be attacked one
by one; the last lines are the table of all of them, and the picture is written to docs/.
"""

import argparse
import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from discreet.audit import ATTACKS, audit_scores
from discreet.audit.attack import ROOMS
from discreet.audit.run import Audited, audit_all
from discreet.cli.audit import figure
from discreet.privacy import gaussian_mu

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
    parser.add_argument("--ideal", action="store_true")
    options = parser.parse_args()
    if options.ideal:
        ideal()
        return
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


def ideal(seeds: int = 20) -> None:
    """Shares of the claim that exact likelihood ratios prove, without any learner."""
    mu, third = gaussian_mu(1.0, 1e-6), 1 / (1 + math.exp(1 / 3))

    def gaussian(rng: Any, world: int, runs: int) -> Any:
        return rng.normal(mu * world, 1.0, runs)

    pure = {
        "Laplace": lambda rng, world, runs: np.clip(rng.laplace(world, 1.0, runs), 0.0, 1.0),
        "randomised response": lambda rng, world, runs: rng.random(runs) < expit(2 * world - 1),
        "three reports of one user": lambda rng, world, runs: rng.binomial(
            3, 1 - third if world else third, runs
        ),
    }
    cases = [("Gaussian", gaussian, 10**4, seeds), ("Gaussian", gaussian, 10**5, 8)]
    cases += [(name, draw, 10**4, seeds) for name, draw in pure.items()]
    for name, draw, runs, count in cases:
        delta, method = (1e-6, "gdp") if name == "Gaussian" else (0.0, "clopper-pearson")
        shares = []
        for seed in range(count):
            rng = np.random.default_rng(seed)
            sides = [np.asarray(draw(rng, world, runs), dtype=float) for world in (0, 1)]
            report = audit_scores(*sides, delta=delta, method=method)
            shares.append(replace(report, claim=1.0).share)
        print(
            f"{name}, {runs:,} runs a side: mean {np.mean(shares):.2f}, deviation "
            f"{np.std(shares):.2f}, least {min(shares):.2f} of {count}"
        )


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
