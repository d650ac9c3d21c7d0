"""What the cells found: a tidy frame, and means with 95% intervals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from discreet.arrays import Array, one_of
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
        """Write results.parquet and the same as results.csv, each whole or not at all."""
        for name, write in (
            ("results.parquet", self.frame.to_parquet),
            ("results.csv", self.frame.to_csv),
        ):
            part = out / f".{name}.part"
            write(part, index=False)
            part.replace(out / name)

    def compare(self, first: str, second: str) -> "Comparison":
        """Differences of two learners on the same seeds, with 95% intervals: first less second.

        One that has no privacy is held against every budget of the other.
        """
        last = self.frame[self.frame["n"] == self.frame.groupby(LINE)["n"].transform("max")]
        titles = [each.title for each in self.experiment.learners]
        for each in (first, second):
            one_of("learner", each, tuple(titles))
        key = ["environment", "epsilon", "seed"]
        ours, theirs = (last[last["learner"] == each] for each in (first, second))
        on, plain = key, [bool(np.isinf(each["epsilon"]).all()) for each in (ours, theirs)]
        if plain[0] != plain[1]:  # one without privacy: against every budget of the other
            on = ["environment", "seed"]
            ours, theirs = (
                each.drop(columns="epsilon") if alone else each
                for each, alone in zip((ours, theirs), plain, strict=True)
            )
        pairs = ours.merge(theirs[[*(n for n in key if n in theirs), "value"]], on=on,
                           suffixes=("", "_second"))  # fmt: skip
        lines = []
        for (environment, epsilon), rows in pairs.groupby(key[:2], sort=False):
            mean, half = interval((rows["value"] - rows["value_second"]).to_numpy())
            base = float(rows["value_second"].mean())
            lines.append((environment, epsilon, len(rows), mean, mean - half, mean + half, base))
        columns = ["environment", "epsilon", "seeds", "difference", "low", "high", second]
        return Comparison(first, second, pd.DataFrame(lines, columns=columns))

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


@dataclass(frozen=True)
class Comparison:
    """How two learners differ, seed by seed: less than 0 is better for the first."""

    first: str  # its title
    second: str  # the title of the one it is held against
    frame: pd.DataFrame  # environment, epsilon, seeds, difference, low, high, mean of the second

    def markdown(self) -> str:
        """A table for a page.

        >>> frame = pd.DataFrame([["sphere", 1.0, 5, -3.25, -4.0, -2.5, 50.0]],
        ...     columns=["environment", "epsilon", "seeds", "difference", "low", "high", "B"])
        >>> print(Comparison("A", "B", frame).markdown())
        | environment | epsilon | seeds | A less B | 95% interval | B |
        |---|---|---|---|---|---|
        | sphere | 1 | 5 | -3.25 | -4 to -2.5 | 50 |
        """
        head, rows = self._cells()
        lines = [head, ["---"] * len(head), *rows]
        text = [f"| {' | '.join(cells)} |" for cells in lines]
        return "\n".join([text[0], text[1].replace(" ", ""), *text[2:]])

    def latex(self) -> str:
        """The same for a paper, in booktabs' rules."""
        head, rows = self._cells()
        table = pd.DataFrame(rows, columns=head)
        layout = "l" + "r" * (len(head) - 1)
        return str(table.to_latex(index=False, escape=True, column_format=layout))

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        head = ["environment", "epsilon", "seeds", f"{self.first} less {self.second}"]
        rows = [
            [environment, f"{epsilon:g}", str(seeds), f"{difference:.4g}",
             f"{low:.4g} to {high:.4g}", f"{base:.4g}"]
            for environment, epsilon, seeds, difference, low, high, base in self.frame.to_numpy()
        ]  # fmt: skip
        return [*head, "95% interval", self.second], rows


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
