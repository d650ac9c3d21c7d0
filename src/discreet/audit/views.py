"""What attackers see of a run, and how they score it.

    each          one run at a time, by any score
    Likelihood    all Gaussian releases of a run, by their exact likelihood, beside what it returned
    whitening     running sums, whitened by their known noise
    wiretapped    reports on the wire of simulations in which everybody is the canary
    log_ratio     the likelihood of a channel's reports
    stolen        the numbers of one stolen state

Several views of one run are columns: the best score against what is promised, and plain ones that
notice noise which is not what was promised. The choosing part of an audit decides between them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.audit.rows import Claim, Draw, noise_of
from discreet.audit.transcript import Compared, compare
from discreet.local.questions import Channel
from discreet.privacy import SeededNoise, Tree
from discreet.privacy.noise import Noise
from discreet.privacy.toeplitz import Buffered, SquareRoot, noise_matrix
from discreet.privacy.tree import TreeSum

Make = Callable[[Claim, Noise], Any]  # a learner that promises the claim


def each(once: Callable[[Claim, int, SeededNoise], Any]) -> Draw:
    """One run at a time: `once(claim, neighbour, noise)` is its score, or several views of it."""

    def draw(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        return np.array([once(claim, neighbour, noise) for _ in range(runs)], dtype=np.float64)

    draw.__doc__ = once.__doc__
    return draw


class Likelihood:
    """All releases of `run(claim, neighbour, noise)`, by their likelihood in both neighbours.

    What the run returns stands beside it: a function of those releases, if the learner keeps its
    promise, and else a view that notices noise which was booked but not used.

    run     the learner's life in one neighbour; returns views, or None
    limit   releases after which it is cut short: later ones do not concern the canary
    """

    def __init__(self, run: Callable[[Claim, int, Noise], Any], limit: int | None = None) -> None:
        self.run = run
        self.limit = limit
        self.__doc__ = run.__doc__

    def compared(self, claim: Claim, neighbour: int, noise: Noise) -> Compared:
        """The releases of one run, as both neighbours explain them."""
        return compare(partial(self.run, claim), neighbour, noise, self.limit)

    def __call__(self, claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """The log-likelihood ratio of each run, and the views beside it."""
        scores = []
        for _ in range(runs):
            seen = self.compared(claim, neighbour, noise)
            scores.append([seen.log_ratio, *np.ravel(() if seen.outcome is None else seen.outcome)])
        return np.array(scores)

    def realised(self, claim: Claim, runs: int, seed: int = 0) -> Array:
        """How much of mu each run of the pair reaches, without statistics of attacks."""
        noise = noise_of(seed, 0)
        return np.array([self.compared(claim, i % 2, noise).mu for i in range(runs)]) / claim.mu


def mixed(mechanism: str | Tree, rounds: int, horizon: int | None = None) -> Array:
    """B: the noise of the first so many running sums is B z."""
    horizon = horizon or rounds
    if not isinstance(mechanism, Tree):
        filtered = Buffered.fitted(horizon) if mechanism == "blt" else SquareRoot(horizon)
        return noise_matrix(filtered, rounds)
    columns = 6 * rounds  # more than there are nodes
    tree = TreeSum(mechanism.fitted(horizon, pure=False), horizon, columns, one_noise(columns))
    return np.array([tree.add(np.zeros(columns)) for _ in range(rounds)])


def whitening(mechanism: str | Tree, move: Array, horizon: int | None = None) -> Array:
    """The weights of the best linear score for a change `move` of the inputs, by round."""
    return best_weights(mixed(mechanism, len(move), horizon), np.cumsum(move))


def one_noise(columns: int) -> Callable[[int, int], Array]:
    """Noise of a tree whose every draw is 1 in a column of its own: sums show how they mix it."""
    fresh = iter(np.eye(columns))
    return lambda level, count: np.array([next(fresh) for _ in range(count)])


def best_weights(mixing: Array, move: Array) -> Array:  # (outputs, noises), (outputs,)
    """The best linear score of outputs = data + mixing z, for a change `move` of the data.

    A direction without any noise, which only a bug can leave, gets a huge weight.
    """
    covariance = mixing @ mixing.T + 1e-9 * np.eye(len(mixing))
    return np.asarray(np.linalg.solve(covariance, move))


def summed(sums: Array, weights: Array, first: int) -> Array:  # (rounds, runs) -> (runs, 4)
    """The whitened score; the canary's first sum, all sums since, and their last step."""
    since = sums[first:]
    before = sums[first - 1] if first else 0.0
    return np.stack([weights @ sums, since[0] - before, since.mean(axis=0), since[-1]], axis=1)


def in_crowds(simulated: Callable[[Claim, int, SeededNoise], Array]) -> Draw:
    """Scores of reports: `simulated(claim, neighbour, noise)` again and again, until it is enough.

    Everybody in a simulation is the canary; so many reports as one person sends are a run.
    """

    def draw(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        k = claim.contributions
        scores = np.empty(0)
        while len(scores) < k * runs:
            scores = np.append(scores, simulated(claim, neighbour, noise))
        return rounded(scores[: k * runs].reshape(runs, k).sum(axis=1))

    draw.__doc__ = simulated.__doc__
    return draw


def log_ratio(channel: Channel, sent: Array, answers: Any) -> Array:
    """log density of reports, under the second answer against the first."""
    return channel.log_density(sent, answers[1]) - channel.log_density(sent, answers[0])


def rounded(scores: Any) -> Array:
    """Equal up to the last digits is equal: those of float noise are an attack of their own."""
    return np.asarray(np.round(scores, 9), dtype=np.float64)


def stolen(state: Any, width: int) -> list[Array]:
    """All arrays of a state whose rows are this wide, in order."""
    if isinstance(state, np.ndarray):
        return [np.atleast_2d(state)] if state.size and state.shape[-1] == width else []
    parts = state.values() if isinstance(state, dict) else state if isinstance(state, list) else ()
    return [array for part in parts for array in stolen(part, width)]
