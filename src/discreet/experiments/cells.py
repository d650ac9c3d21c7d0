"""One cell: run it, and keep what it found in a file of its own."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discreet.experiments.experiment import Cell
from discreet.experiments.source import data_digest
from discreet.experiments.tasks import TASKS

Record = Mapping[str, Any]  # what a cell's file holds


def run_cell(cell: Cell, folder: Path) -> Record:
    """Run one cell and write its file."""
    outcome = TASKS[cell.task].run(cell)
    if data_digest(cell.environment.options) != cell.data:
        raise ValueError(
            f"a data file of {cell.environment.title} has changed since the run began; run it again"
        )
    guarantee = outcome.guarantee
    record = {
        "n": outcome.n.tolist(),
        "value": outcome.value.tolist(),
        "blind": outcome.blind.tolist(),
        "trust": guarantee.trust if guarantee.private else "none",
        "delta": guarantee.delta if guarantee.private else 0.0,
        "statement": guarantee.statement(),
        "seconds": dict(outcome.seconds),
    }
    if not all(map(math.isfinite, record["value"])):
        raise ValueError(
            f"{cell.learner.title} on {cell.environment.title} has values that are not finite"
        )
    write_atomically(folder / f"{cell.key}.json", json.dumps(record))
    return record


def read_record(path: Path) -> Record | None:
    """What a cell's file holds; None if it is not there or damaged."""
    try:
        record: Record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that whoever looks sees all of it or none, whenever the process dies."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
