"""Locally private bandits to compare with, calibrated with our pure channels.

    Zheng et al. (2020)   V~_t           u~_t            c (shift)   beta_t
    here                  sums.gram      sums.moment     SHIFT       WIDTH
    Han et al. (2021)     g_t            eta_t
    here                  gradient       STEP / t

Both devices and server run in one process: a rewarded row is reported at once through a channel,
and only the report enters the state.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from discreet.arrays import Array, symmetric_to_vector, vector_to_symmetric
from discreet.bandits.learner import RESUMED_TWICE, Bandit
from discreet.bandits.local_server import UNPROTECTED
from discreet.bandits.policies import Greedy, Ucb, Uniform
from discreet.decisions import Policy
from discreet.local.report import pieces
from discreet.privacy import BallChannel, Guarantee
from discreet.privacy.noise import Noise, source
from discreet.state import Stateful, value

GROWTH = 1.1  # of all rounds so far, from window to window
FIRST = 10.0  # rounds for each dimension of the first, uniform window, times a report's variance
SHIFT = 2.0  # of the largest eigenvalue that the Gram's noise alone is expected to have
WIDTH = 0.3  # of the confidence set that holds all of the noise
STEP = 1.0  # for each dimension: the sphere's curvature is 1/d


@value
@dataclass(frozen=True)
class ReportSums:
    """Sums of reports, each of which was private before it came here."""

    moment: Array  # (d,)
    gram: Array  # (d, d)
    moments: int = 0  # reports in the moment
    grams: int = 0  # reports in the Gram matrix
    reports: int = 0  # since the first window

    @classmethod
    def empty(cls, dim: int) -> "ReportSums":
        """Before the first report."""
        return cls(np.zeros(dim), np.zeros((dim, dim)))


class ReportWindow(Stateful, ABC):
    """Rewarded rows go through a channel at once; only the sums of reports are kept.

    sums            of the reports so far
    theta           the released estimate, at which gradients are taken
    epsilon         privacy loss of one person's reports
    contributions   reports that one person may send
    """

    _state: ClassVar[tuple[str, ...]] = ("sums", "theta", "epsilon", "contributions")

    def __init__(self, sums: ReportSums, theta: Array, epsilon: float, contributions: int) -> None:
        self.sums = sums
        self.theta = theta  # public
        self.epsilon = epsilon
        self.contributions = contributions

    def attach(self, noise: Noise) -> Self:
        """Draw from this source: when the window opens, and when it is resumed."""
        dim = len(self.theta)
        self.noise = noise
        self.vectors = BallChannel(dim, self.epsilon, contributions=self.contributions)
        self.matrices = gram_channel(dim, self.epsilon, self.contributions)
        return self

    def fold(self, rows: Array, rewards: Array) -> None:
        """Report each row and add the reports up, each piece in one step."""
        for piece in pieces(len(rows), len(self.theta) ** 2):
            self._commit(sums=self._reported(rows[piece], rewards[piece]))

    def fold_one(self, row: Array, reward: float) -> None:
        """`fold` for one row."""
        self.fold(row[None], np.array([reward]))

    @abstractmethod
    def _reported(self, rows: Array, rewards: Array) -> ReportSums:
        """The sums with n people's reports."""


