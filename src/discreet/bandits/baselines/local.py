"""Locally private bandits to compare with, calibrated with our pure channels.

    Zheng et al. (2020)   V~_t           u~_t            c (shift)   beta_t
    here                  self._gram     self._moment    SHIFT       WIDTH
    Han et al. (2021)     g_t            eta_t
    here                  gradient       STEP / t

Both devices and server run in one process: a rewarded row is reported at once through a channel,
and only the report enters the state.
"""

import json
import math
from abc import abstractmethod
from typing import Any, Self

import numpy as np

from discreet.bandits.learner import Bandit
from discreet.bandits.local import UNPROTECTED
from discreet.bandits.policies import Greedy, Ucb, Uniform
from discreet.local.report import pieces
from discreet.privacy import (
    BallChannel,
    Guarantee,
    Noise,
    Release,
    SeededNoise,
    SymmetricChannel,
)
from discreet.privacy.checks import Array
from discreet.privacy.noise import source, source_named

GROWTH = 1.1  # of all rounds so far, from window to window
FIRST = 10.0  # rounds for each dimension of the first, uniform window, times a report's variance
SHIFT = 2.0  # of the largest eigenvalue that the Gram's noise alone is expected to have
WIDTH = 0.3  # of the confidence set that holds all of the noise
STEP = 1.0  # for each dimension: the sphere's curvature is 1/d


