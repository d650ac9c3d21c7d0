"""Planted bugs in contextual bandits under joint trust: LinearBandit and ContinualLinUCB."""

import contextlib
import math
from typing import Any

import numpy as np

from discreet.arrays import symmetric_to_vector
from discreet.bandits import LinearBandit, People
from discreet.bandits.window import sensitivity, totals
from discreet.privacy import SeededNoise
from mutants.kit import (
    DELTA,
    EPSILON,
    Edit,
    Mutant,
    audited,
    both,
    gaussian_proved,
    proved,
)

SENSITIVITY = sensitivity(None, People(rounds=1))

DIM = 2
E1 = np.eye(DIM)[:1]  # on the boundary


def bandit(seed: int, epsilon: float = EPSILON, **more: Any) -> LinearBandit:
    return LinearBandit(DIM, epsilon=epsilon, delta=DELTA, seed=0, noise=SeededNoise(seed), **more)


def silent(learner: LinearBandit) -> Any:
    """The rest of the window, people with nothing to say; then the release, which is returned."""
    learner.decide_many(np.zeros((learner.rounds_until_release, 1, DIM)))
    total = learner._window.total
    learner.decide(np.zeros((1, DIM)))  # the release happens here
    return total._value


def term(learner: LinearBandit, reward: float) -> Any:
    """What a row e1 adds to the open window's sum; the transform is public."""
    v, weight = learner._window.transform.rows(E1, np.array([reward]))
    beside = totals(weight, np.array([reward]))[0]
    return np.append(symmetric_to_vector(np.outer(v[0], v[0])), beside)


def opposite_rewards(people: int = 1, windows: int = 1, **more: Any) -> float:
    """A person's rewards are all 1 or all -1; each may be given again in later windows."""

    def run(neighbour: int, seed: int) -> float:
        learner, reward, score = bandit(seed, **more), (1.0, -1.0)[neighbour], 0.0
        decisions = [learner.decide(E1) for _ in range(people)]
        for _ in range(windows):
            for each in decisions:
                try:
                    learner.learn(each, reward)
                except ValueError:  # it has had its reward
                    break
            direction = term(learner, -1.0) - term(learner, 1.0)
            score += float(silent(learner) @ direction)
        return score

    return gaussian_proved(*both(run, 300))


def a_row_in_four_windows() -> float:
    return opposite_rewards(windows=4)


def longest_row() -> float:
    """The longest row v over whitenings that a window may have, against the bound |v|^2 <= 2.

    Two such rows at right angles are sqrt(2) |v|^2 apart: in units of what noise is made for.
    """
    learner = bandit(0, policy="greedy")
    rng = np.random.default_rng(0)
    for _ in range(8):  # short rows: in coordinates where these have length 1, others are long
        rows = 0.1 * rng.standard_normal((learner.rounds_until_release, 1, DIM))
        learner.learn_many(learner.decide_many(rows), np.zeros(len(rows)))
    learner.decide(E1)
    window: Any = learner._window
    longest = 0.0
    for angle in np.linspace(0, math.pi, 64):
        v, _ = window.transform.rows(np.array([[math.cos(angle), math.sin(angle)]]), np.ones(1))
        longest = max(longest, math.sqrt(2) * float(v[0] @ v[0]))
    return longest / SENSITIVITY


def a_row_that_changes_windows() -> float:
    """A reward that comes in this window, or in a later one like it: both sums move."""
    learner = bandit(0)
    learner.decide(E1)
    window: Any = learner._window
    move = math.sqrt(2) * float(np.linalg.norm(term(learner, 1.0)))
    return move / float(window.total.release.sensitivity)


def averaged_steps() -> float:
    """The first reward is 1 or -1, all others are zero; the exact averages compared."""
    averages = []
    for reward in (1.0, -1.0):
        learner: Any = bandit(0, policy="descent")
        learner.learn(learner.decide(E1), reward)
        averages.append(learner._window.average)
    booked = learner._window.total.release.sensitivity
    return float(np.linalg.norm(averages[0] - averages[1])) / float(booked)


