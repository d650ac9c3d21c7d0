"""Logs of decisions with their propensities, from wherever they are kept.

a `Log`                  environments.logged_table, open_bandit_log, logged
a table                  a data frame, columns, a .csv or .parquet file, an Arrow table: columns
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

from discreet.arrays import Array, numbers_or_nan

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

    contexts: Any  # features (n, actions, dim), a data frame, or a list of JSON contexts
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
    if hasattr(log, "to_pandas"):
        log = log.to_pandas()
    table = read_table(log)
    found = {name: _named(table, name, names.get(name)) for name in KNOWN}
    if found["propensity"] is None:
        raise ValueError(NO_PROPENSITIES)
    for name in ("action", "reward"):
        if found[name] is None:
            raise ValueError(f"the log has no column of the {name}: say which, {name}='...'")
    taken = found["action"]
    n = len(taken)
    places = {each: at for at, each in enumerate(actions)} if actions is not None else None
    numbers = taken if places is None else [places.get(each, -1) for each in taken.tolist()]
    chances = np.broadcast_to(numbers_or_nan(found["propensity"]), (n,))
    return Records(table, _integers(numbers), numbers_or_nan(found["reward"]), chances)


def _named(table: Any, name: str, given: str | float | None) -> Any:
    if isinstance(given, float | int):
        return np.array(float(given))
    for column in KNOWN[name] if given is None else (given,):
        if column in table:
            return np.asarray(table[column])
    if given is not None:
        raise ValueError(f"the log has no column {given!r}")
    return None


def _integers(values: Any) -> NDArray[np.intp]:
    """Numbers of actions; -1 for what is none, whose row says nothing."""
    found = numbers_or_nan(values)
    whole = np.isfinite(found) & (found == np.floor(found)) & (np.abs(found) < 2**31)
    return np.where(whole, found, -1).astype(np.intp)


def _from_json(path: Path) -> Records:
    """One decision a line: "_label_Action" counts from 1, "_label_cost" is minus the reward."""
    contexts: list[Any] = []
    actions: list[Any] = []
    rewards: list[Any] = []
    costs: list[Any] = []
    chances: list[Any] = []
    with path.open(encoding="utf-8") as lines:
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
    told = numbers_or_nan(rewards)
    earned = np.where(np.isnan(told), -numbers_or_nan(costs), told)
    return Records(contexts, _integers(actions) - 1, earned, numbers_or_nan(chances))


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