class _LocalBaseline(Bandit):
    """Windows, channels and the promise; a subclass reports and estimates."""

    reference: str
    _window: ReportWindow | None
    _opens: type[ReportWindow]
    _state: ClassVar[tuple[str, ...]] = (*Bandit._state, "noise", "_sums", "_theta")

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
        super().__init__(dim, horizon, norm_bound=norm_bound, reward_range=reward_range, seed=seed)
        self._vectors = BallChannel(self.dim, epsilon, contributions=contributions)
        self.epsilon = self._vectors.epsilon
        self.contributions = self._vectors.contributions
        self.noise = source(noise)
        self._sums = ReportSums.empty(self.dim)  # when the last window opened
        self._theta = np.zeros(self.dim)
        self.policy = Uniform()

    @property
    def guarantee(self) -> Guarantee:
        """What each person is promised, whatever happens to the reports."""
        (release,) = self._vectors.guarantee.releases
        made = replace(release, sampler=self.noise.sampler(release.mechanism))
        return Guarantee(
            epsilon=self.epsilon,
            delta=0.0,
            trust="local",
            contributions=self.contributions,
            releases=(made,) if (self._window or self).sums.reports else (),
            unprotected=(*UNPROTECTED, RESUMED_TWICE),
            reference=self.reference,
        )

    def _size(self) -> int:
        first = FIRST * self.dim * max(1.0, self._vectors.std**2)
        return math.ceil(first if self.rounds == 0 else (GROWTH - 1) * self.rounds)

    @property
    def sums(self) -> ReportSums:
        """The reports of all windows that are closed."""
        return self._sums

    @abstractmethod
    def _estimated(self, sums: ReportSums) -> tuple[ReportSums, Array, Policy]:
        """The sums that the next window begins with, theta, and the next policy."""

    def _turned(self, size: int | None) -> dict[str, Any]:
        sums, theta, policy = self._sums, self._theta, self.policy
        if self._window is not None:
            sums, theta, policy = self._estimated(self._window.sums)
        window = None
        if size is not None:
            window = self._opens(sums, theta, self.epsilon, self.contributions).attach(self.noise)
        return {"_sums": sums, "_theta": theta, "policy": policy, "_window": window}

    def _validate(self) -> None:
        super()._validate()
        if self._window is not None:
            self._window.attach(self.noise)


