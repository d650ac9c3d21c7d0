"""What would another policy, or a learner, have earned? Estimates from logged decisions.

    w = policy(a | x) / logger(a | x)       v = mean reward of the policy

    ips     mean of w r                                  unbiased where the logger tries everything
    snips   sum of w r / sum of w                        steadier, nearly unbiased
    dr      mean of sum_a policy(a | x) q(x, a) + w (r - q)     q predicts rewards; unbiased too,
                                                         and as steady as q is good
    replay  a learner learns where it would have done what was done

NOT PRIVATE: estimates, weights and intervals are computed from raw logs without noise, and may tell
about single people. Keep them inside, as you keep the log. What may leave the house is
`evaluate`, of the package `discreet.evaluation`.

References: Horvitz and Thompson (1952); Swaminathan and Joachims (2015); Dudik, Langford and Li
(2011). Replay: Li, Chu, Langford and Wang (2011), Algorithm 2.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from discreet.arrays import Array, finite, one_of
from discreet.environments.logs import Log, distributions
from discreet.environments.people import generator
from discreet.environments.playing import Learner

METHODS = ("dr", "ips", "snips")
FOLDS = 5  # of the rewards that "dr" predicts


@dataclass(frozen=True)
class Estimate:
    """The value of a policy, an interval (normal approximation), and how much of the log speaks."""

    method: str  # that made it
    value: float  # mean reward of the policy
    standard_error: float  # of the value
    low: float  # end of the interval
    high: float  # end of the interval
    decisions: int  # in the log
    effective_sample_size: float  # (sum w)^2 / sum w^2: so many decisions of the policy itself
    largest_weight: float  # largest probability ratio of a single decision
    unsupported: float | None  # probability of doing what the logger never does; None: not known

    @property
    def concerns(self) -> tuple[str, ...]:
        """Why not to trust the estimate, in words; empty if there is no reason."""
        said = []
        if self.effective_sample_size < 100:
            said.append(f"only {self.effective_sample_size:.0f} effective decisions")
        if self.largest_weight > 0.05 * self.decisions:
            said.append(f"one decision has weight {self.largest_weight:.0f}")
        if self.unsupported:
            said.append(f"{self.unsupported:.1%} of what the policy does was never tried")
        return tuple(said)


def policy_value(
    log: Log,
    policy: ArrayLike,
    *,
    method: str = "dr",
    predictions: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """The mean reward of a policy, from a log of another one.

    `policy` is (n, actions): the probabilities it gives to the actions in each logged round, or
    (actions,) if it does not look at the person. `predictions` (n, actions) are rewards expected
    by a model that was not fitted to the same rows; without them "dr" uses `predicted_rewards`.

    Requires   right propensities; rounds that do not depend on each other (intervals are too
               narrow if the same people return, or if the logger was still learning).
    Guarantee  none of privacy: this reads raw logs.

    >>> rng = np.random.default_rng(0)
    >>> actions = rng.integers(2, size=4000)                  # even chances
    >>> rewards = (rng.random(4000) < np.where(actions == 1, 0.7, 0.4)).astype(float)
    >>> log = Log("coins", np.ones((4000, 2, 1)), actions, rewards, np.full(4000, 0.5), 2)
    >>> found = policy_value(log, [0.0, 1.0], method="snips")     # always the second action
    >>> round(found.value, 2), found.low < 0.7 < found.high, found.concerns
    (0.7, True, ())
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
    n = len(log)
    chances = distributions("policy", policy, n, log.n_actions)
    weights = chances[np.arange(n), log.actions] / log.propensities
    terms = _terms(log, chances, weights, one_of("method", method, METHODS), predictions)
    value = float(terms.mean())
    error = _standard_error(terms)
    half = _quantile(confidence) * error
    squares = float(weights @ weights)
    known = log.all_propensities
    return Estimate(
        method,
        value,
        error,
        value - half,
        value + half,
        decisions=n,
        effective_sample_size=float(weights.sum()) ** 2 / squares if squares else 0.0,
        largest_weight=float(weights.max()),
        unsupported=None if known is None else float(chances[known <= 0].sum() / n),
    )


