"""Locally private linear regression: every person reports once, privately, from the device.

Chen, Li, Rakhlin, Simchi-Levi (2025).

    paper        Algorithms 2, 3       Algorithm 9        Algorithm 8
    here         information_weighted  known_covariates   descent

    paper (8)    theta_(k)   K         N          R                 g_t
    here         theta       batches   per batch  PREDICTION_BOUND  gradients

Which question a person answers is decided by their place in a public random order, never by their
data; where reports are shuffled, by a private coin.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array
from discreet.local.report import Answers, BatchSum, pieces, report_many
from discreet.local.server import report_release, window_release
from discreet.local.state import PublicState
from discreet.privacy import BallChannel, IntervalChannel
from discreet.regression.base import Estimate, Problem
from discreet.regression.information import information_matrix
from discreet.regression.local_server import Server

PREDICTION_BOUND = 1.0  # inside a gradient: true predictions are labels' means, within the bound
Rows = NDArray[np.int64]


def information_weighted(problem: Problem) -> Estimate:
    """Phases of reports: each phase's whitening, centre and clip come from the phases before.

    Residuals beyond the clip are cut, which is consistent where errors are about symmetric. Where
    reports show a tail, which may be one-sided, or where residuals are about as long as labels,
    labels are asked for as they are: nothing is cut.
    """
    (n, d) = problem.X.shape
    return _run(problem, Server(d, n, **_promised(problem)))


def known_covariates(problem: Problem) -> Estimate:
    """Phases in which nobody reports a Gram term: it is known from `public_X`."""
    if problem.public_X is None:
        raise ValueError("known_covariates needs public_X; use information_weighted without it")
    budget = problem.budget
    (n, d) = problem.X.shape
    k = budget.contributions
    U = information_matrix(
        problem.public_X, gamma=math.inf, lam=max(1.0, k / budget.epsilon) / math.sqrt(n)
    )
    server = Server(d, n, public_X=problem.public_X, whitening=U, **_promised(problem))
    return _run(problem, server)


def descent(problem: Problem) -> Estimate:
    """Batched gradient steps without projection: the error does not grow with the dimension.

    After K steps of size 1 the bias of a prediction is at most about .43/sqrt(K) for the worst
    spectrum, and its noise at most (PREDICTION_BOUND + 1) s K/sqrt(n) for channels of standard
    deviation s: K balances them.
    """
    (n, d) = problem.X.shape
    budget = problem.budget
    channel = BallChannel(d, budget.epsilon, contributions=budget.contributions)
    # Without noise the error of a mean, about 1/sqrt(n / K), takes its place.
    noise = max((PREDICTION_BOUND + 1) * channel.std, 1.0)
    K = min(n, max(1, round((0.43**2 * n / noise**2) ** (1 / 3))))
    theta = np.zeros(d)
    for k, batch in enumerate(np.array_split(problem.rng.permutation(n), K), start=1):
        book(problem, f"batch {k}", channel)
        total = np.zeros(d)
        # |<phi, theta>| <= |theta|, which the reports before have made public.
        bound = min(PREDICTION_BOUND, float(np.linalg.norm(theta)))
        for piece in pieces(len(batch), d):
            rows = batch[piece]
            X = problem.X[rows]
            errors = np.clip(X @ theta, -bound, bound) - problem.y[rows]
            # |phi| <= 1 and |prediction - y| <= bound + 1: their product over bound + 1 is <= 1.
            gradients = X * (errors / (bound + 1))[:, None]
            total += channel.privatize(gradients, problem.noise, clip=True).sum(axis=0)
        theta = theta - (bound + 1) * total / len(batch)
    return Estimate(theta, None)


def _run(problem: Problem, server: Server) -> Estimate:
    """Both sides of the protocol, for people in public random order."""
    order = problem.rng.permutation(len(problem.X))
    start = 0
    while not server.done:
        state = server.ask()
        problem.ledger.spend(window_release(state, problem.noise))
        people = order[start : start + server.size]
        start += len(people)
        if server.crowd is None:
            # Their place in the order is the public coin: as many as each question wants.
            coins = (np.arange(len(people)) + 0.5) / max(len(people), 1)
            server.take_answers(_answers(problem, state, people, coins))
        else:
            # Which question a person answers is known to nobody: the coin is private. `rng`, which
            # may be public, says who is in which batch and nothing more: a person whose question is
            # known hides only among those who answer the same one.
            coins = problem.noise.uniform(len(people))
            answers = _answers(problem, state, people, coins)
            server.aggregate(BatchSum.empty(state).plus_answers(answers, state))
        server.close()
    return server.estimate()


def _answers(problem: Problem, state: PublicState, people: Rows, coins: Array) -> Iterator[Answers]:
    for piece in pieces(len(people), state.dim):
        rows = people[piece]
        X, y = problem.X[rows], problem.y[rows]
        yield from report_many(X, y, state, coins[piece], problem.noise)


def _promised(problem: Problem) -> dict[str, Any]:
    """What the server of a problem is told about privacy."""
    budget = problem.budget
    promised: dict[str, Any] = {
        "epsilon": budget.epsilon,
        "contributions": budget.contributions,
    }
    if problem.crowd is None:
        return promised
    if budget.contributions > 1:
        raise ValueError(
            "trust='shuffled' covers one report of a person in a batch, and rows go to batches at "
            "random: contributions must be 1 here; devices may send more, one in each window"
        )
    return {**promised, "delta": budget.delta, "crowd": problem.crowd}


def book(problem: Problem, scope: str, channel: BallChannel | IntervalChannel) -> None:
    """A person is in one scope and reports once there; k rounds of one person run at epsilon/k."""
    problem.ledger.spend(report_release(channel, scope, problem.noise))