def rows_beyond_the_window() -> float:
    """Two rows of one person, of which the window has room for one, in units of what is booked."""
    windows = []
    for reward in (1.0, -1.0):
        learner: Any = bandit(0, policy="descent")
        learner.decide(E1)
        rest = np.zeros((learner._window.size - 1, DIM))
        learner.window.fold(rest, np.zeros(len(rest)))
        learner.window.fold(np.repeat(E1, 9, axis=0), np.full(9, reward))
        windows.append(learner._window)
    first, second = windows
    return float(np.linalg.norm(first.average - second.average)) * first.size / 2 / first.step


def releases_of_one_window() -> float:
    """Opening the next window fails, a person comes, and again: different thetas of one noise."""
    learner: Any = bandit(0, policy="greedy")
    while learner.rounds < 2000:
        decisions = learner.decide_many(np.tile(E1, (learner.rounds_until_release, 1, 1)))
        learner.learn_many(list(decisions)[3:], np.full(len(decisions) - 3, 0.5))
    estimator, shown = type(learner._estimator), set[bytes]()
    before = learner.theta.tobytes()

    def fails(*_: Any) -> Any:
        raise MemoryError

    original = estimator.open
    estimator.open = fails
    try:
        for each in (0, 1, 2):
            with contextlib.suppress(MemoryError):
                learner.decide(E1)
            shown.add(learner.theta.tobytes())
            with contextlib.suppress(MemoryError):
                learner.learn(decisions[each], 1.0)
    finally:
        estimator.open = original
    learner.decide(E1)
    shown.add(learner.theta.tobytes())
    return float(len(shown - {before}))


def length_of_the_next_window() -> float:
    """When the policy changes next, as everybody sees; one person's reward is 1 or -1."""

    def run(neighbour: int, seed: int) -> float:
        learner = bandit(seed, epsilon=1.0)
        learner.learn(learner.decide(E1), (1.0, -1.0)[neighbour])
        learner.decide_many(np.zeros((learner.rounds_until_release, 1, DIM)))
        return float(learner.rounds_until_release)

    return proved(*both(run, 100), delta=DELTA)


def others_who_lose_their_reward() -> float:
    """One person's reward is no number; how many of the nine others' rewards are lost."""
    learner = bandit(0)
    decisions = learner.decide_many(np.zeros((10, 1, DIM)))
    rewards = np.full(10, 0.5)
    rewards[3] = math.nan
    try:
        refused = learner.learn_many(decisions, rewards)
    except ValueError:
        refused = 10
    return float(refused - 1)