def _terms(
    log: Log, chances: Array, weights: Array, method: str, predictions: ArrayLike | None
) -> Array:  # (n,)
    """What each decision says; the estimate is their mean."""
    if predictions is not None and method != "dr":
        raise ValueError(f"predictions are for method='dr', not for {method!r}")
    if method == "ips":
        return np.asarray(weights * log.rewards)
    if method == "snips":
        if not weights.any():
            raise ValueError("the policy never does what was logged: nothing to estimate from")
        value = float(weights @ log.rewards / weights.sum())
        return np.asarray(value + weights * (log.rewards - value) / weights.mean())  # delta method
    q = predicted_rewards(log) if predictions is None else finite("predictions", predictions)
    if q.shape != (len(log), log.n_actions):
        raise ValueError(f"predictions must have shape ({len(log)}, {log.n_actions})")
    residuals = log.rewards - q[np.arange(len(log)), log.actions]
    return np.asarray(np.einsum("na,na->n", chances, q) + weights * residuals)


def predicted_rewards(log: Log) -> Array:  # (n, actions)
    """Rewards by ridge regression on the features, each row from a fit without its fold.

    Row i is in fold i mod `FOLDS`. Not private.
    """
    if len(log) < FOLDS:
        raise ValueError(f"the log has fewer decisions than folds: {len(log)} < {FOLDS}")
    dim = log.features[:1].shape[2]
    fold = np.arange(len(log)) % FOLDS
    grams = np.zeros((FOLDS, dim, dim))
    sums = np.zeros((FOLDS, dim))
    middle = sum(log.reward_range) / 2  # ridge shrinks towards the middle of the public range
    for some in log.batches():
        features = log.features[some]
        actions = log.actions[some]
        rows = features[np.arange(len(actions)), actions]
        for f in range(FOLDS):
            inside = rows[fold[some] == f]
            grams[f] += inside.T @ inside
            sums[f] += inside.T @ (log.rewards[some][fold[some] == f] - middle)
    grams = grams.sum(axis=0) - grams
    sums = sums.sum(axis=0) - sums
    theta = np.linalg.solve(grams + np.eye(dim), sums[..., None])[..., 0]  # (folds, dim)
    q = np.empty((len(log), log.n_actions))
    for some in log.batches():
        q[some] = np.einsum("nad,nd->na", log.features[some], theta[fold[some]])
    return np.clip(q + middle, *log.reward_range)


@dataclass(frozen=True)
class Replay:
    """Which decisions agreed with the log, in their order, and what they earned."""

    kept: NDArray[np.intp]  # (k,), places in the log
    rewards: Array  # (k,)
    decisions: int  # of the log
    floor: float  # the smallest propensity: the fraction of the log that is kept, on average

    @property
    def value(self) -> float:
        return float(self.rewards.mean()) if len(self.rewards) else float("nan")

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        half = _quantile(confidence) * _standard_error(self.rewards)
        return self.value - half, self.value + half


def replay(learner: Learner, log: Log, *, seed: int) -> Replay:
    """Run a learner over a log, once, in the log's order; the seed decides which rows are kept.

    The learner decides for every logged person and gets a reward only where it is kept: give it
    `horizon=len(log)`. A decision that agrees with the log is kept with probability (smallest
    propensity)/(its propensity): every logged person is kept equally often, whatever the learner
    does, and kept rewards are distributed as in a live run. A log with tiny propensities keeps next
    to nothing.

    >>> class Second:
    ...     def decide(self, features):
    ...         return self
    ...     action = 1
    ...     def learn(self, decision, reward):
    ...         pass
    >>> log = Log("ours", np.ones((4, 2, 1)), np.array([0, 1, 1, 0]), np.array([1, 0, 1, 0.0]),
    ...           np.full(4, 0.5), 2)
    >>> replay(Second(), log, seed=0).kept
    array([1, 2])
    """
    draws = generator(seed, b"repl").random(len(log))
    floor = float(log.propensities.min())
    admitted = draws * log.propensities < floor
    kept = []
    for some in log.batches():
        for at, offered in enumerate(log.features[some], start=some.start):
            decision = learner.decide(offered)
            if admitted[at] and int(decision.action) == log.actions[at]:
                learner.learn(decision, float(log.rewards[at]))
                kept.append(at)
    places = np.array(kept, dtype=np.intp)
    return Replay(places, log.rewards[places], len(log), floor)


def _standard_error(terms: Array) -> float:  # (n,), infinite if n < 2
    return float(terms.std(ddof=1) / np.sqrt(len(terms))) if len(terms) > 1 else np.inf


def _quantile(confidence: float) -> float:
    return float(scipy.special.ndtri((1 + confidence) / 2))
