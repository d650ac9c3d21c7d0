"""Planted bugs in ProjectionFreeBandit and StreamingFrankWolfe."""

import math
from typing import Any

import numpy as np

from discreet.domains import Ball, Cube, LpBall
from discreet.online.projection_free import ProjectionFreeBandit
from discreet.optimization.directions import VertexDirection
from discreet.optimization.frank_wolfe import StreamingFrankWolfe
from discreet.privacy import Budget, SeededNoise, Tree
from discreet.privacy.gaussian import gaussian_epsilon, zcdp_epsilon
from discreet.privacy.toeplitz import noise_matrix
from mutants.kit import (
    DELTA,
    EPSILON,
    Edit,
    Mutant,
    audited,
    exact_mu,
)


def cost_of_sums(sums: Any, move: Any) -> float:
    """The exact epsilon of a running sum whose first row moves so; no later row costs more."""
    plan, length = sums._calibration, float(np.linalg.norm(move))
    if isinstance(plan.design, Tree):  # one node of each level
        if plan.accounting == "pure":
            return plan.design.depth * length / plan.release.scale
        mu = math.sqrt(plan.design.depth) * length / plan.release.scale
    else:  # sums of A x with noise B z
        B = noise_matrix(plan.design, sums.horizon)
        mu = exact_mu(B, np.full(sums.horizon, length), plan.release.scale)
    return gaussian_epsilon(mu, DELTA)


def rows_released(losses: tuple[float, float], people: int, dim: int, k: int) -> float:
    """One person's losses, all in one batch, are one or the other: how far sums move.

    The same coins and the same noise in both neighbours, so that the difference is the move.
    """
    seen, horizon = [], 400
    for loss in losses:
        bandit = ProjectionFreeBandit(
            Cube(dim), horizon, EPSILON, DELTA, contributions=k, seed=0, noise=SeededNoise(1)
        )
        sums = bandit._feedback.sums
        size, kept, rows = bandit.batch_size, sums.add, []

        def add(row: Any, rows: Any = rows, kept: Any = kept) -> Any:
            rows.append(np.array(row))
            return kept(row)

        sums.add = add
        decisions = [bandit.decide() for _ in range(size * math.ceil(people / size))]
        rows.clear()  # of batches in which nothing came: losses come late, into one batch
        for each in decisions[:people]:
            along = float(each.choice.direction[0]) > 0
            bandit.learn(each, loss if along else losses[0] + losses[1] - loss)
        bandit.decide()  # the release
        seen.append(rows[0])
    return cost_of_sums(sums, seen[1] - seen[0])


def many_rounds_in_one_batch() -> float:
    return rows_released((0.0, 1.0), people=25, dim=1, k=25)


def one_term() -> float:
    return rows_released((0.0, 1.0), people=1, dim=9, k=1)


def longest_moment() -> float:
    """The two moments furthest apart that rows of the first rounds can give, in epsilon."""
    learner = StreamingFrankWolfe(
        Ball(1), 50, EPSILON, DELTA, gradient_bound=0.1, mechanism="blt", noise=SeededNoise(1)
    )
    longest = 0.0
    for t in range(1, 9):
        labels = np.linspace(-1, 1, 41)
        found = [float(learner._moment(np.ones(1), float(y), t)[0]) for y in labels]
        longest = max(longest, max(found) - min(found), 2 * max(np.abs(found)))  # rows x and -x
        learner.learn([1.0], (-1.0) ** t)
    return cost_of_sums(learner._direction._sums, longest)


def overlong_by_underflow() -> float:
    """|g|_q over clip, for q = 1001 where powers of small entries are zero."""
    learner = StreamingFrankWolfe(
        LpBall(1.001, 10), 100, 1.0, DELTA, mechanism="generalized-gaussian", noise=SeededNoise(0)
    )
    longest = 0.0
    for y in (0.02, 0.1, 0.3, 0.5, 1.0):
        with np.errstate(all="ignore"):
            g = learner._moment(np.full(10, 0.4), y, 1)
        longest = max(longest, float(np.abs(g).max()) / learner.bound)  # |g|_inf <= |g|_q
    return longest