MUTANTS = [
    audited(
        "contributions ignored by a window",
        "LinearBandit, joint",
        "A window's noise is for one row, whatever a person may contribute to it.",
        "linear bandit, three rounds of one user",
        (
            Edit(
                "bandits.estimators:InformationWeighted.open",
                "sensitivity(self.holdout, self.people)",
                "sensitivity(self.holdout, type(self.people)(rounds=1))",
            ),
        ),
        runs=300,
    ),
    Mutant(
        "two windows share a row",
        "LinearBandit, joint",
        "Nobody remembers that a decision has had its reward: it enters one window after another.",
        "audit",
        EPSILON,
        a_row_in_four_windows,
        (Edit("bandits.learner:Bandit.learn", "self._rewarded.add(t)", "pass"),),
    ),
    Mutant(
        "a row weighs too much",
        "LinearBandit, joint",
        "Rows that are long in the window's coordinates are not weighed down.",
        "sensitivity",
        1.0,
        longest_row,
        (
            Edit(
                "least_squares.clipping:weight_and_parts",
                "weight = 1 / np.maximum(square, 1.0)",
                "weight = 1 / (1.0 + 0 * square)",
            ),
        ),
        unit="of the booked move",
    ),
    Mutant(
        "the count is not priced",
        "LinearBandit, joint",
        "Count and sum of rewards are left out of the sensitivity: 4% too little noise.",
        "sensitivity",
        1.0,
        a_row_that_changes_windows,
        (
            Edit(
                "bandits.estimators:InformationWeighted.open",
                "sensitivity(self.holdout, self.people)",
                "math.sqrt(8)",
            ),
        ),
        unit="of the booked move",
        tried="linear bandit, reward in another window",
    ),
    Mutant(
        "residual taken for 1 in a gradient",
        "LinearBandit, joint",
        "Gradient steps: the size of a residual and the replacement's factor 2 are left out.",
        "sensitivity",
        1.0,
        averaged_steps,
        (
            Edit(
                "bandits.descent:Descent.sensitivity",
                "step * move",
                "step",
            ),
        ),
        unit="of the booked move",
        attack="linear bandit sgd",
    ),
    Mutant(
        "steps beyond the window's length",
        "LinearBandit, joint",
        "Gradient steps go on after the window is full, and all of them count.",
        "sensitivity",
        1.0,
        rows_beyond_the_window,
        (
            Edit(
                "bandits.descent:DescentWindow._fold",
                "room = self.size - self.taken",
                "room = len(rows)",
            ),
        ),
        unit="of the weight of a last row",
    ),
    Mutant(
        "a turn in two steps",
        "LinearBandit, joint",
        "The release is shown before the next window is open: after a failure it is made again.",
        "state",
        1.0,
        releases_of_one_window,
        (
            Edit(
                "bandits.linear:LinearBandit._turned",
                "window, ledger = self._opened(belief, ledger, size)",
                "self._belief = belief\n    window, ledger = self._opened(belief, ledger, size)",
            ),
        ),
        unit="releases of one noise",
    ),
    audited(
        "noise drawn at the release",
        "LinearBandit, joint",
        "The window's sum is exact until it is released: a stolen state shows it.",
        "snapshot of a window",
        (
            Edit(
                "privacy.accumulator:NoisySum.__init__",
                "self.noise.gaussian(scale, dim, self._spacing) if scale else np.zeros(dim)",
                "np.zeros(dim)",
            ),
            Edit(
                "bandits.estimators:WeightedWindow.close",
                "released = self.total.publish()",
                "released = (self.total.publish()\n"
                "        + self.noise.gaussian(std, len(self.total._value)))",
            ),
        ),
        runs=200,
    ),
    Mutant(
        "window length by private values",
        "LinearBandit, joint",
        "The next window is one decision longer if the last residual was positive.",
        "audit",
        1.0,
        length_of_the_next_window,
        (
            Edit(
                "bandits.linear:LinearBandit._size",
                "return self._schedule.size(",
                "more = int(self._window is not None and self._window._terms[0][-1] > 0)\n"
                "    return more + self._schedule.size(",
            ),
        ),
    ),
    Mutant(
        "an exception that tells",
        "LinearBandit, joint",
        "One reward that is refused makes the whole batch fail.",
        "trace",
        0.0,
        others_who_lose_their_reward,
        (
            Edit(
                "bandits.learner:Bandit.learn_many",
                "taken = int(fine.sum())",
                'if not fine.all():\n            raise ValueError("a reward was refused")\n'
                "        taken = int(fine.sum())",
            ),
        ),
        unit="people",
    ),
    audited(
        "reward forgotten in |v|^2",
        "ContinualLinUCB",
        "Noise for |phi|^2 <= 1 where rows are [phi; y] with |v|^2 <= 2.",
        "continual linucb blt",
        (
            Edit(
                "bandits.baselines.continual:ContinualLinUCB.__init__",
                "sensitivity=math.sqrt(2) * 2",
                "sensitivity=math.sqrt(2)",
            ),
        ),
        runs=300,
    ),
]
