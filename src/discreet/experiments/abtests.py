"""A/B tests from a file: people of a table come in, a look is taken, a report goes out."""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from discreet.evaluation import ABTest
from discreet.evaluation.columns import column, ids_in, tables
from discreet.evaluation.looks import Look
from discreet.experiments import figures
from discreet.experiments.pages import render
from discreet.experiments.writing import write_atomically
from discreet.privacy import Guarantee, SecureNoise

PAGE, NUMBERS, STATE = "report.html", "looks.json", "state"
TEST = (
    "arms", "metrics", "epsilon", "delta", "salt", "split", "lower_is_better", "looks", "mechanism",
    "confidence",
)  # fmt: skip
NEEDED = ("arms", "metrics", "epsilon", "salt", "people")
OWN = ("name", "people", "person")


@dataclass(frozen=True)
class Plan:
    """An A/B test as its file has it."""

    name: str  # for people
    people: tuple[Path, ...]  # tables of those who were added, .csv or .parquet
    person: str  # the column of ids
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of `ABTest`

    @classmethod
    def read(cls, path: Path) -> "Plan":
        """From TOML; ValueError names what is wrong."""
        try:
            plain = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ValueError(f"cannot read {path}: {error.strerror}") from None
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ValueError(f"{path} is not valid TOML: {error}") from None
        if unknown := sorted(set(plain) - {*TEST, *OWN}):
            known = ", ".join((*OWN, *TEST))
            raise ValueError(f"{path}: unknown {', '.join(unknown)}; known: {known}")
        if missing := [name for name in NEEDED if name not in plain]:
            raise ValueError(f"{path}: {', '.join(missing)} must be given")
        files = plain["people"]
        tables = [files] if isinstance(files, str) else files
        return cls(
            str(plain.get("name", path.stem)),
            tuple(path.parent / each for each in tables),
            str(plain.get("person", "person")),
            {name: plain[name] for name in TEST if name in plain},
        )


@dataclass(frozen=True)
class Report:
    """What an A/B test says so far."""

    name: str  # of the test
    history: Sequence[Look]  # what was known after each look
    guarantee: Guarantee  # the promise

    @property
    def look(self) -> Look:
        return self.history[-1]

    def rows(self) -> list[tuple[str, ...]]:
        """Metric, arm, people, mean, and the difference to the control with its p-value."""
        control, *_ = self.look.people
        rows: list[tuple[str, ...]] = []
        for name, metric in self.look.metrics.items():
            for arm, mean in metric.arms.items():
                cells = (name, arm, f"{self.look.people[arm]:,}", str(mean))
                if arm == control:
                    rows.append((*cells, "", ""))
                    continue
                difference = metric.difference(arm, control)
                rows.append((*cells, str(difference), f"{metric.p_value(arm, control):.3f}"))
        return rows

    def html(self) -> str:
        return render(
            "abtest.html",
            title=self.name,
            report=self,
            rows=self.rows(),
            picture=figures.looks(self.history),
        )

    def record(self) -> dict[str, Any]:
        return {
            "format": 1,
            "name": self.name,
            "looks": [each.to_dict() for each in self.history],
            "guarantee": self.guarantee.to_dict(),
        }


def run(plan: Plan, folder: Path) -> Report | None:
    """Add whoever is new in the tables, look, save, and write the report; None: too early to look.

    The state is in the folder, and with it who was added: the same command with longer tables goes
    on where it was. It is saved before anything is shown.

    Ids are text: what stands in a CSV file ("007" is not "7"), or Python's text of what a Parquet
    file holds (7 is "7", 7.0 is "7.0"). So no row changes who another row is.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / STATE
    if path.exists():
        test = ABTest.load(path)
        made = ABTest(**plan.arguments, noise=SecureNoise())
        if made._config() != test._config():
            raise ValueError(
                f"{path} is of another test: arms, metrics, budget or salt have changed. A new "
                "test needs a new folder, a new salt and new people"
            )
    else:
        test = ABTest(**plan.arguments, noise=SecureNoise())
    for each in plan.people:
        test.add_many(_with_ids(each, plan.person, tuple(test.metrics)))
    test.look()
    test.save(path)
    if not test.history:
        return None
    report = Report(plan.name, test.history, test.guarantee)
    write_atomically(folder / NUMBERS, json.dumps(report.record(), indent=2) + "\n")
    write_atomically(folder / PAGE, report.html())
    return report


def _with_ids(path: Path, person: str, metrics: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """The rows of a table with the ids as text, some at a time; who takes part is public."""
    for table in tables(path):
        if person not in getattr(getattr(table, "schema", None), "names", table):
            raise ValueError(f"{path} has no column {person!r}")
        ids = ids_in(table[person])
        if None in ids or "" in ids:
            raise ValueError(
                f"{path} has rows without an id: every row needs its person in {person!r}"
            )
        text = [each if isinstance(each, bytes) else str(each) for each in ids]
        yield {"person": text, **{name: column(table, name) for name in metrics}}
