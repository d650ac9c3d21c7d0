"""What tells whether other code still finds the numbers of a kept table: a few of its runs, again.

A table that was measured by `kit.run` keeps, beside digests of its code, the cheapest of its runs
in which every value of every parameter occurs, as far as LIMIT seconds go, with what they found.
Code that was only rewritten finds the same again, from the same seeds; then the table is of today's
code too. `left` names the values that no run stands for (the largest sizes, as a rule).
"""

import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discreet.experiments.measure import Measure, Measurement
from discreet.experiments.runner import Record

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # scripts, and papers/
LIMIT = 15.0  # seconds of processor time, for each table
CLOSE = 1e-6  # relatively: sums may be taken in another order
TIMED = ("seconds", "time")  # names of what is never found twice

Ran = tuple[Measurement, Record]


def probe(runs: Sequence[Ran]) -> dict[str, Any]:
    """The runs that stand for all of them."""
    missing = {fact for cell, _ in runs for fact in _facts(cell)}
    chosen = []
    spent = 0.0
    for cell, record in sorted(runs, key=lambda run: run[1]["seconds"]):
        if not missing & _facts(cell) or spent + record["seconds"] > LIMIT:
            continue
        missing -= _facts(cell)
        spent += record["seconds"]
        chosen.append({
            "measure": f"{_module(cell.measure)}:{cell.measure.__qualname__}",
            "parameters": dict(cell.parameters),
            "seed": cell.seed,
            "values": record["values"],
        })  # fmt: skip
    return {"runs": chosen, "seconds": round(spent, 1), "left": sorted(missing)}


def agrees(kept: Mapping[str, Any]) -> bool:
    """Whether today's code finds what a probe found; False if it has none, or cannot be run."""
    return bool(kept["runs"]) and all(_again(each) for each in kept["runs"])


def _again(run: Mapping[str, Any]) -> bool:
    module, _, name = run["measure"].partition(":")
    try:
        measure = getattr(importlib.import_module(module), name)
        parameters = {key: _tuples(value) for key, value in run["parameters"].items()}
        found = measure(**parameters, seed=run["seed"])
    except (ImportError, AttributeError, TypeError, ValueError):
        return False  # it is called otherwise now
    if set(found) != set(run["values"]):
        return False
    return all(
        np.shape(found[name]) == np.shape(value)
        and np.allclose(found[name], value, rtol=CLOSE, atol=1e-12)
        for name, value in run["values"].items()
        if name not in TIMED
    )


def _facts(cell: Measurement) -> set[str]:
    return {f"{cell.measure.__qualname__}: {name} = {json.dumps(value)}"
            for name, value in cell.parameters}  # fmt: skip


def _module(measure: Measure) -> str:
    return Path(sys.argv[0]).stem if measure.__module__ == "__main__" else measure.__module__


def _tuples(value: Any) -> Any:
    """JSON knows lists only; parameters are tuples, which can be keys."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
