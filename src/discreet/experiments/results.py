"""What the cells found: a tidy frame, and means with 95% intervals."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from discreet.arrays import Array
from discreet.experiments.experiment import Cell, Choice, Experiment
from discreet.experiments.statistics import interval
from discreet.experiments.task import Task
from discreet.experiments.tasks import TASKS, cells_of

COLUMNS = ("environment", "learner", "trust", "epsilon", "delta", "seed", "n", "value", "blind")
LINE = ["environment", "learner", "epsilon"]  # what a line of a table is


class Results:
    """The finished cells of an experiment.

    frame      one row for each cell and point: environment, learner, trust, epsilon (inf without
               privacy), delta, seed, n, value (less is better), blind (who learns nothing)
    summary()  one row for each environment, learner and epsilon: means over seeds at the end

    experiment   that was run
    found        finished cells, each with its record
    """

    def __init__(
        self, experiment: Experiment, found: Sequence[tuple[Cell, Mapping[str, Any]]]
    ) -> None:
        self.experiment = experiment
        self.found = list(found)
        self.frame = _frame(self.found)

    @property
    def task(self) -> Task:
        """What was measured."""
        return TASKS[self.experiment.task]

    @property
    def complete(self) -> bool:
        """Whether every cell of the experiment is there."""
        return len(self.found) == len(cells_of(self.experiment))

    @property
    def reads_files(self) -> tuple[str, ...]:
        """Environments that are read from somebody's own data files."""
        return tuple(dict.fromkeys(cell.environment.title for cell, _ in self.found if cell.data))

    @property
    def reference(self) -> Choice | None:
        """The first learner of the experiment without privacy: what privacy costs is told by it."""
        entry = self.task.learner_entry
        return next((each for each in self.experiment.learners if not entry(each).private), None)

    def save(self, out: Path) -> None:
        """Write results.parquet, all of it or nothing."""
        part = out / ".results.parquet.part"
        self.frame.to_parquet(part, index=False)
        part.replace(out / "results.parquet")

    def seconds(self) -> dict[str, float]:
        """Processor time by part, over all cells."""
        total: dict[str, float] = {}
        for _, record in self.found:
            for part, seconds in record["seconds"].items():
                total[part] = total.get(part, 0.0) + seconds
        return total

    def statements(self) -> dict[tuple[str, float], str]:
        """The privacy statement of every learner at every budget, from its first run."""
        found: dict[tuple[str, float], str] = {}
        for cell, record in self.found:
            found.setdefault((cell.learner.title, cell.epsilon), record["statement"])
        order = [each.title for each in self.experiment.learners]
        return dict(sorted(found.items(), key=lambda item: (order.index(item[0][0]), item[0][1])))

    def summary(self) -> pd.DataFrame:
        """At the end of the runs: mean and 95% interval over seeds, and what privacy costs.

        gained  1 - mean / blind: what fraction of what there was to gain was gained
        cost    mean difference to the reference on the same seeds, with its own interval
        """
        last = self.frame[self.frame["n"] == self.frame.groupby(LINE)["n"].transform("max")]
        plain = last[last["learner"] == (self.reference.title if self.reference else None)]
        base = plain.set_index(["environment", "seed"])["value"]
        lines = []
        for key, rows in last.groupby(LINE, sort=False):
            value = rows["value"].to_numpy()
            mean, half = interval(value)
            line = dict(zip(LINE, key, strict=True))
            line |= {"trust": rows["trust"].iloc[0], "delta": rows["delta"].iloc[0]}
            line |= {"seeds": len(rows), "mean": mean, "half": half, "worst": value.max()}
            blind = float(rows["blind"].mean())
            line |= {"blind": blind, "gained": 1 - mean / blind if blind > 0 else math.nan}
            pairs = base.reindex(pd.MultiIndex.from_frame(rows[["environment", "seed"]]))
            difference = (value - pairs.to_numpy())[pairs.notna().to_numpy()]
            cost, cost_half = interval(difference) if len(difference) else (math.nan, math.nan)
            lines.append({**line, "cost": cost, "cost_half": cost_half})
        return self._ordered(pd.DataFrame(lines))

    def curves(self, environment: str) -> dict[tuple[str, float], tuple[Array, Array, Array]]:
        """(learner, epsilon) -> n, mean, half width of the 95% interval."""
        chosen = self.frame[self.frame["environment"] == environment]
        found = {}
        for (learner, epsilon), rows in chosen.groupby(["learner", "epsilon"], sort=False):
            table = rows.pivot(index="n", columns="seed", values="value")
            pairs = [interval(row) for row in table.to_numpy()]
            mean, half = np.array(pairs).T
            found[learner, epsilon] = (table.index.to_numpy(), mean, half)
        return found

    def _ordered(self, lines: pd.DataFrame) -> pd.DataFrame:
        """As in the experiment: environments, then learners, then budgets from large to small."""
        places = {
            "environment": [each.title for each in self.experiment.environments],
            "learner": [each.title for each in self.experiment.learners],
        }
        keys = {name: lines[name].map(order.index) for name, order in places.items()}
        order = pd.DataFrame({**keys, "epsilon": -lines["epsilon"]})
        return lines.loc[order.sort_values(list(order.columns)).index].reset_index(drop=True)


def _frame(found: Sequence[tuple[Cell, Mapping[str, Any]]]) -> pd.DataFrame:
    """One row for each cell and point."""
    sizes = [len(record["n"]) for _, record in found]
    each: dict[str, list[Any]] = {
        "environment": [cell.environment.title for cell, _ in found],
        "learner": [cell.learner.title for cell, _ in found],
        "trust": [record["trust"] for _, record in found],
        "epsilon": [cell.epsilon for cell, _ in found],
        "delta": [record["delta"] for _, record in found],
        "seed": [cell.seed for cell, _ in found],
    }
    columns: dict[str, Any] = {name: np.repeat(values, sizes) for name, values in each.items()}
    for name in ("n", "value", "blind"):
        columns[name] = np.concatenate([record[name] for _, record in found])
    return pd.DataFrame(columns)[list(COLUMNS)]
