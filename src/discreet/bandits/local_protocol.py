"""What the server of a locally private bandit publishes: how devices choose, what they are asked.

A `discreet.local.Device` knows what everybody knows, decides by itself, and answers one question
about its round through one channel.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np

from discreet.arrays import Array, integer, one_of
from discreet.bandits.policies import Greedy, Mixed, Thompson, Ucb, Uniform
from discreet.decisions import Policy
from discreet.local.questions import Question
from discreet.local.state import PublicState, bounded
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
