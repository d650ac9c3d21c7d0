"""Logged decisions: what was offered, what was done, how likely that was, and what came of it.

A log is raw data about people. Nothing computed from it here is private: see `off_policy.py`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.arrays import Array, finite, finite_range
from discreet.environments.tables import (
    Declared,
    FeatureTable,
    action_numbers,
    declared,
    picked,
    read_table,
)
from discreet.features import FeatureMap

BATCH = 1000  # people whose features are built at a time


class Rows(Protocol):
    """Feature rows: an array (n, actions, dim), or a `FeatureTable` that builds them when asked."""

    def __len__(self) -> int: ...

    def __getitem__(self, some: slice, /) -> Array: ...


@dataclass(frozen=True)
class Log:
    """n logged decisions. `propensities` are the probabilities of the actions that were taken.

    `all_propensities`, where they are known, tell those of the other actions as well.

    One row beyond the bounds refuses the whole log, and the refusal tells that there is one: clip
    before, or give the table itself to `evaluation.evaluate`, which reads every cell alone.

    >>> log = Log("ours", np.ones((3, 2, 1)), np.array([0, 1, 1]), np.array([1.0, 0.0, 1.0]),
    ...           np.array([0.5, 0.5, 0.5]), 2)
    >>> len(log), round(log.mean_reward, 2)
    (3, 0.67)
    """

    name: str  # for tables
    features: Rows  # (n, actions, dim)
    actions: NDArray[np.intp]  # (n,)
    rewards: Array  # (n,)
    propensities: Array  # (n,)
    n_actions: int  # the most actions of a decision
    reward_range: tuple[float, float] = (0.0, 1.0)  # public bounds of a reward
    all_propensities: Array | None = None  # (n, actions)

    def __post_init__(self) -> None:
        n = len(self.features)
        low, high = finite_range("reward_range", self.reward_range)
        if not len(self.actions) == len(self.rewards) == len(self.propensities) == n > 0:
            raise ValueError("features, actions, rewards and propensities must be of one length")
        actions = self.actions
        if (
            actions.dtype.kind not in "iu"
            or not 0 <= actions.min() <= actions.max() < self.n_actions
        ):
            raise ValueError(f"actions must be integers in 0..{self.n_actions - 1}")
        rewards = finite("rewards", self.rewards)
        if not low <= rewards.min() <= rewards.max() <= high:
            raise ValueError("rewards must lie in reward_range: clip them, or state wider bounds")
        chances = finite("propensities", self.propensities)
        if not 0 < chances.min() <= chances.max() <= 1 + 1e-9:
            raise ValueError("propensities must lie in (0, 1]: an action that was taken had one")
        if self.all_propensities is not None:
            everything = distributions("all_propensities", self.all_propensities, n, self.n_actions)
            if not np.allclose(everything[np.arange(n), actions], chances):
                raise ValueError("all_propensities must agree with propensities")

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def mean_reward(self) -> float:
        """What the logging policy earned per decision."""
        return float(self.rewards.mean())

    def batches(self) -> Iterable[slice]:
        return (slice(start, start + BATCH) for start in range(0, len(self), BATCH))


def logged_table(
    table: Any,
    *,
    context: Mapping[str, Declared],
    actions: Iterable[str],
    action: str,
    reward: str,
    propensity: str | float,
    reward_range: tuple[float, float] = (0.0, 1.0),
    name: str = "table",
) -> Log:
    """A log from a CSV or Parquet file, a data frame or columns; `context` as for `table_world`.

    `action`, `reward` and `propensity` name columns; a number as propensity holds for every row
    (1/4 when four actions were drawn evenly). Rewards are clipped to `reward_range`.

    >>> log = logged_table({"age": [25, 50], "sent": ["email", "call"], "bought": [0, 1]},
    ...                    context={"age": {"low": 18, "high": 100}}, actions=["email", "call"],
    ...                    action="sent", reward="bought", propensity=0.5)
    >>> log.actions, log.features[:].shape
    (array([0, 1]), (2, 2, 4))
    """
    columns = read_table(table)
    phi = FeatureMap(declared(context), tuple(actions))
    features = FeatureTable(phi, picked(columns, context))
    taken = action_numbers(picked(columns, [action])[action], phi.actions, action)
    earned = finite(f"column {reward!r}", picked(columns, [reward])[reward])
    if isinstance(propensity, str):
        chances = finite(f"column {propensity!r}", picked(columns, [propensity])[propensity])
    else:
        chances = np.full(len(taken), float(propensity))
    limits = finite_range("reward_range", reward_range)
    return Log(name, features, taken, np.clip(earned, *limits), chances, len(phi.actions), limits)


def distributions(name: str, values: ArrayLike, n: int, actions: int) -> Array:
    """(n, actions), each row a probability distribution; one row is repeated for everybody."""
    rows = finite(name, values)
    if rows.shape not in ((n, actions), (actions,)):
        raise ValueError(f"{name} must have shape ({n}, {actions}) or ({actions},)")
    if rows.min() < -1e-9 or not np.allclose(rows.sum(axis=-1), 1, atol=1e-6):
        raise ValueError(f"{name} must be probabilities that sum to 1 over the actions")
    return np.broadcast_to(rows, (n, actions))
