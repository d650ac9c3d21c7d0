"""Planted bugs in SparseBandit."""

from typing import Any

import numpy as np

from discreet.bandits.sparse import SparseBandit
from discreet.links import link
from discreet.optimization.sparse_windows import WindowArms
from discreet.privacy import Budget, SeededNoise
from discreet.privacy.gaussian import zcdp_epsilon
from mutants.kit import DELTA, EPSILON, Edit, Mutant, audited

CLIP = 0.2


def arms(epsilon: float, noise: SeededNoise, dim: int = 1, k: int = 1) -> WindowArms:
    return WindowArms(
        2,
        dim,
        400,
        Budget(epsilon, DELTA, k),
        forced=20,
        link=link("identity"),
        bound=CLIP,
        radius=1.0,
        noise=noise,
    )


def largest_move() -> float:
    """How far one person's reward moves the sums of the arm, against the booked 2 bounds."""
    moments = []
    for reward in (-1.0, 1.0):
        learner = SparseBandit(2, 3, 400, EPSILON, DELTA, forced=4, seed=0, noise=SeededNoise(2))
        learner.learn(learner.decide([1.0, -1.0, 0.5]), reward)
        moments.append(learner._arms._moment.copy())
    return float(np.abs(moments[1] - moments[0]).max()) / (2 * learner.bound)


def all_of_a_window() -> float:
    """What was booked for one window: choices and measurements of the same rows. Claim 1."""
    made: Any = arms(1.0, SeededNoise(4), 8)
    made._ledger._limit = np.inf  # the detector adds up by itself
    made.take(0, np.ones(8), 0.5)
    made.advance(made.ends[0])
    return zcdp_epsilon(sum(each.rho for each in made._ledger.releases), DELTA)


def rounds_of_one_person() -> float:
    """Three rows of one person, all rewards 1 or all -1: how far an entry moves, against booked."""
    moments, booked = [], 0.0
    for reward in (-1.0, 1.0):
        made: Any = arms(1.0, SeededNoise(5), 8, k=3)
        for _ in range(3):
            made.take(0, np.ones(8), reward)
        moments.append(made._moment.copy())
        made.advance(made.ends[0])
        booked = made._ledger.releases[0].sensitivity
    return float(np.abs(moments[1] - moments[0]).max()) / booked


MUTANTS = [
    audited(
        "Gumbel noise of the wrong sign",
        "SparseBandit",
        "Entries are the greatest of score - Gumbel.",
        "sparse bandit selection",
        (
            Edit(
                "optimization.sparse_windows:WindowArms._peel",
                "scores = scores - scale * np.log",
                "scores = scores + scale * np.log",
            ),
        ),
    ),
    Mutant(
        "unclipped pull",
        "SparseBandit",
        "Residuals enter the sums of their arm uncut.",
        "sensitivity",
        1.0,
        largest_move,
        (
            Edit(
                "optimization.sparse_windows:WindowArms.take",
                "pull = min(max(residual, -self.bound), self.bound)",
                "pull = residual",
            ),
        ),
        unit="of the booked move",
        attack="sparse bandit measurement",
    ),
    audited(
        "only arms that were chosen release",
        "SparseBandit",
        "An arm without rows stands still: who was in the window shows.",
        "sparse bandit, arm switch",
        (
            Edit(
                "optimization.sparse_windows:WindowArms._release",
                "_told=measured,",
                "_told=measured * self._curvature.any(axis=1)[:, None],",
            ),
        ),
    ),
    Mutant(
        "measurements spend what choices spent",
        "SparseBandit",
        "Selections and measurements of one window each take the whole rho.",
        "ledger",
        1.0,
        all_of_a_window,
        (
            Edit(
                "optimization.sparse_windows:WindowArms._release",
                "left = 1 - SELECTING",
                "left = 1.0",
            ),
        ),
    ),
    Mutant(
        "contributions ignored by choices",
        "SparseBandit",
        "Gumbel noise for one row of a person who has three.",
        "sensitivity",
        1.0,
        rounds_of_one_person,
        (
            Edit(
                "optimization.sparse_windows:WindowArms._select",
                "2 * self.bound * self.budget.contributions",
                "2 * self.bound",
            ),
        ),
        unit="of the booked move",
        attack="sparse bandit selection, three rounds of one user",
    ),
]
