"""Planted bugs in A/B tests and off-policy values: what one row moves, and its price."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from discreet.evaluation import ABTest, evaluate
from discreet.evaluation.intervals import SPREAD
from discreet.privacy import Budget, Ledger, SeededNoise
from discreet.privacy.ledger import BudgetSpent
from discreet.privacy.release import Release, observed
from mutants.kit import DELTA, Edit, Mutant

OTHERS = [f"other {i}" for i in range(20)]


def moved(calls: int, *sides: Sequence[Any], metrics: Sequence[str] = ("bought",)) -> float:
    """How far a person's rows of one side are from those of the other, in a look's sums."""
    found = []
    for own in sides:
        ranges = dict.fromkeys(metrics, (0.0, 1.0))
        test = ABTest(("A", "B"), ranges, np.inf, salt="known", noise=SeededNoise(0))
        people = [*OTHERS, *["ada"] * len(own)]
        for _ in range(calls):
            test.add_many(people, {name: [*[1.0] * len(OTHERS), *own] for name in metrics})
        test.look()
        look = test.released[-1]
        found.append(np.stack([look.sums, SPREAD * look.spreads]) * test.weights)
    return float(np.linalg.norm(found[0] - found[1]))


def odd_cell() -> float:
    return moved(1, [1.0], ["x"])


def two_calls() -> float:
    return moved(2, [0.0], [1.0])


def three_rows() -> float:
    return moved(1, [0.0] * 3, [1.0] * 3)


def three_metrics() -> float:
    return moved(1, [0.0], [1.0], metrics=("bought", "spent", "stayed"))


def between_ends() -> float:
    return moved(1, [0.0], [0.38])


def first(_: Any) -> Any:
    return np.array([1.0, 0.0])


def valued(log: Mapping[str, Any], policy: Any, **more: Any) -> None:
    about = {"least_propensity": 0.5, "propensity": 0.5, "model": "none", **more}
    evaluate(log, policy, 1.0, DELTA, noise=SeededNoise(0), **about)


def moved_by(row: Any, *rows: tuple[float, float], **more: Any) -> float:
    """How far one row (action and reward) moves a release, over what was booked."""
    values, booked = [], 1.0
    log = {"action": np.zeros(11), "reward": np.full(11, 0.5)}
    for log["action"][10], log["reward"][10] in rows:
        with observed("release") as seen:
            valued(log, {"one": first, "other": first}, **more)
        values.append(np.ravel(seen[row].value))
        booked = seen[row].release.sensitivity
    return float(np.linalg.norm(values[0] - values[1])) / booked


def two_policies() -> float:
    return moved_by(-1, (0, 0.0), (0, 1.0))


def lost_row() -> float:
    return moved_by(-1, (0, 1.0), (-1, 1.0))


def lost_pilot() -> float:
    return moved_by(0, (0, 1.0), (-1, 1.0), model="mean")


def a_spent_ledger() -> float:
    """Values that are released under a ledger in which another scope has cost everything."""
    budget = Budget(1.0, DELTA)
    ledger = Ledger(budget)
    theirs = {"what": "all of it", "scope": "theirs", "sampler": "none"}
    ledger.spend(Release.gaussian(sensitivity=budget.mu, scale=1.0, **theirs))
    log = {"action": np.zeros(11), "reward": np.full(11, 0.5)}
    try:
        valued(log, first, ledger=ledger, model="mean")
    except BudgetSpent:
        return 0.0
    return 1.0


def of_a_person(name: str, broken: str, catch: Callable[[], float], *edits: Edit) -> Mutant:
    """A bug by which a person of an A/B test moves a look farther than by 1."""
    return Mutant(name, "ABTest", broken, "sensitivity", 1.0, catch, edits, unit="of the sum")


MUTANTS = [
    of_a_person(
        "one array of all cells",
        "Cells become an array before they are read: one that is text makes text of all.",
        odd_cell,
        Edit("evaluation.columns:numbers_alone", "cells(values)", "np.asarray(values)"),
        Edit("evaluation.columns:number_alone", "else complex(thing)", "else math.nan"),
    ),
    of_a_person(
        "nobody is remembered",
        "Who was added by an earlier call counts again.",
        two_calls,
        Edit("evaluation.abtest:ABTest._added", "known.update(", "dict().update("),
    ),
    of_a_person(
        "rows of a person add up",
        "Several rows of a person in one call are summed, not averaged.",
        three_rows,
        Edit("evaluation.abtest:ABTest._added", "1 / np.maximum(counts[places], 1)", "1.0"),
    ),
    of_a_person(
        "metrics without weights",
        "Each metric enters the sum in full: three of them are sqrt(3) long.",
        three_metrics,
        Edit("evaluation.abtest:ABTest._added", "terms * self.weights", "terms"),
    ),
    of_a_person(
        "a spread that costs",
        "y (1 - y) has twice the weight that is free beside y.",
        between_ends,
        Edit("evaluation.abtest:ABTest._added", "SPREAD * means", "2 * SPREAD * means"),
    ),
    Mutant(
        "each policy priced alone",
        "evaluate",
        "Several policies are one release, whose noise is that of one policy.",
        "sensitivity",
        1.0,
        two_policies,
        (
            Edit(
                "evaluation.off_policy:Estimates.values",
                "sensitivity=2 * math.sqrt(policies)",
                "sensitivity=2.0",
            ),
        ),
        unit="of the booked move",
    ),
    Mutant(
        "a count that costs",
        "evaluate",
        "How many rows can be read is released at its full weight, and is not free any more.",
        "sensitivity",
        1.0,
        lost_row,
        (
            Edit(
                "evaluation.off_policy:Estimates.values",
                "COUNT * math.sqrt(policies)",
                "math.sqrt(policies)",
            ),
        ),
        unit="of the booked move",
    ),
    Mutant(
        "a pilot's count that costs",
        "evaluate",
        "The number of rows that predict is released at its full weight beside their sum.",
        "sensitivity",
        1.0,
        lost_pilot,
        (Edit("evaluation.off_policy:Estimates._mean", "math.sqrt(3 / 4)", "1.0"),),
        unit="of the booked move",
    ),
    Mutant(
        "scopes beside other releases",
        "evaluate",
        "A log's scopes are booked in the caller's ledger as rows that no other release has seen.",
        "ledger",
        0.0,
        a_spent_ledger,
        (
            Edit(
                "evaluation.off_policy:evaluate",
                'with ledger.part(budget, "gaussian", what="the value of a policy") as part:',
                "for part in (ledger,):",
            ),
        ),
        unit="releases",
    ),
]
