"""Measurements: a pure function at many parameters and seeds, run by the one runner.

Papers and benchmarks are lists of measurements and tables of what they found:

    cells = grid(regret, seeds=10, dim=(5, 20), epsilon=(1.0, math.inf))
    found = measured(cells, Path("out/benchmarks"))
    mean, half = interval(found.over(regret, dim=5, epsilon=1.0))
"""

import hashlib
import itertools
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.experiments.runner import Record, finished
from discreet.experiments.source import digest, source_text
from discreet.experiments.writing import write_atomically

FIRST_SEED = 3000  # the learners' constants were tuned on smaller ones
Measure = Callable[..., Mapping[str, Any]]  # (seed=..., **parameters) -> numbers by name
Watch = Callable[[int, int], object]  # cells done, cells in all


@dataclass(frozen=True)
class Measurement:
    """One run of a function that stands at the top of a module and looks at its arguments alone.

    >>> def area(*, side, seed):
    ...     return {"value": side**2}
    >>> cell = Measurement(area, (("side", 3),), 3000)
    >>> dict(cell.parameters), cell.seed
    ({'side': 3}, 3000)
    """

    measure: Measure  # (**parameters, seed) -> numbers by name
    parameters: tuple[tuple[str, Any], ...]  # sorted by name
    seed: int  # of everything random

    @property
    def key(self) -> str:
        """The name of its file: the library's code, the function's, the parameters, the seed."""
        plain = {
            "source": digest(),
            "text": source_text(self.measure),
            "measure": self.measure.__qualname__,
            "parameters": self.parameters,
            "seed": self.seed,
        }
        return hashlib.sha256(json.dumps(plain).encode()).hexdigest()[:24]


def grid(
    measure: Measure, *, seeds: int | Sequence[int], **axes: Sequence[Any]
) -> list[Measurement]:
    """A measurement for every combination of the axes' values and every seed.

    `seeds` is a list, or how many there are from FIRST_SEED on.
    """
    chosen = range(FIRST_SEED, FIRST_SEED + seeds) if isinstance(seeds, int) else seeds
    return [
        Measurement(measure, tuple(zip(sorted(axes), values, strict=True)), seed)
        for values in itertools.product(*(axes[name] for name in sorted(axes)))
        for seed in chosen
    ]


class Found:
    """What measurements found, asked for by function and parameters.

    pairs     measurements with their records; one that is there twice counts once
    """

    def __init__(self, pairs: Iterable[tuple[Measurement, Record]]) -> None:
        self._values: dict[tuple[Measure, Any], dict[int, Mapping[str, Any]]] = {}
        self.seconds = 0.0
        self.cells = 0
        for cell, record in pairs:
            seeds = self._values.setdefault((cell.measure, cell.parameters), {})
            if cell.seed not in seeds:
                seeds[cell.seed] = record["values"]
                self.seconds += record["seconds"]
                self.cells += 1

    def over(self, measure: Measure, name: str = "value", /, **parameters: Any) -> Array:
        """The numbers called `name`, one row for each seed, in the order of the seeds."""
        found = self._values[measure, tuple(sorted(parameters.items()))]
        return np.array([found[seed][name] for seed in sorted(found)])

    def mean(self, measure: Measure, name: str = "value", /, **parameters: Any) -> float:
        """Of them."""
        return float(np.mean(self.over(measure, name, **parameters)))


def records(
    cells: Sequence[Measurement],
    folder: Path,
    *,
    workers: int | None = None,
    cluster: str | None = None,
    watch: Watch | None = None,
) -> dict[str, Record]:
    """Run what has no file in `folder` yet; the record of every measurement by its key.

    `workers` and `cluster` are those of `runner.finished`; `watch` is told how far it is.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {cell.key: cell for cell in cells}
    done: dict[str, Record] = {}
    with closing(
        finished(list(wanted.values()), folder, run_measurement, workers=workers, cluster=cluster)
    ) as coming:
        for cell, record in coming:
            done[cell.key] = record
            if watch:
                watch(len(done), len(wanted))
    return done


def measured(cells: Sequence[Measurement], folder: Path, **how: Any) -> Found:
    """The same (`records`), to be asked for numbers."""
    done = records(cells, folder, **how)
    return Found((cell, done[cell.key]) for cell in cells)


def run_measurement(cell: Measurement, folder: Path) -> Record:
    """Run one measurement and write its file."""
    start = time.process_time()
    found = cell.measure(seed=cell.seed, **dict(cell.parameters))
    values = {name: np.asarray(value, dtype=np.float64).tolist() for name, value in found.items()}
    record = {"values": values, "seconds": time.process_time() - start}
    if not all(np.isfinite(value).all() for value in values.values()):
        raise ValueError(
            f"{cell.measure.__name__} found values that are not finite at {dict(cell.parameters)}"
        )
    write_atomically(folder / f"{cell.key}.json", json.dumps(record))
    return record