def gram_channel(dim: int, epsilon: float, contributions: int) -> BallChannel:
    """For symmetric matrices of Frobenius norm at most 1, as isometric vectors."""
    return BallChannel(dim * (dim + 1) // 2, epsilon, contributions=contributions)


class ProductReports(ReportWindow):
    """Every person reports phi phi^T or phi y, in turns.

    sums            of the reports so far
    theta           the released estimate, at which gradients are taken
    epsilon         privacy loss of one person's reports
    contributions   reports that one person may send
    """

    def _reported(self, rows: Array, rewards: Array) -> ReportSums:
        sums = self.sums
        # Alternating: a public coin that needs no memory but the number of reports.
        coin = (sums.reports + np.arange(len(rows))) % 2 == 0
        moment, gram = sums.moment, sums.gram
        X = rows[coin]  # |phi phi^T|_F <= 1
        if len(X):
            products = symmetric_to_vector(X[:, :, None] * X[:, None, :])
            sent = self.matrices.privatize(products, self.noise, clip=True)
            gram = gram + vector_to_symmetric(sent).sum(axis=0)
        X, y = rows[~coin], rewards[~coin]  # |phi y| <= 1
        if len(X):
            sent = self.vectors.privatize(X * y[:, None], self.noise, clip=True)
            moment = moment + sent.sum(axis=0)
        grams = int(coin.sum())
        return ReportSums(
            moment,
            gram,
            sums.moments + len(rows) - grams,
            sums.grams + grams,
            sums.reports + len(rows),
        )


class LocalLinUCB(_LocalBaseline):
    """LinUCB on sums of reports, shifted to stay positive definite (Zheng et al. 2020).

    Every person reports phi phi^T or phi y, in turns, at the whole epsilon: half of the reports
    of full strength have half the variance of all reports at half epsilon. With means G and b of
    the reports, theta = (G + shift I)^-1 b. The paper's confidence set holds all of the noise and
    would explore for ever; its width is scaled by WIDTH, which was tuned on the sphere.

    Parameters
        dim            number of features of a row
        horizon        rounds that count; None to learn for ever
        epsilon        privacy loss of a person's reports
        norm_bound     length of the longest feature row; longer ones are shortened to it
        reward_range   least and largest reward
        contributions  reports that one person may send; the caller enforces that limit
        seed           of the coins that choose at first; for simulations
        noise          SecureNoise(), SeededNoise(seed) for simulations, None for float noise

    >>> from discreet.privacy import SeededNoise
    >>> bandit = LocalLinUCB(2, 1000, 1.0, seed=0, noise=SeededNoise(0))
    >>> bandit.decide([[1.0, 0.0], [0.0, 1.0]]).probability
    0.5
    """

    reference = "Zheng et al. (2020), with one pure channel report per person"

    _opens = ProductReports

    def _estimated(self, sums: ReportSums) -> tuple[ReportSums, Array, Policy]:
        d = self.dim
        if min(sums.moments, sums.grams) < 2:
            return sums, self._theta, self.policy
        # A symmetric Gaussian matrix of deviation s on the diagonal has norm about s sqrt(2 d).
        matrices = gram_channel(d, self.epsilon, self.contributions)
        noise = matrices.std * math.sqrt(2 * d / sums.grams)
        shift = SHIFT * noise + 1 / (sums.moments + sums.grams)
        values, vectors = np.linalg.eigh(sums.gram / sums.grams)
        values = np.maximum(values + shift, shift)
        inverse = (vectors / values) @ vectors.T
        mean = inverse @ (sums.moment / sums.moments)
        # |theta^ - theta|_A <= |noise of b|_{A^-1} + the shift's bias, in A = G + shift I.
        largest = math.sqrt(d / sums.moments) * max(self._vectors.std, 1.0)
        width = WIDTH * (largest / math.sqrt(shift) + math.sqrt(shift))
        return sums, mean, Ucb(mean, width * (vectors / np.sqrt(values)))


class GradientReports(ReportWindow):
    """Every person reports the gradient of their squared error at theta.

    sums            of the reports so far
    theta           the released estimate, at which gradients are taken
    epsilon         privacy loss of one person's reports
    contributions   reports that one person may send
    """

    def _reported(self, rows: Array, rewards: Array) -> ReportSums:
        errors = np.clip(rows @ self.theta, -1.0, 1.0) - rewards
        # |phi| <= 1, |prediction| <= min(1, |theta|) and |reward| <= 1; theta is public.
        longest = min(1.0, float(np.linalg.norm(self.theta))) + 1
        gradients = rows * (errors / longest)[:, None]
        sent = self.vectors.privatize(gradients, self.noise, clip=True)
        sums = self.sums
        return replace(
            sums,
            moment=sums.moment + longest * sent.sum(axis=0),
            moments=sums.moments + len(rows),
            reports=sums.reports + len(rows),
        )


class LocalSGDBandit(_LocalBaseline):
    """Greedy on one pass of gradient steps, one reported gradient per person (Han et al. 2021).

    theta <- theta - STEP d sum g / t over the window's reports g: a batched form of the step
    STEP d / t, so that the policy is fixed between releases. No projection is needed: predictions
    are cut to [-1, 1] inside the gradient.

    Parameters
        dim            number of features of a row
        horizon        rounds that count; None to learn for ever
        epsilon        privacy loss of a person's reports
        norm_bound     length of the longest feature row; longer ones are shortened to it
        reward_range   least and largest reward
        contributions  reports that one person may send; the caller enforces that limit
        seed           of the coins that choose at first; for simulations
        noise          SecureNoise(), SeededNoise(seed) for simulations, None for float noise

    >>> from discreet.privacy import SeededNoise
    >>> bandit = LocalSGDBandit(2, 1000, 1.0, seed=0, noise=SeededNoise(0))
    >>> bandit.decide([[1.0, 0.0], [0.0, 1.0]]).probability
    0.5
    """

    reference = "Han et al. (2021), batched, with one pure channel report per person"

    _opens = GradientReports

    def _estimated(self, sums: ReportSums) -> tuple[ReportSums, Array, Policy]:
        theta = self._theta
        if sums.reports:
            step = min(STEP * self.dim / sums.reports, 1 / max(sums.moments, 1))
            theta = theta - step * sums.moment
        return replace(sums, moment=np.zeros(self.dim), moments=0), theta, Greedy(theta)
