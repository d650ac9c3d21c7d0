"""The server's side of a locally private bandit: sums of reports, a posterior, the next policy.

Chen, Li, Rakhlin, Simchi-Levi (2025), local bandits, with residuals instead of rewards.

    paper   H_(k)        U       theta_(k)
    here    self._gram   frame   theta

Windows grow geometrically. At the end of one, the moments give the posterior of
w = frame^-1 (theta* - theta) from  clip moment = H w + noise. The noise of one window's Gram is as
large as the Gram itself at first, so H is a running mean that follows the frame, and starts at I/d.
"""

import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from discreet.bandits.local_protocol import SHARES, BanditReport, PublicPolicy
from discreet.privacy import IntervalChannel, SymmetricChannel
from discreet.privacy.checks import Array, positive, whole
from discreet.privacy.state import expect
from discreet.regression.matrices import power
from discreet.regression.tally import Tally

FIRST = 10.0  # people for each dimension, times the variance of a report
RATIO = 1.5  # of all people so far, from window to window
DRAWS, SCALE = 64, 1.0  # of the posterior, and their spread in deviations
CLIP = 0.5  # of the first window: most residuals of theta = 0 are shorter, if theta ~ N(0, I/d)
REACH = 1.2  # root-mean-square residuals that count in full
PRIOR = 4.0  # H is I/d at first, its entries known to 1 / (d sqrt(PRIOR))
MEMORY = 0.9  # of the Gram's weight, kept from window to window
EXPLORING, CURIOUS = 0.3, 1.0  # most rounds that explore, and first windows of them
DOUBT = 1.0  # deviations of the Gram's noise that are no information