class _LocalBaseline(Bandit):
    """Windows, channels, the promise, and saving; a subclass reports and estimates."""

    reference: str

    def __init__(
        self,
        dim: int,
        horizon: int | None = None,
        epsilon: float = 1.0,
        *,
        norm_bound: float = 1.0,
        reward_range: tuple[float, float] = (-1.0, 1.0),
        contributions: int = 1,
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        super().__init__(
            dim, horizon, norm_bound=norm_bound, reward_range=reward_range, clip=False, seed=seed
        )
        self._vectors = BallChannel(self.dim, epsilon, contributions=contributions)
        self._noise = source(noise)
        self._sums = {  # of reports, and theta
            "theta": np.zeros(dim),
            "moment": np.zeros(dim),
            "gram": np.zeros((dim, dim)),
            "counts": np.zeros(2),  # of moment and Gram reports
        }
        self._reports = 0
        self._policy = Uniform()

    @property
    def guarantee(self) -> Guarantee:
        """What each person is promised, whatever happens to the reports."""
        (release,) = self._vectors.guarantee.releases
        made = Release.pure(
            what=release.what,
            mechanism=release.mechanism,
            norm=release.norm,
            sensitivity=release.sensitivity,
            scale=release.scale,
            sampler=self._noise.sampler(release.mechanism),
        )
        k = self._vectors.contributions
        limit = f"people in more than {k} round(s) (whoever calls must enforce that limit)"
        return Guarantee(
            epsilon=self._vectors.epsilon,
            delta=0.0,
            trust="local",
            contributions=k,
            releases=(made,) if self._reports else (),
            unprotected=UNPROTECTED if k == 1 else (*UNPROTECTED, limit),
            reference=self.reference,
        )

    def _size(self) -> int:
        first = FIRST * self.dim * max(1.0, self._vectors.std**2)
        return math.ceil(first if self.rounds == 0 else (GROWTH - 1) * self.rounds)

    def _begin(self, size: int) -> None:
        pass

    @abstractmethod
    def _report(self, rows: Array, rewards: Array) -> None:
        """Report n people's rounds through channels and add the reports up."""

    def _absorb(self, rows: Array, rewards: Array) -> None:
        for piece in pieces(len(rows), self.dim**2):
            self._report(rows[piece], rewards[piece])
            self._reports += len(rows[piece])

    def _config(self) -> dict[str, Any]:
        return {
            "dim": self.dim,
            "horizon": self.horizon,
            "epsilon": self._vectors.epsilon,
            "norm_bound": self.norm_bound,
            "reward_range": self.reward_range,
            "contributions": self._vectors.contributions,
            "seed": self.seed,
            "noise": type(self._noise).__name__,
        }

    def _memory(self) -> dict[str, Any]:
        return {
            **{f"sum.{name}": value.copy() for name, value in self._sums.items()},
            "policy": json.dumps(
                {name: np.asarray(v).tolist() for name, v in vars(self._policy).items()}
            ),
            "noise": self._noise.state(),
            "reports": self._reports,
        }

    def _recall(self, memory: dict[str, Any]) -> None:
        arrays = {n: np.array(v) for n, v in json.loads(memory["policy"]).items() if n != "width"}
        if isinstance(self._noise, SeededNoise):
            self._noise = SeededNoise.restored(memory["noise"])
        self._sums = {name: memory[f"sum.{name}"].copy() for name in self._sums}
        self._reports = int(memory["reports"])
        if "root" in arrays:
            self._policy = Ucb(arrays["mean"], arrays["root"])
        else:
            self._policy = Greedy(arrays["mean"]) if arrays else Uniform()

    @classmethod
    def _rebuilt(cls, config: dict[str, Any]) -> Self:
        return cls(**{**config, "noise": source_named(config["noise"])})


class LocalLinUCB(_LocalBaseline):
    """LinUCB on sums of reports, shifted to stay positive definite (Zheng et al. 2020).

    Every person reports phi phi^T or phi y, in turns, at the whole epsilon: half of the reports
    of full strength have half the variance of all reports at half epsilon. With means G and b of
    the reports, theta = (G + shift I)^-1 b. The paper's confidence set holds all of the noise and
    would explore for ever; its width is scaled by WIDTH, which was tuned on the sphere.

    >>> bandit = LocalLinUCB(2, 1000, 1.0, seed=0, noise=SeededNoise(0))
    >>> bandit.decide([[1.0, 0.0], [0.0, 1.0]]).probability
    0.5
    """

    reference = "Zheng et al. (2020), with one pure channel report per person"

    def _report(self, rows: Array, rewards: Array) -> None:
        vectors, matrices = self._vectors, self._matrices
        # Alternating: a public coin that needs no memory but the number of reports.
        coin = (self._reports + np.arange(len(rows))) % 2 == 0
        X = rows[coin]  # |phi phi^T|_F <= 1
        if len(X):
            products = X[:, :, None] * X[:, None, :]
            self._sums["gram"] += matrices.privatize(products, self._noise, clip=True).sum(axis=0)
        X, y = rows[~coin], rewards[~coin]  # |phi y| <= 1
        if len(X):
            moments = vectors.privatize(X * y[:, None], self._noise, clip=True)
            self._sums["moment"] += moments.sum(axis=0)
        self._sums["counts"] += np.array([(~coin).sum(), coin.sum()])

    @property
    def _matrices(self) -> SymmetricChannel:
        channel = self._vectors
        return SymmetricChannel(self.dim, channel.epsilon, contributions=channel.contributions)

    def _release(self) -> None:
        moments, grams = self._sums["counts"]
        if min(moments, grams) < 2:
            return
        d = self.dim
        # A symmetric Gaussian matrix of deviation s on the diagonal has norm about s sqrt(2 d).
        noise = self._matrices.vectors.deviation * math.sqrt(2 * d / grams)
        shift = SHIFT * noise + 1 / (moments + grams)
        values, vectors = np.linalg.eigh(self._sums["gram"] / grams)
        values = np.maximum(values + shift, shift)
        inverse = (vectors / values) @ vectors.T
        mean = inverse @ (self._sums["moment"] / moments)
        # |theta^ - theta|_A <= |noise of b|_{A^-1} + the shift's bias, in A = G + shift I.
        largest = math.sqrt(d / moments) * max(self._vectors.std, 1.0)
        width = WIDTH * (largest / math.sqrt(shift) + math.sqrt(shift))
        self._policy = Ucb(mean, width * (vectors / np.sqrt(values)))


class LocalSGDBandit(_LocalBaseline):
    """Greedy on one pass of gradient steps, one reported gradient per person (Han et al. 2021).

    theta <- theta - STEP d sum g / t over the window's reports g: a batched form of the step
    STEP d / t, so that the policy is fixed between releases. No projection is needed: predictions
    are cut to [-1, 1] inside the gradient.

    >>> bandit = LocalSGDBandit(2, 1000, 1.0, seed=0, noise=SeededNoise(0))
    >>> bandit.decide([[1.0, 0.0], [0.0, 1.0]]).probability
    0.5
    """

    reference = "Han et al. (2021), batched, with one pure channel report per person"

    def _report(self, rows: Array, rewards: Array) -> None:
        errors = np.clip(rows @ self._sums["theta"], -1.0, 1.0) - rewards
        # |phi| <= 1 and |prediction - reward| <= 2: half the gradient has norm <= 1.
        gradients = rows * (errors / 2)[:, None]
        reports = self._vectors.privatize(gradients, self._noise, clip=True)
        self._sums["moment"] += 2 * reports.sum(axis=0)
        self._sums["counts"][0] += len(rows)

    def _release(self) -> None:
        if self._reports:
            step = min(STEP * self.dim / self._reports, 1 / max(self._sums["counts"][0], 1))
            self._sums["theta"] = self._sums["theta"] - step * self._sums["moment"]
        self._sums["moment"] = np.zeros(self.dim)
        self._sums["counts"] = np.zeros(2)
        self._policy = Greedy(self._sums["theta"].copy())