def nodes_of_the_generalised_tree() -> float:
    """rho of all levels that a round is in, for a move of 2 clip; what zCDP makes of it."""
    learner = StreamingFrankWolfe(
        LpBall(1.1, 40), 64, 1.0, DELTA, mechanism="generalized-gaussian", noise=SeededNoise(0)
    )
    sums: Any = learner._direction._sums
    q, r = 11.0, max(2.0, min(11.0, math.log(40)))
    moved = 2 * learner.bound * 40 ** (1 / r - 1 / q)
    plan = sums._calibration
    return zcdp_epsilon(plan.design.depth * (r - 1) * moved**2 / (2 * plan.release.scale**2), DELTA)


def all_choices() -> float:
    """What the choices of a whole run cost together: each has rho = epsilon_t^2/8."""
    choice = VertexDirection(8, 500, Budget(1.0, DELTA), bound=1.0, noise=SeededNoise(0))
    rounds = [t for t in range(1, 501) if choice.due(t)]
    rho = sum((2 * 2.0 / choice.scale(t)) ** 2 / 8 for t in rounds)  # entries move by 2 bound
    return zcdp_epsilon(rho, DELTA)


def every_choice() -> float:
    """What 30 choices cost together if there is one in every round: rho = epsilon_t^2/8 each."""
    budget, rounds = Budget(1.0, DELTA), range(1, 31)
    choice = VertexDirection(8, 30, budget, bound=1.0, noise=SeededNoise(0), choices=30)
    # Entries move by 2 bound, so epsilon_t = 2 D/scale with D = 2.
    return zcdp_epsilon(sum((2 * 2.0 / choice.scale(t)) ** 2 / 8 for t in rounds), DELTA)


