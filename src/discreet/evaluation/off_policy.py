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
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from discreet.arrays import Array, finite_range, number, numbers_or_nan, one_of
from discreet.evaluation.intervals import SPREAD, Interval
from discreet.evaluation.records import Records, read_records
from discreet.privacy import Budget, Guarantee, Ledger
from discreet.privacy.mechanisms import Mechanisms
from discreet.privacy.noise import Noise, source
from discreet.privacy.release import Release

Policy = Callable[[Any], Any]
SQUARE = SPREAD / 2  # 1.665
SURE = 1.64  # standard deviations of the squares' noise that the interval allows for
PILOT = 0.1  # of the rows, every tenth, from which rewards are predicted
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
    noise_std: float = 0.0  # of the noise in the estimate
    guarantee: Guarantee | None = None  # of all releases of this call


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
                      JSON a list of contexts. A row of what are no probabilities tells nothing.
                      Several by name are one release, each with sqrt(their number) the noise
    least_propensity  public lower bound of the logger's: smaller ones are raised to it. The
                      interval's width grows with its inverse
    reward_range      public; rewards beyond are clipped, missing ones count as closest to 0
    model             of rewards: their "mean", "linear" in the features of a `Log`, or "none": the
                      middle of the range. From every tenth row, which is not evaluated
    action, reward, propensity   columns, or fields of JSON lines; a number: every row's
    actions           in the order of the policy's columns; left out: numbers from 0. A cell that is
                      none of them says nothing, and no error tells of it: name your actions
    ledger            that books all of this, beside others on the same people. A call for which
                      it has not enough left is refused (`BudgetSpent`) before the log is read

    >>> from discreet.privacy import SeededNoise
    >>> rng = np.random.default_rng(0)
    >>> sent = rng.integers(2, size=20_000)  # even chances
    >>> table = {"action": sent, "reward": rng.random(20_000) < np.where(sent == 1, 0.7, 0.4)}
    >>> second = lambda table: np.tile([0.0, 1.0], (20_000, 1))
    >>> print(evaluate(table, second, 1.0, least_propensity=0.5, propensity=0.5,
    ...                noise=SeededNoise(0)))
    0.699 (0.69 to 0.709)
    """
    budget = Budget(epsilon, 1e-6 if delta is None else delta)
    if budget.pure and not budget.off:
        raise ValueError("delta must be above 0: the noise is Gaussian; 1e-6 is usual")
    floor = number("least_propensity", least_propensity)
    if not 0 < floor <= 1:
        raise ValueError(f"least_propensity must lie in (0, 1], got {floor:g}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
    limits = finite_range("reward_range", reward_range)
    one_of("model", model, MODELS)
    names = {"action": action, "reward": reward, "propensity": propensity}
    policies = dict(policy) if isinstance(policy, Mapping) else {"": policy}

    def released(part: Ledger) -> dict[str, PolicyValue]:
        records = read_records(log, names=names, actions=actions)
        chances = {name: _probabilities(each, records) for name, each in policies.items()}
        if len({each.shape for each in chances.values()}) != 1:
            raise ValueError("policies must all have probabilities of the same number of actions")
        sample = Sample(records, limits, floor, budget, part, source(noise))
        return sample.values(chances, model, confidence)

    if ledger is None:
        found = released(Ledger(budget, "gaussian"))
    else:
        # The scopes are of rows in this log: beside other releases the whole of it counts.
        with ledger.part(budget, "gaussian", what="the value of a policy") as part:
            found = released(part)
    return found if isinstance(policy, Mapping) else found[""]


class Sample:
    """A log inside its public bounds, and the releases that are made of it.

    records    the log
    limits     of rewards
    floor      of propensities
    budget     of one row
    ledger     that books releases
    noise      their source
    """

    def __init__(
        self,
        records: Records,
        limits: tuple[float, float],
        floor: float,
        budget: Budget,
        ledger: Ledger,
        noise: Noise,
    ) -> None:
        self.contexts = records.contexts
        self.actions = records.actions
        self.limits = low, high = limits
        self.floor = floor
        self.budget = budget
        self.ledger = ledger
        self.noise = noise
        # Total: what a row holds is private, so no odd value may raise.
        zero = min(max(0.0, low), high)
        rewards = np.where(np.isnan(records.rewards), zero, records.rewards)
        self.y = (np.clip(rewards, low, high) - low) / (high - low)
        chances = np.where(np.isnan(records.propensities), 1.0, records.propensities)
        self.propensities = np.clip(chances, floor, 1.0)

    def values(
        self, chances: Mapping[str, Array], model: str, confidence: float
    ) -> dict[str, PolicyValue]:
        """One release for all policies."""
        n = len(self.y)
        pilot = np.arange(n) % round(1 / PILOT) == 0  # public: by the number of the row
        used = ~pilot if model != "none" else np.ones(n, dtype=bool)
        if not used.any():
            raise ValueError(f"the log has too few decisions: {n}")
        q, spread, lowest = self._predicted(model, pilot, next(iter(chances.values())).shape[1])
        weight = 1 / self.floor
        half = (weight * (1 + spread) - spread) / 2
        # z >= q - w q for the largest q, and z <= q + w (1 - q) for the least.
        centre = lowest + spread - weight * (lowest + spread) + half
        m = int(used.sum())
        release = Mechanisms(self.noise, self.ledger).gaussian
        terms = [self._terms(each, q, centre, half)[used] for each in chances.values()]
        sums = [[u.sum(), SQUARE * (u * u).sum()] for u in terms]
        value, booked = release(
            np.array(sums),
            # One row: every policy's pair moves by 2 at most, see the top of this file.
            sensitivity=2 * math.sqrt(len(terms)),
            mu=self.budget.mu,
            what=f"values of {len(terms)} policies",
            scope=self._scope("evaluated", model),
        )
        promise = self.ledger.guarantee(
            unprotected=UNPROTECTED, reference="doubly robust estimates, Gaussian sums",
            record="row",
        )  # fmt: skip
        out = {}
        for name, (total, squares) in zip(chances, value.reshape(-1, 2).tolist(), strict=True):
            out[name] = self._interval(
                total, squares / SQUARE, m, booked.scale, (centre, half), confidence, promise
            )
        return out

    def _scope(self, rows: str, model: str) -> str | None:
        return None if model == "none" else rows

    def _terms(self, chances: Array, q: Array, centre: float, half: float) -> Array:
        rows = np.arange(len(self.y))
        fits = (self.actions >= 0) & (self.actions < chances.shape[1])
        taken = np.where(fits, self.actions, 0)
        weights = np.where(fits, chances[rows, taken], 0.0) / self.propensities
        z = (chances * q).sum(axis=1) + weights * (self.y - q[rows, taken])
        u = np.clip((z - centre) / half, -1.0, 1.0)  # inside, but for rounding
        return np.where(np.isnan(z), 0.0, u)  # of what are no probabilities, the middle

    def _predicted(self, model: str, pilot: Array, actions: int) -> tuple[Array, float, float]:
        """q (n, actions), the length of the interval in which it lies, and its least value."""
        n = len(self.y)
        if model == "none":
            return np.full((n, actions), 0.5), 0.0, 0.5
        if model == "mean":
            # A row moves the sum of rewards in [0, 1] by 1 at most.
            total, _ = Mechanisms(self.noise, self.ledger).gaussian(
                [self.y[pilot].sum()],
                sensitivity=1.0,
                mu=self.budget.mu,
                what="mean reward of some rows",
                scope=self._scope("predicting", model),
            )
            mean = min(max(float(total[0]) / max(int(pilot.sum()), 1), 0.0), 1.0)
            return np.full((n, actions), mean), 0.0, mean
        features = np.asarray(self.contexts)
        if features.ndim != 3 or features.dtype.kind not in "fiu":
            raise ValueError("model='linear' is for a Log with features; take model='mean'")
        # Total: a row with no features where they are not finite predicts 1/2 there.
        odd = ~np.isfinite(features).all(axis=2, keepdims=True)
        features = np.clip(np.where(odd, 0.0, features), -LONGEST, LONGEST)
        fitted = self._fitted(features, pilot)
        q = np.clip(0.5 + np.einsum("nad,d->na", features, fitted), 0.0, 1.0)
        return q, 1.0, 0.0

    def _fitted(self, features: Array, pilot: Array) -> Array:
        """Weights of y - 1/2, by a private regression on the rows that are not evaluated."""
        fits = (self.actions >= 0) & (self.actions < features.shape[1])
        rows = features[np.arange(len(self.y)), np.where(fits, self.actions, 0)][pilot]
        from discreet.regression import PrivateLinearRegression  # scikit-learn takes long to load

        regression = PrivateLinearRegression(
            self.budget.epsilon, self.budget.delta, norm_bound=1.0, label_bound=0.5,
            noise=self.noise,
        )  # fmt: skip
        # Booked first, at the most that its promise may cost.
        off = self.budget.off
        self.ledger.spend(
            Release.gaussian(
                sensitivity=1.0 if off else self.budget.mu,
                scale=0.0 if off else 1.0,
                what="a linear model of rewards, all of its releases",
                sampler=self.noise.sampler("gaussian"),
                scope="predicting",
            )
        )
        regression.fit(rows, self.y[pilot] - 0.5)
        return np.asarray(regression.coef_)

    def _interval(
        self,
        total: float,
        squares: float,
        n: int,
        std: float,
        units: tuple[float, float],
        confidence: float,
        promise: Guarantee,
    ) -> PolicyValue:
        centre, half = units
        mean = total / n
        unsure = SURE * std / SQUARE / n
        # E mean^2 is above the square of its expectation by the noise's variance.
        variance = max(squares / n - mean**2 + (std / n) ** 2 + unsure, unsure)
        z = float(scipy.special.ndtri((1 + confidence) / 2))
        width = z * half * math.sqrt(variance / n + (std / n) ** 2)
        low, high = self.limits
        ends = np.clip(centre + half * mean + np.array([0.0, -width, width]), 0.0, 1.0)
        estimate, least, most = (low + (high - low) * each for each in ends.tolist())
        return PolicyValue(
            estimate,
            least,
            most,
            decisions=n,
            noise_std=(high - low) * half * std / n,
            guarantee=promise,
        )


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
