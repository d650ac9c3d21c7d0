"""A warm start: what an old log teaches before the first decision.

The log is read as the bandit's own stream is: in windows, each with a transform that earlier
releases made, each released once. A row of the log belongs to one window, and to no decision of
this bandit, so its people pay what those of the bandit pay: the windows are disjoint (parallel
composition), and `contributions` rounds of one person may lie in any of them, of the log and of the
bandit together: whoever limits them counts both.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.arrays import Array, in_unit_ball, numbers, numbers_or_nan
from discreet.bandits.estimators import InformationWeighted
from discreet.privacy import Budget, Ledger
from discreet.privacy.noise import Noise

SCOPE = "log, "  # before the name of a window, in what is booked
PUBLIC = "whoever is in the old log that it began with: {:,} rows, declared public, without noise"


def bounded(
    rows: ArrayLike,
    rewards: ArrayLike,
    dim: int,
    norm_bound: float,
    reward_range: tuple[float, float],
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Rows in the unit ball, rewards in their range (beyond it they are clipped), and which count.

    A row or reward that is not finite counts for nothing, alone: nobody else's is touched.
    """
    X, y = numbers("rows", rows), numbers_or_nan(rewards)
    if X.ndim != 2 or X.shape[1] != dim or y.shape != X.shape[:1]:
        raise ValueError(
            f"expected rows (n, {dim}) and as many rewards, got {X.shape} and {y.shape}"
        )
    low, high = reward_range
    fine = np.isfinite(X).all(axis=1) & np.isfinite(y)
    unit = in_unit_ball(np.where(fine[:, None], X, 0.0), norm_bound)
    return unit, np.clip(np.where(fine, y, low), low, high), fine


def learned_from(
    estimator: InformationWeighted,
    ledger: Ledger,
    noise: Noise,
    rows: Array,  # (n, dim), bounded
    rewards: Array,  # (n,), bounded, in units of the largest
    fine: NDArray[np.bool_],  # (n,), which count
    *,
    public: bool,
) -> tuple[Any, Ledger]:
    """The belief after a log, and the ledger with what it released: nothing, if it is public."""
    prior = estimator.prior
    if public:
        off = Budget(math.inf, estimator.budget.delta, estimator.budget.contributions)
        estimator = replace(estimator, budget=off)
    belief = estimator.prior
    for start, end in _windows(estimator, len(rows)):
        window = estimator.open(belief, end - start, noise)
        window.attach(estimator, noise)
        places = start + np.flatnonzero(fine[start:end])
        none = np.zeros(len(places), dtype=bool)
        # No row is held out, and none earns anything in this bandit's totals (`late`). Replaced, a
        # row stays in its window, or is gone from it: `window.sensitivity` bounds both.
        window.fold(rows[places], rewards[places], none, ~none)
        if not public:
            booked = (
                replace(release, what=f"old log: {release.what}", scope=f"{SCOPE}{release.scope}")
                for release in window.opening
            )
            ledger = ledger._including(*booked)
        belief, _ = window.close(belief)
    if public:
        belief = replace(belief, may_clip=prior.may_clip, public_rows=len(rows))
    return belief, ledger


def _windows(estimator: InformationWeighted, rows: int) -> Iterator[tuple[int, int]]:
    """Where windows of the log begin and end: by the number of its rows alone."""
    start, windows = 0, 0
    while start < rows:
        size = estimator.size(start, windows)
        end = start + size if rows - start >= 2 * size else rows
        yield start, end
        start, windows = end, windows + 1