MUTANTS = [
    Mutant(
        "contributions k in one batch",
        "ProjectionFreeBandit",
        "k rounds of a person are priced as k different rows of the sum; they may be one row.",
        "sensitivity",
        EPSILON,
        many_rounds_in_one_batch,
        (
            Edit(
                "online.projection_free:_sums_of_terms",
                "sums = running(k * term)",
                "sums = PrefixSum(releases, dim, budget, sensitivity=term, noise=noise, "
                "bound=rounds * term)",
            ),
        ),
        tried="projection-free bandit, two rounds of one user",
    ),
    Mutant(
        "the factor n of n/zeta",
        "ProjectionFreeBandit",
        "Noise for terms f u / zeta, where they are n f u / zeta.",
        "sensitivity",
        EPSILON,
        one_term,
        (
            Edit(
                "online.projection_free:ProjectionFreeBandit._parts",
                "term = n / radius * M",
                "term = 1 / radius * M",
            ),
        ),
        attack="projection-free bandit",
    ),
    audited(
        "clip for 2 clip",
        "StreamingFrankWolfe, p > 1",
        "Two moments of length clip are taken to be clip apart.",
        "streaming frank-wolfe blt",
        (
            Edit(
                "optimization.frank_wolfe:StreamingFrankWolfe._sums",
                "sensitivity=2 * bound,",
                "sensitivity=bound,\n            bound=bound,",
            ),
        ),
    ),
    audited(
        "moments that are not clipped",
        "StreamingFrankWolfe, p > 1",
        "A moment enters the sum as long as it is, and rows are no longer checked.",
        "streaming frank-wolfe blt",
        (
            Edit(
                "optimization.frank_wolfe:StreamingFrankWolfe._moment",
                "return clipped(g, self._bound, self._norm)",
                "return g",
            ),
            Edit(
                "optimization.frank_wolfe:StreamingFrankWolfe._sums",
                "sensitivity=2 * bound,",
                "sensitivity=2 * bound,\n            bound=1e9,",
            ),
        ),
        runs=200,
    ),
    audited(
        "contributions ignored by a stream",
        "StreamingFrankWolfe, p > 1",
        "Two rows of one person are paid for as one.",
        "streaming frank-wolfe blt, two rows of one user",
        (
            Edit(
                "optimization.frank_wolfe:StreamingFrankWolfe._sums",
                "self.budget,",
                "Budget(self.epsilon, self.delta),",
            ),
        ),
        runs=300,
    ),
    Mutant(
        "gradients clipped, not g",
        "StreamingFrankWolfe, p > 1",
        "Each gradient is cut and g = (t+1) grad - t grad' is not; rows are no longer checked.",
        "sensitivity",
        EPSILON,
        longest_moment,
        (
            Edit(
                "optimization.frank_wolfe:StreamingFrankWolfe._moment",
                "return clipped(g, self._bound, self._norm)",
                "return (t + 1) * clipped(x * slope(now, y), self._bound, self._norm)"
                " - t * clipped(x * slope(before, y), self._bound, self._norm)",
            ),
            Edit(
                "optimization.frank_wolfe:StreamingFrankWolfe._sums",
                "sensitivity=2 * bound,",
                "sensitivity=2 * bound,\n            bound=1e9,",
            ),
        ),
        attack="streaming frank-wolfe blt, many rounds",
    ),
    Mutant(
        "l_q clip underflow",
        "StreamingFrankWolfe, p > 1",
        "|g|_q is computed without scaling: powers of small entries vanish, nothing is cut.",
        "sensitivity",
        1.0,
        overlong_by_underflow,
        (Edit("optimization.problem:norm", "size = size / top", "top = 1.0"),),
        unit="of clip",
    ),
    Mutant(
        "a level too few",
        "StreamingFrankWolfe, p > 1",
        "The generalised Gaussian tree pays for log2 T levels; a round is in one more.",
        "ledger",
        1.0,
        nodes_of_the_generalised_tree,
        (
            Edit(
                "privacy.prefix:_generalized",
                "design.sensitivity(budget.contributions, pure=False)",
                "math.sqrt(design.depth - 1)",
            ),
        ),
        attack="streaming frank-wolfe generalised gaussian",
    ),
    audited(
        "a row added for a row replaced",
        "StreamingFrankWolfe, windows",
        "A window is paid for as if a row could only come or go: half of what a replacement moves.",
        "streaming frank-wolfe windows",
        (
            Edit(
                "optimization.windows:DenseWindows._release",
                "C * math.sqrt(5 + COUNT**2)",
                "C / 2 * math.sqrt(5 + COUNT**2)",
            ),
        ),
    ),
    audited(
        "contributions ignored by a window",
        "StreamingFrankWolfe, windows",
        "Three rows of one person in one window are paid for as one.",
        "streaming frank-wolfe windows, three rows of one user",
        (
            Edit(
                "optimization.windows:DenseWindows._release",
                "* self.budget.contributions",
                "* 1.0",
            ),
        ),
        runs=300,
    ),
    audited(
        "gradients of a window that are not shortened",
        "StreamingFrankWolfe, windows",
        "A gradient enters the sum as long as it is.",
        "streaming frank-wolfe windows",
        (
            Edit(
                "optimization.windows:DenseWindows.term",
                "short = min(1.0, self.bound / max(size, 1e-200))",
                "short = 1.0",
            ),
        ),
        runs=300,
    ),
    audited(
        "signs left without noise",
        "StreamingFrankWolfe, p = 1",
        "Which coordinate is drawn at random, its sign is that of the exact sum.",
        "streaming frank-wolfe p=1",
        (
            Edit(
                "optimization.directions:VertexDirection._choose",
                "against = coin < 1 / (1 + math.exp(-2 * abs(float(total[j])) / scale))",
                "against = True",
            ),
        ),
        runs=1500,
    ),
    audited(
        "vertices from moments that are not clipped",
        "StreamingFrankWolfe, p = 1",
        "A moment moves the scores as far as it is long.",
        "streaming frank-wolfe simplex",
        (
            Edit(
                "optimization.frank_wolfe:StreamingFrankWolfe._moment",
                "return clipped(g, self._bound, self._norm)",
                "return g",
            ),
        ),
        runs=1000,
    ),
    Mutant(
        "every choice spends the whole budget",
        "StreamingFrankWolfe, p = 1",
        "rho is not divided by the number of choices.",
        "ledger",
        1.0,
        all_choices,
        (
            Edit(
                "optimization.directions:VertexDirection.epsilon",
                "math.sqrt(8 * self._rho / self.choices)",
                "math.sqrt(8 * self._rho)",
            ),
        ),
        attack="streaming frank-wolfe p=1, one choice of four",
    ),
    Mutant(
        "steps of every round do not add up to the budget",
        "StreamingFrankWolfe, p = 1",
        "epsilon_t = sqrt(8 rho/t) without the harmonic number: the sum of 1/t is not 1.",
        "ledger",
        1.0,
        every_choice,
        (
            Edit(
                "optimization.directions:VertexDirection.epsilon",
                "math.sqrt(8 * self._rho / (t * self._harmonic))",
                "math.sqrt(8 * self._rho / t)",
            ),
        ),
    ),
]
