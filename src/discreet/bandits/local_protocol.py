"""The device's side of a locally private bandit: choose by the public policy, report in private.

A device knows what everybody knows (`PublicPolicy`), decides by itself, and answers one question
about its round through one channel (`discreet.local`).
"""

import secrets
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import Array, integer, one_of
from discreet.bandits.policies import Greedy, Mixed, Thompson, Ucb, Uniform
from discreet.decisions import Decision, Policy
from discreet.local import Device as LocalDevice
from discreet.local import PublicState, Question, Report
from discreet.local.record import scaled_rows
from discreet.local.state import bounded
from discreet.privacy import Crowd, Noise
from discreet.state import value

POLICIES = ("ucb", "thompson", "greedy")
FRACTIONS = {"gram": 0.2, "scale": 0.05, "moment": 0.75}  # of the people, by a public coin
KINDS = {"gram": "gram", "scale": "square", "moment": "moment"}
OPTIMISM = 2.5  # of "ucb" in rounds that explore, in posterior standard deviations
MOST_DRAWS = 4096


def questions(clip: float, shuffled: bool = False) -> tuple[Question, ...]:
    """What a window of the bandit asks; where reports are shuffled, everything of everybody."""
    if shuffled:
        return (Question("joint", "joint", clip, 1.0),)
    return tuple(
        Question(name, KINDS[name], clip, fraction) for name, fraction in FRACTIONS.items()
    )


@value
@dataclass(frozen=True, eq=False, kw_only=True)
class PublicPolicy(PublicState):
    """A public state that also says how to choose an action.

    root        (d, d), the covariance of theta is root root'
    draws       (m, d), for "thompson"
    policy      "ucb", "thompson" or "greedy"; window 0 is uniform whatever the policy
    exploring   fraction of rounds in which "ucb" is optimistic

    >>> policy = PublicPolicy.start(2, 1.0)
    >>> PublicPolicy.from_dict(policy.to_dict()).window
    0
    """

    root: Array = field()
    draws: Array = field()
    policy: str = "ucb"
    exploring: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        d = self.dim
        one_of("policy", self.policy, POLICIES)
        self._set("root", bounded("root", self.root, (d, d)))
        self._set("draws", bounded("draws", self.draws, (None, d)))
        self._set("exploring", float(self.exploring))
        if len(self.draws) > MOST_DRAWS or not 0 <= self.exploring <= 0.99:  # False for NaN
            raise ValueError(
                f"not a public policy: expected exploring in [0, .99], at most {MOST_DRAWS} draws"
            )

    @classmethod
    def start(  # type: ignore[override]
        cls,
        dim: int,
        epsilon: float,
        *,
        clip: float = 1.0,
        reward_range: tuple[float, float] = (-1.0, 1.0),
        **more: Any,
    ) -> Self:
        """What is public before anyone has reported: nothing but bounds."""
        d = integer("dim", dim)
        return cls(
            window=0,
            theta=np.zeros(d),
            whitening=np.eye(d),
            questions=questions(clip, more.get("batch") is not None),
            epsilon=epsilon,
            outcome_range=reward_range,
            root=np.eye(d) / np.sqrt(d),
            draws=np.zeros((1, d)),
            **more,
        )

    @property
    def clip(self) -> float:
        """Where residuals are clipped."""
        return self.questions[0].clip

    @cached_property
    def rule(self) -> Policy:
        """How to choose."""
        if self.window == 0:
            return Uniform()
        if self.policy == "thompson":
            return Thompson(self.draws)
        greedy = Greedy(self.theta)
        if self.policy == "greedy":
            return greedy
        return Mixed(self.exploring, Ucb(self.theta, self.root, OPTIMISM), greedy)


class Device(LocalDevice):
    """One person's device: it chooses, keeps the record to itself, and reports each round once.

    The limits and what is refused: see `discreet.local.Device`. A late reward answers the question
    that is open when it comes. Features and rewards beyond the public bounds are cut; those that
    are not finite count as 0.

    policy          what the server published, checked (`PublicPolicy.from_dict`)
    epsilon         of everything that this device will ever send; inf: bare records
    contributions   the most reports
    norm_bound      features are shortened to this Euclidean norm
    reward_range    rewards are clipped to it
    delta           of everything, where reports are shuffled; 0: they are private by themselves
    local_epsilon   where reports are shuffled, the most that one of them costs by itself
    honest          where reports are shuffled, the most of a planned batch that the promise may
                    count on to be drawn honestly
    minimum         where reports are shuffled, the least of a planned batch that may be released
    sent            reports sent before
    answered        the last window that was answered, where reports are shuffled
    seed            of the coins that choose actions and, where reports are not shuffled, questions
    noise           of the reports; None is the operating system's entropy

    >>> from discreet.privacy import SeededNoise
    >>> device = Device(PublicPolicy.start(2, 1.0), epsilon=1.0, seed=0, noise=SeededNoise(0))
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
        epsilon: float,
        contributions: int | None = None,
        norm_bound: float | None = None,
        reward_range: tuple[float, float] | None = None,
        delta: float = 0.0,
        local_epsilon: float = Crowd.local_epsilon,
        honest: float | None = None,
        minimum: float | None = None,
        sent: int = 0,
        answered: int = -1,
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        _expect_policy(policy)
        super().__init__(
            policy,
            epsilon=epsilon,
            contributions=contributions,
            norm_bound=norm_bound,
            outcome_range=reward_range,
            delta=delta,
            local_epsilon=local_epsilon,
            honest=honest,
            minimum=minimum,
            sent=sent,
            answered=answered,
            seed=seed,
            noise=noise,
        )
        self._rounds = 0
        self._pending: set[int] = set()
        self._name = secrets.token_hex(8)

    @property
    def policy(self) -> PublicPolicy:
        """What this device decides by."""
        return _expect_policy(self._state)

    def update(self, state: PublicState) -> None:
        """Follow a newer policy, within the limits of this device."""
        super().update(_expect_policy(state))

    def decide(self, features: ArrayLike) -> Decision:  # (actions, dim)
        """Choose an action; nothing leaves the device."""
        offered = scaled_rows(features, self.promise.dim, self.promise.norm_bound)
        rule = self.policy.rule
        action = int(rule.choose(offered[None], self._rng.random(1))[0])
        with self._live:
            number = self._rounds
            self._pending.add(number)
            self._rounds += 1
        return Decision(number, action, offered[action], self._name, offered, rule)

    def report(self, decision: Decision, reward: float) -> Report:
        """The one report of a round."""
        row = np.array(decision.row)
        if row.shape != (self.promise.dim,) or np.shape(reward) != ():
            raise ValueError(f"expected features of shape ({self.promise.dim},) and one reward")
        with self._live:
            if decision.learner != self._name or decision.round not in self._pending:
                raise ValueError("expected a decision of this device that has not been reported")
            state = self._count()
            self._pending.remove(decision.round)
        return self._send(state, scaled_rows(row[None], self.promise.dim, 1.0), reward)

    def memory(self) -> dict[str, Any]:
        """What a restarted device must be given; plain values."""
        memory = super().memory()
        memory["reward_range"] = memory.pop("outcome_range")
        return memory


def _expect_policy(state: object) -> PublicPolicy:
    if not isinstance(state, PublicPolicy):
        raise TypeError(f"expected a PublicPolicy, got {type(state).__name__}; use from_dict")
    return state
