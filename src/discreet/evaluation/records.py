"""Logs of decisions with their propensities, from wherever they are kept.

a `Log`                  environments.logged_table, open_bandit_log, logged
a table                  a data frame, columns, a .csv, .parquet or .arrow file, an Arrow table,
                         batch or stream: columns
                         "action", "reward" and "propensity", or the names you give. Those of
                         Open Bandit ("item_id", "click", "propensity_score") are known
JSON lines               Vowpal Wabbit's (dsjson) and Personalizer's: .json, .jsonl, .dsjson
"""

import json
import os
from collections.abc import Iterable, Mapping
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
        return _from_json(Path(log))
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


def _from_json(path: Path) -> Records:
    """One decision a line: "_label_Action" counts from 1, "_label_cost" is minus the reward."""
    contexts: list[Any] = []
    actions: list[Any] = []
    rewards: list[Any] = []
    costs: list[Any] = []
    chances: list[Any] = []
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if not line.strip():
                continue
            event = _event(line)
            contexts.append(event.get("c", {}))
            chosen = event.get("_label_Action", _first(event.get("a")))
            actions.append(chosen)
            rewards.append(event.get("reward"))
            costs.append(event.get("_label_cost"))
            chances.append(event.get("_label_probability", _first(event.get("p"))))
    if not chances or all(each is None for each in chances):
        raise ValueError(NO_PROPENSITIES)
    told = numbers_alone(rewards)
    earned = np.where(np.isnan(told), -numbers_alone(costs), told)
    return Records(contexts, _integers(actions) - 1, earned, numbers_alone(chances))


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
