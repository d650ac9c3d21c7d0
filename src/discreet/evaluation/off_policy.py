"""`evaluate`: what would another policy have earned? Private estimates from logged decisions.

    w = policy(a | x) / logger(a | x)        z = sum_b policy(b | x) q(x, b) + w (y - q(x, a))

The mean of z is the policy's value, whatever q is, if the propensities are right (doubly robust:
Dudik, Langford, Li 2011). With y and q in [0, 1] and q in an interval of length r, and
w <= W = 1 / (least propensity), z lies in an interval of length W (1 + r) - r, whose middle is c.
So u = (z - c) / B is in [-1, 1], with B half that length: nothing is cut off. Released:

    (sum u, SQUARE sum u^2) + N(0, (2 / mu)^2)

A replaced row moves that from (a, SQUARE a^2) to (b, SQUARE b^2). With d = |a - b|, and so
|a + b| <= 2 - d,

    (a - b)^2 (1 + SQUARE^2 (a + b)^2)  <=  d^2 (1 + SQUARE^2 (2 - d)^2)  <=  4

for all d in [0, 2], as SQUARE^2 is the least of (2 + d) / (d^2 (2 - d)), at d = sqrt(5) - 1: the
squares cost nothing, and the sensitivity is 2. They tell the variance, and so the interval. (It is
the free spread of `intervals.py`: with u = 2 y - 1, u^2 = 1 - 4 y (1 - y).)

A row that names no action cannot be read: w = 0. How many can be is released too, and free: where
q = 1/2 for a row that is not read, its u is 0, so that a row that becomes one moves the above by
1 + SQUARE^2 at most in squares, and COUNT^2 = 3 - SQUARE^2 is left; where q is a mean that is
released from some rows, (sum y - 1/2, sqrt(3/4) number) over the rows that can be read moves by 1
if a row is replaced, and by 1/4 + 3/4 if it becomes one that is not read.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from discreet.arrays import Array, finite_range, number, numbers_or_nan, one_of
from discreet.evaluation.intervals import SPREAD, Interval, confident
from discreet.evaluation.records import Records, read_records
from discreet.privacy import Budget, Guarantee, Ledger
from discreet.privacy.mechanisms import Mechanisms
from discreet.privacy.noise import Noise, source
from discreet.privacy.release import Release

Policy = Callable[[Any], Any]
SQUARE = SPREAD / 2  # 1.665
COUNT = math.sqrt(3 - SQUARE**2)  # 0.477
SURE = 1.64  # standard deviations of the squares' noise that the interval allows for
PILOT = 10  # every tenth row: from these rewards are predicted
LONGEST = 1e100  # entry of a feature row that predicts: no product overflows
MODELS = ("mean", "linear", "none")
UNPROTECTED = (
    "the number of decisions in the log; whether it has propensities and what was named at all",
    "the public bounds, the policies",
    "people with several decisions, beyond one of them",
)


@dataclass(frozen=True)
class PolicyValue(Interval):
    """What a policy earns per decision, with an interval (normal approximation)."""

    decisions: int = 0  # that were used
    unread: float = 0.0  # fraction without an action, as far as that is proved: anything, for it
    noise_std: float = 0.0  # of the noise in the estimate
    guarantee: Guarantee | None = None  # of all releases of this call

    def __str__(self) -> str:
        lost = f"; {self.unread:.0%} of the rows name no action" if self.unread else ""
        return super().__str__() + lost


def evaluate(
    log: Any,
    policy: Policy | Mapping[str, Policy],
    epsilon: float,
    delta: float | None = None,
    *,
    least_propensity: float,
    reward_range: tuple[float, float] = (0.0, 1.0),
    model: str = "mean",
    action: str | None = None,
    reward: str | None = None,
    propensity: str | float | None = None,
    actions: Iterable[Any] | None = None,
    confidence: float = 0.95,
    ledger: Ledger | None = None,
    noise: Noise | None = None,
) -> Any:
    """The value of a policy from a log of another one, released privately; see `records.py`.

    Requires   propensities as they were; decisions that do not depend on each other; a policy that
               decides row by row: what it returns for a row depends on that row alone, whatever
               the others hold, and no row makes it raise.
    Guarantee  (epsilon, delta), central, for each row of the log: a Gaussian release of the rows
               that are evaluated, and one of those from which rewards are predicted, disjoint.

    policy            a function from contexts to probabilities (n, actions): of a `Log` it gets
                      features (n, actions, dim), of a table its other columns (those of a CSV
                      file as text, `pandas.to_numeric(..., errors="coerce")` makes numbers), of
                      JSON a list of contexts; of files and streams some rows at a time. Several
                      by name are one release, each with sqrt(their number) the noise
    least_propensity  public lower bound of the logger's: smaller ones are raised to it. The
                      interval's width grows with its inverse
    reward_range      public; rewards beyond are clipped, missing ones count as closest to 0
    model             of rewards: their "mean", "linear" in the features of a `Log`, or "none": the
                      middle of the range. From every tenth row, which is not evaluated
    action, reward, propensity   columns, or fields of JSON lines; a number: every row's
    actions           in the order of the policy's columns; left out: numbers from 0. A row whose
                      cell is none of them cannot be read, nor one of whose probabilities are
                      none: how many there are is released too, and widens the interval (`unread`)
    ledger            that books all of this, beside others on the same people. A call for which
                      it has not enough left is refused (`BudgetSpent`) before the log is read

    >>> from discreet.privacy import SeededNoise
    >>> rng = np.random.default_rng(0)
    >>> sent = rng.integers(2, size=20_000)  # even chances
    >>> table = {"action": sent, "reward": rng.random(20_000) < np.where(sent == 1, 0.7, 0.4)}
    >>> second = lambda table: np.tile([0.0, 1.0], (20_000, 1))
    >>> print(evaluate(table, second, 1.0, least_propensity=0.5, propensity=0.5,
    ...                noise=SeededNoise(0)))
    0.7 (0.69 to 0.709)
    """
    budget = Budget(epsilon, 1e-6 if delta is None else delta)
    if budget.pure and not budget.off:
        raise ValueError("delta must be above 0: the noise is Gaussian; 1e-6 is usual")
    floor = number("least_propensity", least_propensity)
    if not 0 < floor <= 1:
        raise ValueError(f"least_propensity must lie in (0, 1], got {floor:g}")
    confident(confidence)
    limits = finite_range("reward_range", reward_range)
    one_of("model", model, MODELS)
    names = {"action": action, "reward": reward, "propensity": propensity}
    policies = dict(policy) if isinstance(policy, Mapping) else {"": policy}

    def released(part: Ledger) -> dict[str, PolicyValue]:
        found = []
        for records in read_records(log, names=names, actions=actions):
            chances = [_probabilities(each, records) for each in policies.values()]
            found.append(_weighed(records, chances, limits, floor))
        rows = _together(found)
        estimates = Estimates(rows, limits, floor, confidence, budget, part, source(noise), model)
        q = estimates.predicted(records, chances)  # features are those of a `Log`: it comes whole
        return dict(zip(policies, estimates.values(q), strict=True))

    if ledger is None:
        values = released(Ledger(budget, "gaussian"))
    else:
        # The scopes are of rows in this log: beside other releases the whole of it counts.
        with ledger.part(budget, "gaussian", what="the value of a policy") as part:
            values = released(part)
    return values if isinstance(policy, Mapping) else values[""]


class Rows(NamedTuple):
    """What a log says of some policies. Total: what a row holds is private, and none may raise."""

    y: Array  # (n,), rewards scaled to [0, 1]
    weights: Array  # (policies, n), w; 0 where a row cannot be read
    read: NDArray[np.bool_]  # (n,), whether it names an action, and each policy knows the chances


def _weighed(
    records: Records, chances: Sequence[Array], limits: tuple[float, float], floor: float
) -> Rows:
    """The rows of some records, for policies that give actions these probabilities."""
    low, high = limits
    if len({each.shape for each in chances}) != 1:
        raise ValueError("policies must all have probabilities of the same number of actions")
    missing = min(max(0.0, low), high)
    rewards = np.where(np.isnan(records.rewards), missing, records.rewards)
    place, named = _places(records, chances[0].shape[1])
    taken = np.stack([each[np.arange(len(place)), place] for each in chances])
    read = named & ~np.isnan(taken).any(axis=0)
    propensities = np.where(np.isnan(records.propensities), 1.0, records.propensities)
    weights = np.where(read, taken, 0.0) / np.clip(propensities, floor, 1.0)
    return Rows((np.clip(rewards, low, high) - low) / (high - low), weights, read)


def _together(found: Sequence[Rows]) -> Rows:
    n = sum(len(each.y) for each in found)
    if n < 2:
        raise ValueError(f"the log has too few decisions: {n}")
    return Rows(*(np.concatenate(parts, axis=-1) for parts in zip(*found, strict=True)))


def _places(records: Records, actions: int) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """The number of the action of each row, and whether it is one; 0 where it is none."""
    named = (records.actions >= 0) & (records.actions < actions)
    return np.where(named, records.actions, 0), named


@dataclass(frozen=True)
class Prediction:
    """q, of rewards scaled to [0, 1]; rows that cannot be read have the middle of its limits."""

    limits: tuple[float, float]  # in which all of it lies
    taken: Array | float  # (n,), of the actions that were taken; a number: of all actions
    expected: Array | float  # (policies, n), of what policies do; or the same number
    unread: float | None = None  # fraction of rows, where it was released; None: not yet

    @property
    def middle(self) -> float:
        return sum(self.limits) / 2


@dataclass(frozen=True)
class Estimates:
    """The rows of a log inside its public bounds, and the releases that are made of them."""

    rows: Rows  # of the log
    limits: tuple[float, float]  # of rewards
    floor: float  # of propensities
    confidence: float  # of intervals
    budget: Budget  # of one row
    ledger: Ledger  # that books releases
    noise: Noise  # their source
    model: str  # of rewards

    @property
    def pilot(self) -> NDArray[np.bool_]:
        """Rows from which rewards are predicted, and which are not evaluated: public."""
        rows = np.arange(len(self.rows.y))
        return np.asarray((rows % PILOT == 0) & (self.model != "none"))

    def predicted(self, records: Records, chances: Sequence[Array]) -> Prediction:
        if self.model == "none":
            return Prediction((0.5, 0.5), 0.5, 0.5)
        return self._mean() if self.model == "mean" else self._linear(records, chances)

    def _mean(self) -> Prediction:
        """The mean reward of the pilot rows, and how many of them can be read."""
        y, read = self.rows.y[self.pilot], self.rows.read[self.pilot]
        root = math.sqrt(3 / 4)
        (total, known), booked = Mechanisms(self.noise, self.ledger).gaussian(
            [(y - 0.5)[read].sum(), root * read.sum()],
            sensitivity=1.0,  # as y is in [0, 1]: see the top of this file
            mu=self.budget.mu,
            what="mean reward of some rows",
            scope="predicting",
        )
        q = min(max(0.5 + float(total) / len(y), 0.0), 1.0)
        return Prediction((q, q), q, q, self._unread(known, booked.scale, root * len(y)))

    def _linear(self, records: Records, chances: Sequence[Array]) -> Prediction:
        """By a private regression of y - 1/2 on the features of the pilot rows."""
        features = np.asarray(records.contexts)
        if features.ndim != 3 or features.dtype.kind not in "fiu":
            raise ValueError("model='linear' is for a Log with features; take model='mean'")
        # Total: a row with no features where they are not finite predicts 1/2 there.
        odd = ~np.isfinite(features).all(axis=2, keepdims=True)
        features = np.clip(np.where(odd, 0.0, features), -LONGEST, LONGEST)
        every = np.arange(len(features))
        place, _ = _places(records, features.shape[1])
        q = np.clip(0.5 + features @ self._fitted(features[every, place]), 0.0, 1.0)
        expected = np.stack([(each * q).sum(axis=1) for each in chances])
        return Prediction((0.0, 1.0), q[every, place], np.where(self.rows.read, expected, 0.5))

    def _fitted(self, features: Array) -> Array:
        from discreet.regression import PrivateLinearRegression  # scikit-learn takes long to load

        off = self.budget.off
        regression = PrivateLinearRegression(
            self.budget.epsilon, self.budget.delta, norm_bound=1.0, label_bound=0.5,
            noise=self.noise,
        )  # fmt: skip
        # Booked first, at the most that its promise may cost.
        self.ledger.spend(
            Release.gaussian(
                sensitivity=1.0 if off else self.budget.mu,
                scale=0.0 if off else 1.0,
                what="a linear model of rewards, all of its releases",
                sampler=self.noise.sampler("gaussian"),
                scope="predicting",
            )
        )
        regression.fit(features[self.pilot], self.rows.y[self.pilot] - 0.5)
        return np.asarray(regression.coef_)

    def values(self, q: Prediction) -> list[PolicyValue]:
        """One release for all policies."""
        weight = 1 / self.floor
        least, most = q.limits[1] * (1 - weight), q.limits[0] * (1 - weight) + weight
        c, b = (least + most) / 2, (most - least) / 2
        z = q.expected + self.rows.weights * (self.rows.y - q.taken)
        used = ~self.pilot
        u = np.clip((z - c) / b, -1.0, 1.0)[:, used]  # inside, but for rounding
        read = self.rows.read[used]
        policies, n = u.shape
        root = COUNT * math.sqrt(policies)
        count = []
        if q.unread is None:
            u = np.where(read, u, 0.0)  # 0 but for rounding
            count = [root * read.sum()]
        released, booked = Mechanisms(self.noise, self.ledger).gaussian(
            [*u.sum(axis=1), *SQUARE * (u * u).sum(axis=1), *count],
            # One row: every policy's pair moves by 2 at most, and so does it with its part of
            # COUNT^2, see the top of this file.
            sensitivity=2 * math.sqrt(policies),
            mu=self.budget.mu,
            what=f"values of {policies} policies",
            scope=None if self.model == "none" else "evaluated",
        )
        std = booked.scale / n
        unread = q.unread
        if unread is None:
            unread = self._unread(released[-1], booked.scale, root * n)
        promise = self.ledger.guarantee(
            unprotected=UNPROTECTED, reference="doubly robust estimates, Gaussian sums",
            record="row",
        )  # fmt: skip
        low, high = self.limits
        found = []
        for mean, square in (released[: 2 * policies].reshape(2, -1).T / n).tolist():
            middle = c + b * mean
            half = b * self._half_width(mean, square / SQUARE, std, n)
            # What was not read may have earned anything in place of the middle of q.
            lowest = middle - half - unread * q.middle
            highest = middle + half + unread * (1 - q.middle)
            ends = np.clip([middle, lowest, highest], 0.0, 1.0) * (high - low) + low
            estimate, lowest, highest = ends.tolist()
            noise = (high - low) * b * std
            found.append(PolicyValue(estimate, lowest, highest, n, unread, noise, promise))
        return found

    def _half_width(self, mean: float, square: float, std: float, n: int) -> float:
        """Of the interval of the mean of u, from the released means of u and u^2."""
        unsure = SURE * std / SQUARE
        # E mean^2 is above the square of its expectation by the noise's variance.
        variance = max(square - mean**2 + std**2 + unsure, unsure)
        return self._quantile * math.sqrt(variance / n + std**2)

    @property
    def _quantile(self) -> float:
        return float(scipy.special.ndtri((1 + self.confidence) / 2))

    def _unread(self, read: float, std: float, rows: float) -> float:
        """The fraction of rows that cannot be read, as far as their noisy number proves it."""
        return max(1 - (float(read) + self._quantile * std) / rows, 0.0)


def _probabilities(policy: Policy, records: Records) -> Array:
    """What a policy would do, as (n, actions): the caller's code, before anything is released.

    A row that is no distribution is NaN, alone: what a policy makes of a row is private.
    """
    found = numbers_or_nan(policy(records.contexts))
    alone = found.ndim == 1  # for everybody: it says nothing about a row
    rows = found[None] if alone else found
    if rows.ndim != 2 or len(rows) != (1 if alone else len(records)):
        raise ValueError(
            f"a policy must return probabilities of shape ({len(records)}, actions), or (actions,) "
            f"for everybody; got {found.shape}"
        )
    inside = np.where((rows >= -1e-9) & (rows <= 1 + 1e-6), rows, np.nan)  # else NaN, which spreads
    fits = np.abs(inside.sum(axis=1) - 1) <= 1e-6
    if alone and not fits.all():
        raise ValueError("a policy must return probabilities that sum to 1 over the actions")
    distributions = np.where(fits[:, None], np.maximum(inside, 0.0), np.nan)
    return np.broadcast_to(distributions, (len(records), rows.shape[1]))
