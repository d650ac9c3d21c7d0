"""Attacks on everything: what they prove of each claim at epsilon = 1, and how fast.

    python benchmarks/audit.py [--full] [--workers 2] [--runs 10000] [--seed 0]
    python benchmarks/audit.py --rooms regression --attacks "glm erm" "glm sgd, logistic"
    python benchmarks/audit.py --ideal     what perfect attacks would prove, over seeds
    python benchmarks/audit.py --power     whether half the noise is caught, attack by attack

10^4 runs a side; with --full 10^5 for attacks on Gaussian claims (slow learners less). All
figures of docs/audits.md are from here: results are kept in out/, so that rooms and attacks can be
run one by one; the last lines are the table of all of them, and the picture is written to docs/.
"""

import argparse
import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from kit import CONSOLE, new_table, run
from rich.table import Table
from scipy.special import expit

from discreet.audit import ATTACKS, audit_scores
from discreet.audit.rows import ROOMS
from discreet.audit.run import Audited, audit_all
from discreet.experiments.figures import audit_figure
from discreet.experiments.measure import grid
from discreet.privacy import gaussian_mu

FOLDER = Path(__file__).parent.parent / "docs"
USUAL = Path("out/audit.json")
FULL = Path("out/audit-full.json")
POWER = Path("out/audit-power.json")
CONFIDENCE = 0.999  # of all verdicts together


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rooms", nargs="*", default=ROOMS)
    parser.add_argument("--attacks", nargs="*", default=list(ATTACKS))
    parser.add_argument("--ideal", action="store_true")
    parser.add_argument("--power", action="store_true")
    options = parser.parse_args()
    if options.ideal:
        ideal()
        return
    if options.power:
        power(options)
        return
    results: list[Audited] = []
    for room in options.rooms:
        attacks = [ATTACKS[name] for name in options.attacks if ATTACKS[name].room == room]
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
    broken = [each.attack.name for each in results if each.verdict == "BROKEN"]
    print(f"refuted at {CONFIDENCE} over {len(ATTACKS)} attacks: {broken or 'none'}")
    CONSOLE.print(table())


def power(options: argparse.Namespace) -> None:
    """Attacks on learners with half the noise that their claim of 1 needs: which notice, at 95%."""
    chosen = [ATTACKS[name] for name in options.attacks if ATTACKS[name].room in options.rooms]
    records = kept(POWER)

    def note(result: Audited) -> None:
        report = result.close
        found = {"proved": report.lower_bound, "runs": report.runs // 2}
        records[result.attack.name] = {**found, "near": result.attack.attainable}
        POWER.parent.mkdir(exist_ok=True)
        POWER.write_text(json.dumps(records, indent=1))

    halved = [each.halved() for each in chosen if each.attainable > 0]
    audit_all(halved, options.runs, options.seed, workers=options.workers, finished=note)
    shown = new_table(
        "Half the noise, claimed at epsilon = 1",
        ("attack", "runs", "attainable", "proved", "caught"),
    )
    for name in (each for each in ATTACKS if each in records):
        runs, near, found = (records[name][key] for key in ("runs", "near", "proved"))
        caught = "yes" if found > 1 else "NO"
        shown.add_row(name, f"{runs:,}", f"{near:.2f}", f"{found:.2f}", caught)
    CONSOLE.print(shown)


def ideal_bound(*, release: str, runs: int, seed: int) -> dict[str, float]:
    """The fraction of the claim that exact likelihood ratios prove, without any learner."""
    rng = np.random.default_rng(seed)
    third = 1 / (1 + math.exp(1 / 3))
    sides = []
    for side in (0, 1):
        if release == "Gaussian":
            scores = rng.normal(gaussian_mu(1.0, 1e-6) * side, 1.0, runs)
        elif release == "Laplace":
            scores = np.clip(rng.laplace(side, 1.0, runs), 0.0, 1.0)
        elif release == "randomised response":
            scores = rng.random(runs) < expit(2 * side - 1)
        else:
            scores = rng.binomial(3, 1 - third if side else third, runs)
        sides.append(np.asarray(scores, dtype=float))
    gaussian = release == "Gaussian"
    delta, method = (1e-6, "gdp") if gaussian else (0.0, "clopper-pearson")
    report = audit_scores(*sides, delta=delta, method=method)
    return {"value": replace(report, claim=1.0).fraction}


def ideal(seeds: int = 20) -> None:
    pure = ("Laplace", "randomised response", "three reports of one user")
    found = run([
        *grid(ideal_bound, seeds=range(seeds), release=("Gaussian", *pure), runs=(10**4,)),
        *grid(ideal_bound, seeds=range(8), release=("Gaussian",), runs=(10**5,)),
    ])  # fmt: skip
    cases = [("Gaussian", 10**4), ("Gaussian", 10**5), *((name, 10**4) for name in pure)]
    for release, runs in cases:
        values = found.over(ideal_bound, release=release, runs=runs)
        print(
            f"{release}, {runs:,} runs a side: mean {values.mean():.2f}, deviation "
            f"{values.std():.2f}, least {values.min():.2f} of {len(values)}"
        )


def table() -> Table:
    """All that is kept: 10^4 runs, and 10^5 where they were made."""
    usual = kept(USUAL)
    full = kept(FULL)
    longer = ("with 10^5 runs",) if full else ()
    shown = new_table(
        "Attacks at epsilon = 1",
        ("attack", "claim", "attainable", "proved, 95%", *longer, "all together, 99.9%"),
    )
    for room in ROOMS:
        for name in (each.name for each in ATTACKS.values() if each.room == room):
            if (one := usual.get(name)) is None:
                continue
            more = [proved(full[name], 100_000) if name in full else ""] if full else []
            near, sure = f"{one['near']:.2f}", f"{one['sure']:.2f}"
            shown.add_row(name, one["kind"], near, proved(one, 10_000), *more, sure)
    return shown


def proved(record: dict[str, Any], usual: int) -> str:
    """The fraction of the claim; with the runs a side, where they were fewer than is usual."""
    runs = record["runs"] // 2
    unit = " mu" if record["share_of"] == "mu" else ""
    return f"{record['share']:.2f}{unit}" + (f" ({runs:,})" if runs < usual else "")


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
            "near": each.attack.attainable,
            "share": each.close.fraction,
            "share_of": each.close.unit,
            "sure": each.sure.lower_bound,
            "verdict": each.verdict,
        }
    path.write_text(json.dumps(records, indent=1))
    if not full:
        audit_figure([(n, r["share"], r["near"]) for n, r in records.items()], FOLDER)


def kept(path: Path) -> dict[str, dict[str, Any]]:
    """What earlier runs found about attacks that there still are."""
    records = json.loads(path.read_text()) if path.exists() else {}
    return {name: record for name, record in records.items() if name in ATTACKS}


if __name__ == "__main__":
    main()
