"""Logs of decisions with their propensities, from wherever they are kept, some rows at a time.

a `Log`                  environments.logged_table, open_bandit_log, logged
a table                  a data frame, columns, an Arrow table or batch, a stream of batches; files,
                         .csv, .parquet or .arrow, by name, pattern or folder: columns
                         "action", "reward" and "propensity", or the names you give. Those of
                         Open Bandit ("item_id", "click", "propensity_score") are known
JSON lines               Vowpal Wabbit's (dsjson) and Personalizer's: .json, .jsonl, .dsjson; your
                         own, one record a line, if you name its fields
"""

import itertools
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array
from discreet.evaluation.columns import (
    BATCH,
    cells,
    in_pandas,
    number_alone,
    numbers_alone,
    tables,
)

NO_PROPENSITIES = (
    "this log has no propensities: without the probability with which each action was chosen "
    "nobody can tell what a policy would have earned from whom the actions were given to. Log the "
    "probability of each decision (`Decision.probability`), or state it as `propensity=` if "
    "actions were drawn evenly"
)
KNOWN = {  # columns, under the names that others gave them
    "action": ("action", "item_id", "a", "chosen"),
    "reward": ("reward", "click", "r"),
    "propensity": ("propensity", "propensity_score", "pscore", "probability", "p"),
}
JSON_ENDINGS = (".json", ".jsonl", ".dsjson")
Names = Mapping[str, str | float | None]


@dataclass(frozen=True)
class Records:
    """n logged decisions; what stands in `contexts` is what a policy is given."""

    contexts: Any  # features (n, actions, dim), other columns, or a list of JSON contexts
    actions: NDArray[np.intp]  # (n,), 0 for the first; anything else for none
    rewards: Array  # (n,); NaN where none came
    propensities: Array  # (n,)

    def __len__(self) -> int:
        return len(self.actions)


def read_records(log: Any, *, names: Names, actions: Iterable[Any] | None) -> Iterator[Records]:
    """Any of the above; `names` are columns, a number as propensity holds for every row."""
    from discreet.environments.logs import Log  # a bandit imports this room, and needs no log

    places = None if actions is None else {each: at for at, each in enumerate(actions)}
    if isinstance(log, Log):
        yield Records(log.features[0 : len(log)], log.actions, log.rewards, log.propensities)
    elif isinstance(log, str | os.PathLike) and os.fspath(log).endswith(JSON_ENDINGS):
        own = names["action"] is not None or names["reward"] is not None
        read = _own_events if own else _known_events
        yield from read(Path(log), names, places)
    else:
        for table in tables(log):
            yield _of_table(table, names, places)


def _of_table(table: Any, names: Names, places: Mapping[Any, int] | None) -> Records:
    table = in_pandas(table)
    columns = {name: _name(table, name, given) for name, given in names.items()}
    if columns["propensity"] is None:
        raise ValueError(NO_PROPENSITIES)
    for name in ("action", "reward"):
        if columns[name] is None:
            raise ValueError(f"the log has no column of the {name}: say which, {name}='...'")
    taken = _actions(table[columns["action"]], places)
    propensity = columns["propensity"]
    if isinstance(propensity, str):
        chances = numbers_alone(table[propensity])
    else:
        chances = np.full(len(taken), propensity)
    rewards = numbers_alone(table[columns["reward"]])
    if not len(taken) == len(rewards) == len(chances):
        raise ValueError("the columns of actions, rewards and propensities must be of one length")
    outcome = [each for each in columns.values() if isinstance(each, str)]
    return Records(_without(table, outcome), taken, rewards, chances)


def _name(table: Any, name: str, given: str | float | None) -> str | float | None:
    """The column of a thing, or its one number for all rows; None where there is none."""
    if isinstance(given, float | int):
        return float(given)
    for column in KNOWN[name] if given is None else (given,):
        if column in table:
            return column
    if given is not None:
        raise ValueError(f"the log has no column {given!r}")
    return None


