"""The device's side of a locally private bandit: choose by the public policy, report in private.

Chen, Li, Rakhlin, Simchi-Levi (2025), local bandits, with residuals instead of rewards.

    paper   U       phi_t   r_t       H_(k)            psi^
    here    frame   row     reward    mean of "gram"   mean of "moment"

A device knows what everybody knows (`PublicPolicy`). It decides by itself and answers one question
about its round through one channel. A public coin says which. With z = frame phi, the residual
r = reward - <phi, theta>, its reach R = clip max(1, |z|) and s = min(1, R / |r|):

    gram     s z z^T / (|z| max(1, |z|))     mean H
    moment   z/|z| clip(r / R, +-1)          mean H frame^-1 (theta* - theta) / clip
    scale    min(1, (r / clip)^2)            gives the next clip

s makes H the chord of the cut residual: exact where residuals are errors of theta.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreet.bandits.policies import Greedy, Mixed, Thompson, Ucb, Uniform
from discreet.decisions import Decision, Policy
from discreet.privacy import BallChannel, IntervalChannel, Noise, SymmetricChannel
from discreet.privacy.checks import Array, finite, one_of, positive, row_norms, whole, within
from discreet.privacy.noise import source
from discreet.privacy.release import plain
from discreet.regression.local_protocol import pieces

POLICIES = ("ucb", "thompson", "greedy")
SHARES = {"gram": 0.2, "scale": 0.05, "moment": 0.75}  # of the people, by a public coin
OPTIMISM = 2.5  # of "ucb" in rounds that explore, in posterior deviations
Channel = BallChannel | IntervalChannel | SymmetricChannel


@dataclass(frozen=True)
class PublicPolicy:
    """All that a device needs: how to choose, and the questions of the open window.

    >>> policy = PublicPolicy.start(2, 1.0)
    >>> PublicPolicy.from_dict(policy.to_dict()).window
    0
    """

    window: int
    theta: Array  # (d,), the posterior mean
    root: Array  # (d, d), covariance = root root'
    draws: Array  # (k, d) for "thompson"
    frame: Array  # (d, d), symmetric
    clip: float
    epsilon: float
    policy: str = "ucb"  # window 0 is uniform whatever the policy
    exploring: float = 0.0  # share of rounds in which "ucb" is optimistic
    contributions: int = 1
    norm_bound: float = 1.0
    reward_range: tuple[float, float] = (-1.0, 1.0)

    def __post_init__(self) -> None:
        d = len(self.theta)
        one_of("policy", self.policy, POLICIES)
        whole("window", self.window, least=0)
        whole("contributions", self.contributions)
        positive("epsilon", self.epsilon, allow_inf=True)
        positive("clip", self.clip)
        positive("norm_bound", self.norm_bound)
        if not -np.inf < self.reward_range[0] < self.reward_range[1] < np.inf:
            raise ValueError("reward_range must be (low, high)")
        if {self.root.shape, self.frame.shape} != {(d, d)} or self.draws.shape[1:] != (d,):
            raise ValueError(f"not a public policy: its arrays do not fit dimension {d}")

    @classmethod
    def start(cls, dim: int, epsilon: float, *, clip: float = 1.0, **more: Any) -> "PublicPolicy":
        """What is public before anyone has reported: nothing but bounds."""
        zero, root = np.zeros(dim), np.eye(dim) / np.sqrt(dim)
        return cls(0, zero, root, zero[None], np.eye(dim), clip, epsilon, **more)

    @cached_property
    def law(self) -> Policy:
        """How to choose."""
        if self.window == 0:
            return Uniform()
        if self.policy == "thompson":
            return Thompson(self.draws)
        greedy = Greedy(self.theta)
        if self.policy == "greedy":
            return greedy
        return Mixed(self.exploring, Ucb(self.theta, self.root, OPTIMISM), greedy)

    @cached_property
    def channels(self) -> dict[str, Channel]:
        """What the answer to each question goes through before it leaves the device."""
        d, k = len(self.theta), self.contributions
        return {
            "gram": SymmetricChannel(d, self.epsilon, contributions=k),
            "scale": IntervalChannel(self.epsilon, low=0.0, high=1.0, contributions=k),
            "moment": BallChannel(d, self.epsilon, contributions=k),
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else plain(value)
            for name, value in values.items()
        }

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> "PublicPolicy":
        """A policy from `to_dict`; a damaged record raises ValueError."""
        try:
            values = {each.name: record[each.name] for each in fields(cls)}
        except (KeyError, TypeError):
            raise ValueError("not a public policy; use PublicPolicy.to_dict") from None
        for name in ("theta", "root", "draws", "frame"):
            values[name] = finite(name, values[name])
        values["epsilon"] = float(values["epsilon"])
        low, high = values["reward_range"]
        return cls(**{**values, "reward_range": (float(low), float(high))})


@dataclass(frozen=True)
class BanditReport:
    """Answers that have left their devices, already private: (n, d, d), (n,) or (n, d)."""

    window: int
    question: str
    values: Array = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "window": self.window,
            "question": self.question,
            "values": self.values.tolist(),
        }

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> "BanditReport":
        """A report from `to_dict`; a damaged record raises ValueError."""
        try:
            window, question, values = record["window"], record["question"], record["values"]
        except (KeyError, TypeError):
            raise ValueError("not a report; use BanditReport.to_dict") from None
        window = whole("window", window, least=0)
        return cls(window, one_of("question", question, tuple(SHARES)), finite("values", values))


def answer(rows: Array, rewards: Array, question: str, policy: PublicPolicy) -> Array:
    """Answers before the channel: every one has norm at most 1, whatever the record is."""
    X, y = np.clip(rows, -1.0, 1.0), np.clip(rewards, -1.0, 1.0)  # no change inside the bounds
    residual = y - X @ policy.theta
    if question == "scale":
        return np.asarray(np.minimum((residual / policy.clip) ** 2, 1.0))
    z = X @ policy.frame
    length = row_norms(z, "l2")
    unit = z / np.where(length == 0, 1.0, length)[:, None]  # 0 at phi = 0
    longer = np.maximum(length, 1.0)
    ratio = residual / (policy.clip * longer)
    if question == "gram":
        # |u u^T|_F = 1, |z| / max(1, |z|) <= 1 and s <= 1.
        weight = length / longer / np.maximum(np.abs(ratio), 1.0)
        return np.asarray(unit[:, :, None] * (unit * weight[:, None])[:, None, :])
    return np.asarray(unit * np.clip(ratio, -1.0, 1.0)[:, None])  # |u| <= 1


def report_many(
    rows: Array, rewards: Array, policy: PublicPolicy, coins: Array, noise: Noise
) -> Iterator[BanditReport]:  # (n, d), (n,), one coin each
    """What n people send, one answer each, epsilon-DP before anyone sees it.

    Rows are in units of the norm bound, rewards in units of the largest reward.
    """
    asked = np.searchsorted(np.cumsum(list(SHARES.values()))[:-1], coins, side="right")
    for number, (question, channel) in enumerate(policy.channels.items()):
        (people,) = np.nonzero(asked == number)
        for piece in pieces(len(people), len(policy.theta) ** 2):
            some = people[piece]
            values = answer(rows[some], rewards[some], question, policy)
            # clip=True shortens what rounding made longer than 1; nothing else is.
            yield BanditReport(policy.window, question, channel.privatize(values, noise, clip=True))


class Device:
    """One person's device: it chooses, keeps the record to itself, and reports each round once.

    It sends at most `contributions` reports, `sent` of them already (keep that number when the
    device restarts), and follows no policy that asks for a larger epsilon than the first did. A
    late reward answers the question that is open when it comes. Features and rewards beyond the
    public bounds are cut.

    >>> from discreet.privacy import SeededNoise
    >>> device = Device(PublicPolicy.start(2, 1.0), seed=0, noise=SeededNoise(0))
    >>> decision = device.decide([[1.0, 0.0], [0.0, 1.0]])
    >>> decision.probability
    0.5
    >>> device.report(decision, 0.3).window
    0
    """

    def __init__(
        self,
        policy: PublicPolicy,
        *,
        sent: int = 0,
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        self.policy, self.sent = policy, whole("sent", sent, least=0)
        self._coins, self._noise = np.random.default_rng(seed), source(noise)
        self._rounds, self._pending = 0, set[int]()
        self._name = secrets.token_hex(8)

    def update(self, policy: PublicPolicy) -> None:
        """Follow a newer policy, of the same bounds and the same promise."""
        for name in ("epsilon", "contributions", "norm_bound", "reward_range"):
            if getattr(policy, name) != getattr(self.policy, name):
                raise ValueError(f"this device was promised another {name}; it keeps its policy")
        if policy.theta.shape != self.policy.theta.shape or policy.window < self.policy.window:
            raise ValueError("expected a newer policy of the same dimension")
        self.policy = policy

    def decide(self, features: ArrayLike) -> Decision:  # (actions, dim)
        """Choose an action; nothing leaves the device."""
        offered, d = np.ascontiguousarray(finite("features", features)), len(self.policy.theta)
        if offered.ndim != 2 or offered.shape[1] != d or len(offered) == 0:
            raise ValueError(f"features must have shape (actions, {d}), got {offered.shape}")
        bound = self.policy.norm_bound
        offered = within("features", offered, bound, norm="l2", clip=True) / bound
        law = self.policy.law
        action = int(law.choose(offered[None], self._coins.random(1))[0])
        decision = Decision(self._rounds, action, offered[action], self._name, offered, law)
        self._pending.add(self._rounds)
        self._rounds += 1
        return decision

    def report(self, decision: Decision, reward: float) -> BanditReport:
        """The one report of a round."""
        if decision.learner != self._name or decision.round not in self._pending:
            raise ValueError("expected a decision of this device that has not been reported")
        if self.sent >= self.policy.contributions:
            raise ValueError(f"this device has sent its {self.sent} report(s): no budget is left")
        low, high = self.policy.reward_range
        value = float(np.clip(finite("reward", reward), low, high)) / max(abs(low), abs(high))
        self._pending.remove(decision.round)
        self.sent += 1
        row, y, coin = decision.row[None], np.array([value]), self._coins.random(1)
        return next(report_many(row, y, self.policy, coin, self._noise))
