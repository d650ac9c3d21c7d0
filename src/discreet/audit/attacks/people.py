"""Attacks on LinearBandit(people=People(visits=...)): somebody who comes again and again.

All rounds of one person are replaced. The person comes twice in each window, to be counted once
("all") or never again ("first"); the attacker knows that rule, sees every sum that is released and
knows the transform of each window, which comes from the release before.
"""

from collections.abc import Callable
from typing import Any

from discreet.arrays import Array
from discreet.audit.attacks.bandits import (
    E1,
    NOBODY,
    bandit,
    canary_term,
    fill,
    joint_bandit,
    windows,
)
from discreet.audit.rows import Claim
from discreet.audit.views import Likelihood, each
from discreet.bandits import LinearBandit, People
from discreet.privacy import SeededNoise
from discreet.privacy.noise import Noise
from discreet.privacy.observation import observed

HORIZON = 400  # three windows or four
Story = Callable[[int, int], float | None]  # (neighbour, window) -> reward; None: none comes


def visited(learner: Any, reward: float | None) -> tuple[Any, Array, float]:
    """One window: its transform, the sum that is released, the scale of the noise."""
    for _ in range(2):
        decision = learner.decide(E1)
        if reward is not None:
            learner.learn(decision, reward, person="canary")
    fill(learner)
    view = learner.window.transform
    with observed("release") as seen:
        learner.decide(NOBODY)
    return view, seen[0].value, seen[0].release.scale  # type: ignore[union-attr]


def _person(name: str, visits: str, told: Story, counted: Story, attainable: float) -> None:
    fits = windows(visits=visits)

    @bandit(name, LinearBandit, kind="gaussian", fits=fits, attainable=attainable)
    @each
    def person(claim: Claim, neighbour: int, noise: SeededNoise) -> tuple[float, ...]:
        """One person in many windows: the likelihood of all sums, and the first two by themselves.

        The last one along the canary shows a visit that counts though it must not.
        """
        learner = joint_bandit(claim, noise, horizon=HORIZON, people=People(visits=visits))
        ratios: list[float] = []
        along = 0.0
        while learner.learning:
            window = len(ratios)
            view, value, scale = visited(learner, told(neighbour, window))
            away, close = (value - added(view, counted(which, window)) for which in (0, 1))
            ratios.append(float(away @ away - close @ close) / (2 * scale**2))
            along = float(value @ canary_term(view, 1.0))
        return sum(ratios), *ratios[:2], along


def added(view: Any, reward: float | None) -> Array | float:
    """What the person adds to a window's sum."""
    return 0.0 if reward is None else canary_term(view, reward)


def every_window(neighbour: int, _: int) -> float:
    """The same reward, again and again."""
    return 2.0 * neighbour - 1.0


def every_second_window(neighbour: int, window: int) -> float | None:
    """Even windows, or odd ones."""
    return 1.0 if window % 2 == neighbour else None


def from_then_on(neighbour: int, window: int) -> float | None:
    """In neighbour 1 the first reward comes a window later; what follows differs too."""
    if window <= neighbour:
        return 1.0 if window == neighbour else None
    return 1.0 - 2.0 * neighbour


def first(neighbour: int, window: int) -> float | None:
    """The one visit that counts."""
    return 1.0 if window == neighbour else None


# `attainable` is the mean of the realised mu over 150 runs (100 for the last): transforms of later
# windows take the canary for many people. At most it is .985, .717 (a row that is there or not
# moves a sum by sqrt(4.375) of the booked sqrt(8.5)) and 1, where noise looks like no rewards.
_person("linear bandit, one person in every window", "all", every_window, every_window, 0.835)
_person(
    "linear bandit, one person in other windows",
    "all",
    every_second_window,
    every_second_window,
    0.634,
)
_person("linear bandit, first visit in another window", "first", from_then_on, first, 0.92)


@bandit(
    "linear bandit sgd, one person in every window",
    LinearBandit,
    kind="gaussian",
    fits=windows(visits="all", descent=True),
    attainable=0.5,
)
@Likelihood
def descent(claim: Claim, neighbour: int, noise: Noise) -> None:
    """Gradient steps: the same person in every window, with reward 1 or -1; all averages.

    Residuals differ by 2, and 4 are booked: for two steps in opposite directions at full length,
    as in "linear bandit sgd". Half the noise stays below the claim.
    """
    people = People(visits="all")
    learner = joint_bandit(claim, noise, horizon=HORIZON, people=people, policy="descent")
    while learner.learning:
        learner.learn(learner.decide(E1), 2.0 * neighbour - 1.0, person="canary")
        fill(learner)
        learner.decide(NOBODY)
