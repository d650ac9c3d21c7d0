"""Attacks on everything: what they prove of each claim at epsilon = 1, and of half the noise.

    python benchmarks/audit.py [part of an attack's name, or a room ...]

10^4 runs a side, slow attacks less (`Attack.effort`), seed 0. Two tables, which docs/audits.md has:
what is proved of a learner as it is; and whether half the noise that the claim needs is noticed, at
95%, and if not what is lost. What an ideal attack would prove is in benchmarks/privacy.py.
"""

import sys
from pathlib import Path

from kit import CONSOLE, new_table, run

from discreet.audit import ATTACKS
from discreet.audit.rows import ROOMS, Attack
from discreet.audit.run import audit_all
from discreet.experiments.figures import audit_figure
from discreet.experiments.measure import Found, grid

FOLDER = Path(__file__).parent.parent / "docs"
RUNS = 10_000
CONFIDENCE = 0.999  # of all verdicts together


def proved(*, attack: str, halved: bool, seed: int) -> dict[str, float]:
    """What one attack proves."""
    one = ATTACKS[attack].halved() if halved else ATTACKS[attack]
    (found,) = audit_all([one], RUNS, seed, confidence=CONFIDENCE, suite=len(ATTACKS))
    return {
        "bound": found.close.lower_bound,
        "fraction": found.close.fraction,
        "sure": found.sure.lower_bound,
        "runs": found.close.runs / 2,
    }


def runs_of(found: Found, each: Attack, halved: bool) -> str:
    """Those that were made, where they are fewer than usual."""
    made = found.mean(proved, "runs", attack=each.name, halved=halved)
    return f" ({made:,.0f})" if made < RUNS else ""


def claims(found: Found, chosen: list[Attack]) -> list[str]:
    """The table of what is proved, and the attacks that refute a claim."""
    table = new_table(
        "Attacks at epsilon = 1",
        ("attack", "claim", "attainable", "proved, 95%", "all together, 99.9%"),
    )
    broken = []
    shares = []
    for each in chosen:
        name, unit = each.name, " mu" if each.claim.kind == "gaussian" else ""
        values = {
            key: found.mean(proved, key, attack=name, halved=False) for key in ("fraction", "sure")
        }
        broken += [name] if values["sure"] > 1 else []
        shares.append((name, values["fraction"], each.attainable))
        share = f"{values['fraction']:.2f}{unit}{runs_of(found, each, False)}"
        table.add_row(
            name, each.claim.kind, f"{each.attainable:.2f}", share, f"{values['sure']:.2f}"
        )
    CONSOLE.print(table)
    audit_figure(shares, FOLDER)
    return broken


def power(found: Found, chosen: list[Attack]) -> None:
    table = new_table(
        "Half the noise, claimed at epsilon = 1",
        ("attack", "attainable", "proved, 95%", "caught", "what is lost"),
    )
    for each in chosen:
        bound = found.mean(proved, "bound", attack=each.name, halved=True)
        caught = "yes" if bound > 1 else "no"
        shown = f"{bound:.2f}{runs_of(found, each, True)}"
        table.add_row(each.name, f"{each.attainable:.2f}", shown, caught, each.lost)
    CONSOLE.print(table)


def main(parts: list[str]) -> int:
    rank = {room: place for place, room in enumerate(ROOMS)}
    chosen = sorted(ATTACKS.values(), key=lambda each: rank[each.room])
    chosen = [each for each in chosen if any(part in (each.room, "") or part in each.name
                                             for part in parts)]  # fmt: skip
    noisy = [each for each in chosen if each.attainable > 0]
    found = run([
        *grid(proved, seeds=(0,), attack=[each.name for each in chosen], halved=(False,)),
        *grid(proved, seeds=(0,), attack=[each.name for each in noisy], halved=(True,)),
    ])  # fmt: skip
    broken = claims(found, chosen)
    print(f"refuted at {CONFIDENCE} over {len(ATTACKS)} attacks: {broken or 'none'}")
    power(found, noisy)
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [""]))