class LocalServer:
    """Adds up reports and publishes policies; it has no way to take a record.

    `take` accepts a `BanditReport` of the open window. A report of an earlier window is left out
    and counted (`refused`): it answers a question that is no longer asked, and its sender must not
    answer again, which would spend the budget twice. `close` when `full`, or earlier.

    >>> server = LocalServer(2, epsilon=1.0, seed=0)
    >>> server.policy.window, server.size(0), server.full
    (0, 106, False)
    """

    def __init__(
        self,
        dim: int,
        epsilon: float = 1.0,
        *,
        policy: str = "thompson",
        norm_bound: float = 1.0,
        reward_range: tuple[float, float] = (-1.0, 1.0),
        contributions: int = 1,
        seed: int | None = None,
    ) -> None:
        self.dim = whole("dim", dim)
        positive("epsilon", epsilon, allow_inf=True)
        self._fixed: dict[str, Any] = {
            "policy": policy,
            "contributions": contributions,
            "norm_bound": norm_bound,
            "reward_range": reward_range,
        }
        self.policy = PublicPolicy.start(self.dim, float(epsilon), clip=CLIP, **self._fixed)
        self._coins = np.random.default_rng(seed)
        self._covariance = np.eye(dim) / dim
        # The running Gram counts as `weight` reports: at first, its prior variance.
        self._gram, self._weight = np.eye(dim) / dim, self._gram_variance * PRIOR * dim**2
        self.taken, self.refused = 0, 0  # reports
        self._tallies = {question: Tally() for question in SHARES}

    # -- windows ----------------------------------------------------------------------------------

    def size(self, window: int) -> int:
        """How many people a window wants: known beforehand."""
        deviation = self.policy.channels["moment"].deviation  # type: ignore[union-attr]
        first = math.ceil(FIRST * self.dim * max(1.0, deviation**2))
        return first if window == 0 else math.ceil(first * (RATIO - 1) * RATIO ** (window - 1))

    @property
    def full(self) -> bool:
        """Whether the open window has the reports it wants."""
        counted = sum(tally.count for tally in self._tallies.values())
        return counted >= self.size(self.policy.window)

    def take(self, report: BanditReport) -> bool:
        """Add reports; False if any was left out: of another window, or such as no device sends."""
        if not isinstance(report, BanditReport) or not isinstance(report.values, np.ndarray):
            raise TypeError(f"the server takes a BanditReport, never a {type(report).__name__}")
        n = len(report.values) if report.values.ndim else 1
        sound = self._sound(report)
        if len(sound):
            self._tallies[report.question].add(sound)
        self.taken += len(sound)
        self.refused += n - len(sound)
        return len(sound) == n

    def take_many(self, reports: Iterable[BanditReport]) -> int:
        """Add reports; returns how many values were left out."""
        before = self.refused
        for report in reports:
            self.take(report)
        return self.refused - before

    def close(self) -> PublicPolicy:
        """End the window: learn from its sums, and publish the next policy."""
        old, theta, clip = self.policy, self.policy.theta, self.policy.clip
        moment, scale = self._tallies["moment"], self._tallies["scale"]
        if moment.count > 1:
            theta = self._learn(self._tallies["gram"], moment)
        if scale.count > 1:
            clip = self._rescaled(scale)
        frame = self._next_frame(clip)
        self._carry(old.frame, frame)
        root = power(self._covariance, 0.5)
        draws = theta + SCALE * self._coins.standard_normal((DRAWS, self.dim)) @ root
        if old.policy != "thompson":
            draws = theta[None]
        exploring = min(EXPLORING, CURIOUS * self.size(0) / self.size(old.window + 1))
        self.policy = PublicPolicy(
            old.window + 1,
            theta,
            root,
            draws,
            frame,
            clip,
            old.epsilon,
            exploring=exploring,
            **self._fixed,
        )
        self._tallies = {question: Tally() for question in SHARES}
        return self.policy

    # -- learning: post-processing of sums --------------------------------------------------------

    @property
    def _gram_variance(self) -> float:
        """Of an entry of one Gram report; without privacy, of one person's Gram about its mean."""
        channel = self.policy.channels["gram"]
        assert isinstance(channel, SymmetricChannel)
        return max(channel.vectors.deviation**2, 2 / (self.dim * (self.dim + 1)))

    def _learn(self, gram: Tally, moment: Tally) -> Array:
        """The posterior mean of theta; its covariance is kept."""
        d, clip, frame = self.dim, self.policy.clip, self.policy.frame
        weight = self._weight + gram.count
        mean = (self._weight * self._gram + gram.total) / weight
        values, vectors = np.linalg.eigh(mean)
        values = np.maximum(values, 1e-9)
        H = (vectors * values) @ vectors.T
        self._gram, self._weight = H, weight
        variance = self._gram_variance / weight
        # What may be noise in H is no information about theta: it shrinks no covariance.
        sure = np.maximum(values - DOUBT * math.sqrt(variance), 0.0)
        back = np.linalg.inv(frame)
        prior = back @ self._covariance @ back
        # Isotropic noise on H, s on the diagonal, moves H w by variance s^2 (|w|^2 I + w w^T)/2.
        noise = clip**2 * moment.variance + variance / 2 * (np.trace(prior) * np.eye(d) + prior)
        shift = _gain(prior, H, noise) @ (clip * moment.mean)
        known = (vectors * sure) @ vectors.T
        left = prior - _gain(prior, known, noise) @ known @ prior
        self._covariance = frame @ power((left + left.T) / 2, 1.0) @ frame
        return np.asarray(self.policy.theta + frame @ shift)

    def _rescaled(self, scale: Tally) -> float:
        """REACH root-mean-square residuals, if enough people told; at most doubled or halved."""
        channel = self.policy.channels["scale"]
        assert isinstance(channel, IntervalChannel)
        doubt = channel.deviation / math.sqrt(scale.count)
        if doubt > 0.1 or scale.count <= 20:
            return self.policy.clip
        square = min(max(float(scale.mean), 0.02, doubt / 2), 1.0)
        return min(1.0, self.policy.clip * min(max(REACH * math.sqrt(square), 0.5), 2.0))

    def _next_frame(self, clip: float) -> Array:
        """frame^2 = C (REACH / clip)^2 + sqrt(C / |C|): the reach covers the error of theta.

        The first part is the paper's U up to a factor; the second keeps reports long in directions
        that are known.
        """
        C = self._covariance
        return power(C * (REACH / clip) ** 2 + power(C / np.linalg.norm(C, 2), 0.5), 0.5)

    def _carry(self, old: Array, new: Array) -> None:
        """The running Gram in the next frame, of the same trace and less weight."""
        turn = new @ np.linalg.inv(old)
        turned = turn @ self._gram @ turn.T
        self._gram = turned * (np.trace(self._gram) / np.trace(turned))
        self._weight *= MEMORY

    def _sound(self, report: BanditReport) -> Array:
        """The values that a device could have sent in the open window."""
        channel = self.policy.channels.get(report.question)
        d, values = self.dim, report.values
        shape = {"gram": (d, d), "scale": (), "moment": (d,)}.get(report.question)
        if channel is None or report.window != self.policy.window or values.shape[1:] != shape:
            return np.empty(0)
        return values[channel.possible(values)]

    # -- saving -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Arrays and plain values, O(d^2) of them, from which `load_state_dict` goes on."""
        sums = {
            f"{question}.{name}": getattr(tally, name)
            for question, tally in self._tallies.items()
            for name in ("count", "total", "squares")
        }
        return {
            **self._config(),
            "public": json.dumps(self.policy.to_dict()),
            "coins": json.dumps(self._coins.bit_generator.state),
            "covariance": self._covariance.copy(),
            "gram": self._gram.copy(),
            "weight": self._weight,
            "taken": self.taken,
            "refused": self.refused,
            **sums,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state of a server with the same arguments."""
        expect(state, **self._config())
        tallies = {question: Tally() for question in SHARES}
        for question, tally in tallies.items():
            tally.count = int(state[f"{question}.count"])
            tally.total = np.array(state[f"{question}.total"])
            tally.squares = np.array(state[f"{question}.squares"])
        self.policy = PublicPolicy.from_dict(json.loads(state["public"]))
        self._coins.bit_generator.state = json.loads(state["coins"])
        self._covariance, self._gram = state["covariance"].copy(), state["gram"].copy()
        self._weight = float(state["weight"])
        self.taken, self.refused = int(state["taken"]), int(state["refused"])
        self._tallies = tallies

    def _config(self) -> dict[str, Any]:
        promise = {"epsilon": self.policy.epsilon, **self._fixed}
        return {"protocol": json.dumps({"dim": self.dim, **promise})}


def _gain(prior: Array, H: Array, noise: Array) -> Array:
    """Of w ~ N(0, prior) from b = H w + noise."""
    return np.asarray(prior @ H @ np.linalg.pinv(H @ prior @ H + noise, hermitian=True))
