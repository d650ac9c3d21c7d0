"""A cell: one pure function, its parameters and a seed. What it found is one small file."""

import hashlib
import inspect
import itertools
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discreet.experiments.cells import Record, write_whole
from discreet.privacy.checks import Array
from discreet.source import digest

FIRST_SEED = 3000  # the learners' constants were tuned on smaller ones
Measure = Callable[..., Mapping[str, Any]]  # (seed=..., **parameters) -> numbers by name


@dataclass(frozen=True)
class Cell:
    """One run. The function stands at the top of a module and looks at its arguments alone.

    >>> def area(*, side, seed):
    ...     return {"value": side**2}
    >>> cell = grid(area, seeds=1, side=(2, 3))[1]
    >>> cell.parameters, cell.seed, len(cell.key)
    ((('side', 3),), 3000, 24)
    """

    measure: Measure
    parameters: tuple[tuple[str, Any], ...]
    seed: int

    @property
    def key(self) -> str:
        """The name of its file: the code, the function with its text, the parameters, the seed."""
        plain = {
            "source": digest(),
            "text": inspect.getsource(self.measure),
            "measure": f"{self.measure.__module__}.{self.measure.__qualname__}",
            "parameters": self.parameters,
            "seed": self.seed,
        }
        return hashlib.sha256(json.dumps(plain).encode()).hexdigest()[:24]


def grid(measure: Measure, *, seeds: int, **axes: Sequence[Any]) -> list[Cell]:
    """A cell for every combination of the axes' values and every seed."""
    return [
        Cell(measure, tuple(zip(sorted(axes), values, strict=True)), FIRST_SEED + seed)
        for values in itertools.product(*(axes[name] for name in sorted(axes)))
        for seed in range(seeds)
    ]


def run_cell(cell: Cell, folder: Path) -> Record:
    """Run one cell and write its file."""
    start = time.process_time()
    found = cell.measure(seed=cell.seed, **dict(cell.parameters))
    values = {name: np.asarray(value, dtype=np.float64).tolist() for name, value in found.items()}
    record = {"values": values, "seconds": time.process_time() - start}
    if not all(np.isfinite(value).all() for value in values.values()):
        raise ValueError(f"{cell.measure.__name__} left the numbers at {dict(cell.parameters)}")
    write_whole(folder / f"{cell.key}.json", json.dumps(record))
    return record


class Found:
    """What the cells found, asked for by function and parameters."""

    def __init__(self, pairs: Iterable[tuple[Cell, Record]]) -> None:
        self._values: dict[tuple[Measure, Any], dict[int, Mapping[str, Any]]] = {}
        self.seconds, self.cells = 0.0, 0
        for cell, record in pairs:
            seeds = self._values.setdefault((cell.measure, cell.parameters), {})
            if cell.seed not in seeds:  # two exhibits may ask for the same cell
                seeds[cell.seed] = record["values"]
                self.seconds += record["seconds"]
                self.cells += 1

    def over(self, measure: Measure, name: str = "value", **parameters: Any) -> Array:
        """The numbers called `name`, one row for each seed, in the order of the seeds."""
        found = self._values[measure, tuple(sorted(parameters.items()))]
        return np.array([found[seed][name] for seed in sorted(found)])

    def mean(self, measure: Measure, name: str = "value", **parameters: Any) -> float:
        """Their mean."""
        return float(np.mean(self.over(measure, name, **parameters)))


class Slope(NamedTuple):
    """Of log y against log x, and its standard error over seeds."""

    value: float
    error: float

    def __str__(self) -> str:
        shown = f"{self.value:.2f}" + (f" ± {2 * self.error:.2f}" if self.error > 0.005 else "")
        return "-" if self.value != self.value else shown.replace("-", "\N{MINUS SIGN}")


def slope(x: Sequence[float], runs: Sequence[Array | float]) -> Slope:
    """Through the means of runs; points whose mean is not positive are left out.

    >>> slope([1, 10, 100], [2.0, 20.0, 200.0])
    Slope(value=1.0, error=0.0)
    >>> print(slope([1, 10], [np.array([1.0, 3.0]), np.array([18.0, 22.0])]))
    1.00 ± 0.44
    """
    values = [np.atleast_1d(run) for run in runs]
    kept = [(math.log(a), v) for a, v in zip(x, values, strict=True) if v.mean() > 0]
    if len(kept) < 2:
        return Slope(math.nan, math.nan)
    at = np.array([place for place, _ in kept])
    means = np.array([v.mean() for _, v in kept])
    errors = np.array([v.std(ddof=1) / math.sqrt(len(v)) if len(v) > 1 else 0.0 for _, v in kept])
    weights = (at - at.mean()) / np.sum((at - at.mean()) ** 2)
    error = math.sqrt(float(np.sum((weights * errors / means) ** 2)))
    return Slope(round(float(weights @ np.log(means)), 10), error)
