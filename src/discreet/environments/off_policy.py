"""What would another policy have earned? Estimates from logged decisions, with their overlap.

    w = policy(a | x) / logger(a | x)       v = mean reward of the policy

    ips     mean of w r                                  unbiased where the logger tries everything
    snips   sum of w r / sum of w                        steadier, nearly unbiased
    dr      mean of sum_a policy(a | x) q(x, a) + w (r - q)     q predicts rewards; unbiased too,
                                                         and as steady as q is good

Not private: estimates, weights and intervals are computed from raw logs without noise, and may tell
about single people. Keep them inside, as you keep the log.

References: Horvitz and Thompson (1952); Swaminathan and Joachims (2015); Dudik, Langford and Li
(2011). Replay: Li, Chu, Langford and Wang (2011), Algorithm 2.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from discreet.arrays import Array, finite, integer, one_of, positive
from discreet.environments.logs import Log, distributions

METHODS = ("dr", "ips", "snips")


@dataclass(frozen=True)
class Overlap:
    """How much of the log speaks about the policy."""

    decisions: int  # in the log
    effective_sample_size: float  # (sum w)^2 / sum w^2: so many decisions of the policy itself
    largest_weight: float  # largest probability ratio of a single decision
    unmatched: float  # fraction of logged decisions whose action the policy never takes
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


@dataclass(frozen=True)
class Estimate:
    """The value of a policy with its standard error and an interval (normal approximation)."""

    method: str  # that made it
    value: float  # mean reward of the policy
    standard_error: float  # of the value
    low: float  # end of the interval
    high: float  # end of the interval
    overlap: Overlap  # of log and policy


def evaluate(
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
    >>> found = evaluate(log, [0.0, 1.0], method="snips")     # always the second action
    >>> round(found.value, 2), found.low < 0.7 < found.high, found.overlap.unmatched > 0.4
    (0.7, True, True)
    """
    one_of("method", method, METHODS)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
    if predictions is not None and method != "dr":
        raise ValueError(f"predictions are for method='dr', not for {method!r}")
    n = len(log)
    chances = distributions("policy", policy, n, log.n_actions)
    taken = np.arange(n), log.actions
    weights = chances[taken] / log.propensities
    if method == "snips":
        if not weights.any():
            raise ValueError("the policy never does what was logged: nothing to estimate from")
        value = float(weights @ log.rewards / weights.sum())
        terms = value + weights * (log.rewards - value) / weights.mean()  # delta method
    elif method == "ips":
        terms = weights * log.rewards
    else:
        q = predicted_rewards(log) if predictions is None else _checked(predictions, log)
        terms = np.einsum("na,na->n", chances, q) + weights * (log.rewards - q[taken])
    value = float(terms.mean())
    error = float(terms.std(ddof=1) / np.sqrt(n)) if n > 1 else np.inf
    half = float(scipy.special.ndtri((1 + confidence) / 2)) * error
    return Estimate(method, value, error, value - half, value + half, overlap(log, chances))


def overlap(log: Log, policy: ArrayLike) -> Overlap:
    """How well a log covers a policy: look at it before the estimate."""
    n = len(log)
    chances = distributions("policy", policy, n, log.n_actions)
    weights = chances[np.arange(n), log.actions] / log.propensities
    squares = float(weights @ weights)
    known = log.all_propensities
    unsupported = None if known is None else float(chances[known <= 0].sum() / n)
    return Overlap(
        decisions=n,
        effective_sample_size=float(weights.sum()) ** 2 / squares if squares else 0.0,
        largest_weight=float(weights.max()),
        unmatched=float(np.mean(weights == 0)),
        unsupported=unsupported,
    )


def predicted_rewards(log: Log, *, folds: int = 5, ridge: float = 1.0) -> Array:  # (n, actions)
    """Rewards by ridge regression on the features, each row from a fit without its fold.

    Row i is in fold i mod `folds`. Not private.
    """
    k = integer("folds", folds, least=2)
    lam = positive("ridge", ridge)
    if len(log) < k:
        raise ValueError(f"the log has fewer decisions than folds: {len(log)} < {k}")
    dim = log.features[:1].shape[2]
    fold = np.arange(len(log)) % k
    grams = np.zeros((k, dim, dim))
    sums = np.zeros((k, dim))
    middle = sum(log.reward_range) / 2  # ridge shrinks towards the middle of the public range
    for some in log.batches():
        features = log.features[some]
        actions = log.actions[some]
        rows = features[np.arange(len(actions)), actions]
        for f in range(k):
            inside = rows[fold[some] == f]
            grams[f] += inside.T @ inside
            sums[f] += inside.T @ (log.rewards[some][fold[some] == f] - middle)
    grams = grams.sum(axis=0) - grams
    sums = sums.sum(axis=0) - sums
    theta = np.linalg.solve(grams + lam * np.eye(dim), sums[..., None])[..., 0]  # (folds, dim)
    q = np.empty((len(log), log.n_actions))
    for some in log.batches():
        q[some] = np.einsum("nad,nd->na", log.features[some], theta[fold[some]])
    return np.clip(q + middle, *log.reward_range)


def _checked(predictions: ArrayLike, log: Log) -> Array:
    q = finite("predictions", predictions)
    if q.shape != (len(log), log.n_actions):
        raise ValueError(f"predictions must have shape ({len(log)}, {log.n_actions})")
    return q