def _without(table: Any, names: list[str]) -> Any:
    """What a policy may see: not what was done, nor how likely that was, nor what came of it."""
    if hasattr(table, "drop"):
        return table.drop(columns=names)
    return {name: table[name] for name in table if name not in names}


def _actions(values: Any, places: Mapping[Any, int] | None) -> NDArray[np.intp]:
    """The number of the action in each cell, read alone: by its name, or counted from 0.

    -1 for what is none, whose row says nothing.
    """
    if places is not None:
        return np.array([_place(each, places) for each in cells(values)], dtype=np.intp)
    found = numbers_alone(values)
    whole = np.isfinite(found) & (found == np.floor(found)) & (np.abs(found) < 2**31)
    return np.where(whole, found, -1).astype(np.intp)


def _place(cell: Any, places: Mapping[Any, int]) -> int:
    """Of an action among those that were named, as itself or as the number it spells; -1: none."""
    try:
        thing = cell.as_py() if hasattr(cell, "as_py") else cell  # Arrow's
        return places[thing] if thing in places else places.get(number_alone(thing), -1)
    except Exception:  # total: a list has no hash, say
        return -1


# -- JSON lines ------------------------------------------------------------------------------------


def _known_events(path: Path, names: Names, _: object) -> Iterator[Records]:
    """One decision a line: "_label_Action" counts from 1, "_label_cost" is minus the reward."""
    given = names["propensity"]
    told = isinstance(given, float | int)
    for events in _events(path):
        if isinstance(given, float | int):
            chances: list[Any] = [float(given)] * len(events)
        elif given is not None:
            chances = [event.get(given) for event in events]
        else:
            chances = [_either(event, "_label_probability", "p") for event in events]
        told = told or any(each is not None for each in chances)
        taken = [_either(event, "_label_Action", "a") for event in events]
        yield Records(
            [event.get("c", {}) for event in events],
            _actions(taken, None) - 1,
            np.array([_earned(event) for event in events]),
            numbers_alone(chances),
        )
    if not told:
        raise ValueError(NO_PROPENSITIES)


def _own_events(path: Path, names: Names, places: Mapping[Any, int] | None) -> Iterator[Records]:
    """One record a line, whose fields are those of a table: what is not named is the context."""
    if names["propensity"] is None:  # never guessed: fields are what rows hold
        raise ValueError(NO_PROPENSITIES + "; of JSON lines of your own name its field")
    for name in ("action", "reward"):
        if not isinstance(names[name], str):
            raise ValueError(f"name the field of the {name}, too: {name}='...'")
    fields = [each for each in names.values() if isinstance(each, str)]
    missing = set(fields)
    for events in _events(path):
        missing = {field for field in missing if not any(field in event for event in events)}
        found = {
            name: [event.get(each) if isinstance(each, str) else each for event in events]
            for name, each in names.items()
        }
        yield Records(
            [{f: event[f] for f in event if f not in fields} for event in events],
            _actions(found["action"], places),
            numbers_alone(found["reward"]),
            numbers_alone(found["propensity"]),
        )
    if missing:
        raise ValueError(f"the log has no column {min(missing)!r}")


def _events(path: Path) -> Iterator[list[dict[str, Any]]]:
    """The lines of a file that hold anything, some at a time."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        events = (_event(line) for line in lines if line.strip())
        while some := list(itertools.islice(events, BATCH)):
            yield some


def _event(line: str) -> dict[str, Any]:
    """A line; one that is damaged holds nothing, and the others are as they would be without it."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _either(event: Mapping[str, Any], label: str, ranked: str) -> Any:
    """What the label says, or the first of what was ranked; None where neither is there."""
    items = event.get(ranked)
    first = items[0] if isinstance(items, list) and items else None
    return event.get(label, first)


def _earned(event: Mapping[str, Any]) -> float:
    """The reward, or minus the cost; NaN where none came."""
    told = number_alone(event.get("reward"))
    return -number_alone(event.get("_label_cost")) if math.isnan(told) else told
