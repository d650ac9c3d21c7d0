"""Logs of decisions with their propensities, from wherever they are kept.

a `Log`                  environments.logged_table, open_bandit_log, logged
a table                  a data frame, columns, a .csv, .parquet or .arrow file, an Arrow table,
                         batch or stream: columns
                         "action", "reward" and "propensity", or the names you give. Those of
                         Open Bandit ("item_id", "click", "propensity_score") are known
JSON lines               Vowpal Wabbit's (dsjson) and Personalizer's: .json, .jsonl, .dsjson; your
                         own, one record a line, if you name its fields
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array
from discreet.evaluation.columns import cells, number_alone, numbers_alone

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


@dataclass(frozen=True)
class Records:
    """n logged decisions; what stands in `contexts` is what a policy is given."""

    contexts: Any  # features (n, actions, dim), other columns, or a list of JSON contexts
    actions: NDArray[np.intp]  # (n,), 0 for the first
    rewards: Array  # (n,); NaN where none came
    propensities: Array  # (n,)

    def __len__(self) -> int:
        return len(self.actions)


def read_records(
    log: Any, *, names: Mapping[str, str | float | None], actions: Iterable[Any] | None = None
) -> Records:
    """Any of the above; `names` are columns, a number as propensity holds for every row."""
    from discreet.environments.logs import Log  # a bandit imports this room, and needs no log
    from discreet.environments.tables import read_table

    if isinstance(log, Log):
        rows = log.features[0 : len(log)]
        return Records(rows, log.actions, log.rewards, log.propensities)
    if isinstance(log, str | os.PathLike) and os.fspath(log).endswith(JSON_ENDINGS):
        return _from_json(Path(log), names, actions)
    table = read_table(log, as_text=True)
    if hasattr(table, "to_pandas"):
        table = table.to_pandas()
    columns = {name: _name(table, name, names.get(name)) for name in KNOWN}
    if columns["propensity"] is None:
        raise ValueError(NO_PROPENSITIES)
    for name in ("action", "reward"):
        if columns[name] is None:
            raise ValueError(f"the log has no column of the {name}: say which, {name}='...'")
    taken = _actions(table[columns["action"]], actions)
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


def _actions(values: Any, actions: Iterable[Any] | None) -> NDArray[np.intp]:
    """The number of the action in each cell, read alone: by its name, or counted from 0."""
    if actions is None:
        return _integers(values)
    places = {each: at for at, each in enumerate(actions)}
    return np.array([_place(each, places) for each in cells(values)], dtype=np.intp)


def _place(cell: Any, places: Mapping[Any, int]) -> int:
    """Of an action among those that were named, as itself or as the number it spells; -1: none."""
    try:
        thing = cell.as_py() if hasattr(cell, "as_py") else cell  # Arrow's
        return places[thing] if thing in places else places.get(number_alone(thing), -1)
    except Exception:  # total: a list has no hash, say
        return -1


def _integers(values: Any) -> NDArray[np.intp]:
    """Numbers of actions; -1 for what is none, whose row says nothing."""
    found = numbers_alone(values)
    whole = np.isfinite(found) & (found == np.floor(found)) & (np.abs(found) < 2**31)
    return np.where(whole, found, -1).astype(np.intp)


def _from_json(
    path: Path, names: Mapping[str, str | float | None], named: Iterable[Any] | None
) -> Records:
    """One decision a line: "_label_Action" counts from 1, "_label_cost" is minus the reward."""
    if names.get("action") is not None or names.get("reward") is not None:
        return _from_own_json(path, names, named)
    chance = names.get("propensity")
    contexts: list[Any] = []
    actions: list[Any] = []
    rewards: list[Any] = []
    costs: list[Any] = []
    chances: list[Any] = []
    for event in _events(path):
        contexts.append(event.get("c", {}))
        actions.append(event.get("_label_Action", _first(event.get("a"))))
        rewards.append(event.get("reward"))
        costs.append(event.get("_label_cost"))
        if isinstance(chance, float | int):
            chances.append(float(chance))
        elif chance is not None:
            chances.append(event.get(chance))
        else:
            chances.append(event.get("_label_probability", _first(event.get("p"))))
    if not chances or all(each is None for each in chances):
        raise ValueError(NO_PROPENSITIES)
    told = numbers_alone(rewards)
    earned = np.where(np.isnan(told), -numbers_alone(costs), told)
    return Records(contexts, _integers(actions) - 1, earned, numbers_alone(chances))


def _from_own_json(
    path: Path, names: Mapping[str, str | float | None], named: Iterable[Any] | None
) -> Records:
    """One record a line, whose fields are those of a table: what is not named is the context."""
    columns = {name: names.get(name) for name in KNOWN}  # never guessed: fields are what rows hold
    if columns["propensity"] is None:
        raise ValueError(NO_PROPENSITIES + "; of JSON lines of your own name its field")
    for name in ("action", "reward"):
        if not isinstance(columns[name], str):
            raise ValueError(f"name the field of the {name}, too: {name}='...'")
    events = list(_events(path))
    for field in columns.values():
        if isinstance(field, str) and not any(field in event for event in events):
            raise ValueError(f"the log has no column {field!r}")
    found = {
        name: [event.get(field) for event in events] if isinstance(field, str)
        else np.full(len(events), field)
        for name, field in columns.items()
    }  # fmt: skip
    outcome = {field for field in columns.values() if isinstance(field, str)}
    contexts = [{f: event[f] for f in event if f not in outcome} for event in events]
    return Records(
        contexts,
        _actions(found["action"], named),
        numbers_alone(found["reward"]),
        numbers_alone(found["propensity"]),
    )


def _events(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file that hold anything."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.strip():
                yield _event(line)


def _event(line: str) -> dict[str, Any]:
    """A line; one that is damaged holds nothing, and the others are as they would be without it."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _first(items: Any) -> Any:
    """Of a list; None where there is none."""
    return items[0] if isinstance(items, list) and items else None
