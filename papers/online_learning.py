"""Agarwal and Singh (2017): Tables 1 and 2 as curves, and the printed constants.

paper   T        N   epsilon   lambda          eta, gamma        L~ (Algorithm 2)
here    rounds   n   epsilon   Laplace scale   `printed_rates`   Tree(2, no subtraction, padded)
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.domains import Ball, Cube, Domain, Simplex
from discreet.environments.losses import expert_losses
from discreet.environments.playing import LossLearner, play_losses
from discreet.experiments.measure import Found, Measurement, grid
from discreet.online import FTRL, AdversarialBandit, BarrierBandit
from discreet.online.adversarial import Exp2
from discreet.online.barrier import Scrible
from discreet.privacy import SeededNoise, Tree
from papers.exhibit import (
    Exhibit,
    Line,
    Panel,
    Paper,
    Row,
    compare,
    curve,
    digits,
    judge_slope,
    shown,
)
from papers.linear_losses import linear_losses
from papers.online_learning_constants import (
    exploration,
    printed_noise,
    printed_rates,
    tree_attack,
)
from papers.slopes import slope

WORLDS = {"experts": "experts", "sphere": "sphere", "cube": "cube"}
GROWTH = {"experts": 1.0, "sphere": 1.0, "cube": 1.0}  # of the surcharge with N, Corollary 3.2
PAPERS_TREE = Tree(branching=2, balanced=False, padded=True)
N = 10
SIZES = (10, 100, 1000)
BANDITS = {"arms": "arms (Theorem 4.1)", "points": "points of the ball (Theorem 4.5)"}


def _rounds(quick: bool) -> tuple[int, ...]:
    return (10**3, 10**4, 10**5) if quick else (10**3, 10**4, 10**5, 10**6)


def _bandit_rounds(quick: bool) -> tuple[int, ...]:
    return (10**4, 10**5) if quick else (10**4, 10**5, 10**6)


def _others(quick: bool) -> tuple[tuple[int, float, tuple[int, ...]], ...]:
    """Other N and epsilon, and the rounds in which there is something to learn."""
    small = (10**3, 10**4, 10**5)
    few = ((N, 10.0, small), (100, 10.0, small))
    return few if quick else (*few, (N, 0.1, (10**4, 10**5, 10**6)))


# -- cells ----------------------------------------------------------------------------------------


def full_information(
    *, world: str, rounds: int, n: int, epsilon: float, how: str, seed: int
) -> Mapping[str, float]:
    """Regret. how: "ours" (delta = 10^-6), "pure" (ours, delta = 0), or "paper" (pure)."""
    domain, losses = _known_losses(world, rounds, n, seed)
    paper = {"rate": "fixed", "mechanism": PAPERS_TREE} if how == "paper" else {}
    learner = FTRL(domain, rounds, epsilon, 1e-6 if how == "ours" else 0.0,
                   noise=SeededNoise(seed), **paper)  # type: ignore[arg-type] # fmt: skip
    total = losses.sum(axis=0)
    suffered = float(np.einsum("ij,ij->", losses, learner.run(losses)))
    return {"value": suffered - float(total @ domain.linear_minimizer(total))}


def _known_losses(world: str, rounds: int, n: int, seed: int) -> tuple[Domain, Array]:
    if world == "experts":
        return Simplex(n), expert_losses("gap", rounds, n, seed=seed)
    if world == "sphere":
        return Ball(n), linear_losses("l2", rounds, n, seed=seed)
    return Cube(n), linear_losses("l1", rounds, n, seed=seed)


def bandit(*, kind: str, rounds: int, epsilon: float, how: str, seed: int) -> Mapping[str, float]:
    """Regret of arms or points. how: "local", "central" (ours), or "paper" (local too)."""
    return {"value": (_arms if kind == "arms" else _points)(rounds, epsilon, how, seed)}


class _NoisyReports:
    """The paper's reduction: a plain bandit that is told its loss plus <Z_t, decision>.

    For arms the decision is a unit vector, and the noise of its entry is a number of its own.
    """

    def __init__(self, learner: Exp2 | Scrible, noise: Array) -> None:
        self.learner = learner
        self.noise = noise  # (rounds,) for arms, (rounds, d) for points
        self.rounds = 0

    def decide(self) -> Any:
        return self.learner.decide()

    def learn(self, decision: Any, loss: float) -> None:
        z = self.noise[self.rounds]
        self.rounds += 1
        self.learner.learn(decision, loss + float(z if z.ndim == 0 else z.dot(decision.point)))


def _arms(rounds: int, epsilon: float, how: str, seed: int) -> float:
    losses = expert_losses("gap", rounds, N, gap=0.1, seed=seed)
    learner: LossLearner
    if how == "paper":
        rate, explore = printed_rates(rounds, N, 1 / epsilon)
        plain = Exp2(N, rate=rate, explore=explore, middle=0.0, seed=seed)
        # Losses in [0, 1] move by 1: here the printed lambda = 1/epsilon is enough.
        noise = np.random.default_rng([seed, 7]).laplace(scale=1 / epsilon, size=rounds)
        learner = _NoisyReports(plain, noise)
    else:
        learner = AdversarialBandit(N, rounds, epsilon, trust=how, seed=seed,
                                    noise=SeededNoise(seed))  # fmt: skip
    suffered = play_losses(learner, lambda t, d: losses.item(t, d.action), rounds)
    return float(suffered.sum() - losses.sum(axis=0).min())


def _points(rounds: int, epsilon: float, how: str, seed: int) -> float:
    """Losses z_t u, u a random direction, z_t = 1 with probability 3/4, else -1; d = 5."""
    d = 5
    rng = np.random.default_rng([seed, 1])
    direction = rng.normal(size=d)
    direction /= np.linalg.norm(direction)
    signs = np.where(rng.random(rounds) < 0.75, 1.0, -1.0)
    learner: LossLearner
    if how == "paper":
        scale = math.sqrt(d) / epsilon  # lambda = |Y|_1/epsilon, printed; a fair scale is twice it
        eta = math.sqrt(math.log(rounds) / (2 * d**2 * rounds * (1 + scale**2 * d)))
        plain = Scrible(Ball(d), rate=eta, seed=seed)
        noise = np.random.default_rng([seed, 7]).laplace(scale=scale, size=(rounds, d))
        learner = _NoisyReports(plain, noise)
    else:
        learner = BarrierBandit(Ball(d), rounds, epsilon, trust=how, seed=seed,
                                noise=SeededNoise(seed))  # fmt: skip
    suffered = play_losses(
        learner, lambda t, decision: signs.item(t) * float(direction.dot(decision.point)), rounds
    )
    return float(suffered.sum() + abs(signs.sum()))


# -- exhibits -------------------------------------------------------------------------------------


def cells(quick: bool) -> list[Measurement]:
    """All of them."""
    few = 4 if quick else 10
    sizes = SIZES[:2] if quick else SIZES
    return [
        *grid(full_information, seeds=few, world=tuple(WORLDS), rounds=_rounds(quick), n=(N,),
              epsilon=(1.0, math.inf), how=("ours", "pure", "paper")),
        *grid(full_information, seeds=few, world=tuple(WORLDS), rounds=(10**4,), n=sizes[1:],
              epsilon=(1.0, math.inf), how=("pure", "paper")),
        *grid(full_information, seeds=few, world=tuple(WORLDS), rounds=(10**5,), n=(N,),
              epsilon=(0.1,), how=("pure",)),
        *(cell for n, epsilon, rounds in _others(quick)
          for cell in grid(full_information, seeds=few, world=tuple(WORLDS), rounds=rounds, n=(n,),
                           epsilon=(epsilon, math.inf), how=("pure",))),
        *grid(bandit, seeds=3 if quick else 6, kind=tuple(BANDITS), rounds=_bandit_rounds(quick),
              epsilon=(1.0,), how=("local", "central", "paper")),
        *grid(tree_attack, seeds=1, rounds=(2**10, 2**20), epsilon=(1.0,)),
    ]  # fmt: skip


def exhibits(found: Found, quick: bool) -> list[Exhibit]:
    """Tables 1 and 2, and the constants."""
    return [
        _regret(found, quick),
        _free(found, quick),
        _sizes(found, quick),
        _bandits(found, quick),
        _printed_bounds(found, quick),
        printed_noise(found),
        exploration(),
    ]


def _extra(
    found: Found, world: str, rounds: int, how: str, n: int = N, epsilon: float = 1.0
) -> Array:
    """Private minus plain regret, seed by seed."""
    both = [found.over(full_information, world=world, rounds=rounds, n=n, epsilon=e, how=how)
            for e in (epsilon, math.inf)]  # fmt: skip
    return np.asarray(both[0] - both[1])


def _regret(found: Found, quick: bool) -> Exhibit:
    rows = []
    panels = []
    T = _rounds(quick)
    for world, title in WORLDS.items():

        def runs(how: str, epsilon: float = 1.0, world: str = world) -> list[Array]:
            return [found.over(full_information, world=world, rounds=t, n=N, epsilon=epsilon,
                               how=how) for t in T]  # fmt: skip

        paper = runs("paper")
        pure = runs("pure")
        ours = runs("ours")
        rows += [
            Row(f"{title}, T = {t:,}", shown(a), shown(b), compare(b, a),
                f"with delta = 1e-6: {shown(c)}")
            for t, a, b, c in zip(T, paper, pure, ours, strict=True)
        ]  # fmt: skip
        panels.append(Panel(title, "rounds", "regret", (
            curve("the paper's tree and rate", T, paper, "theirs"),
            curve("ours, pure", T, pure, "ours"),
            curve("ours, delta = 1e-6", T, ours),
            curve("ours without privacy", T, runs("pure", math.inf), "plain"),
        )))  # fmt: skip
    return Exhibit(
        "Table 1: regret with full information",
        "pure epsilon-privacy with regret O(sqrt(T log N)) + O(N log N log^2 T/epsilon) for "
        "experts, and the like for sphere and cube (Corollary 3.2).",
        tuple(rows),
        "Regret at epsilon = 1, N = 10. Theirs is Algorithm 1 with its fixed rate and the binary "
        "tree of Algorithm 2, with as much noise as privacy takes (see the printed scale below). "
        "Ours is FTRL as it comes. Both are pure.",
        tuple(panels),
        "Bands are 95% intervals over seeds.",
    )


def _free(found: Found, quick: bool) -> Exhibit:
    rows = []
    panels = []
    T = _rounds(quick)
    flat = slope(T, [math.log(t) ** 2 for t in T])
    for world, title in WORLDS.items():
        extra = {how: [_extra(found, world, t, how) for t in T] for how in ("paper", "pure")}
        grows = {how: slope(T, runs) for how, runs in extra.items()}
        rows.append(Row(f"{title}: exponent of T", str(grows["paper"]), str(grows["pure"]),
                        judge_slope(grows["pure"], flat.value),
                        f"log^2 T has {flat} over these T, sqrt(T) 0.50"))  # fmt: skip
        rows.append(Row(f"{title}: surcharge at T = {T[-1]:,}", shown(extra["paper"][-1]),
                        shown(extra["pure"][-1]),
                        compare(extra["pure"][-1], extra["paper"][-1])))  # fmt: skip
        others = []
        for n, epsilon, rounds in _others(quick):
            runs = [_extra(found, world, t, "pure", n, epsilon) for t in rounds]
            late = slope(rounds[1:], runs[1:])
            where = f"N = {n}, epsilon = {epsilon:g}"
            flat_there = slope(rounds[1:], [math.log(t) ** 2 for t in rounds[1:]])
            values = ", ".join(f"{digits(float(run.mean()))} at {t:,}"
                               for t, run in zip(rounds, runs, strict=True))  # fmt: skip
            rows.append(
                Row(
                    f"{title}, {where}: exponent from T = {rounds[1]:,}",
                    str(flat_there),
                    str(late),
                    judge_slope(late, flat_there.value),
                    values,
                )
            )
            others.append(curve(f"ours, {where}", rounds, runs))
        panels.append(Panel(title, "rounds", "private minus plain regret", (
            curve("the paper's tree and rate", T, extra["paper"], "theirs"),
            curve("ours, pure", T, extra["pure"], "ours"),
            *others,
            Line("slope 1/2", T, [float(extra["pure"][0].mean()) * math.sqrt(t / T[0]) for t in T],
                 "bound"),
        )))  # fmt: skip
    return Exhibit(
        "Privacy for free: the surcharge does not grow like sqrt(T)",
        "the private term is separate from sqrt(T) and grows with log^2 T only (Theorem 3.1).",
        tuple(rows),
        "Regret at epsilon = 1 minus regret of the same learner without privacy on the same "
        "losses. It stays flat up to logarithms: the paper is right about that. Other "
        "N and epsilon have the same curve, later: it rises while T is too short to learn from at "
        "this N/epsilon. There theirs is the exponent of log^2 T.",
        tuple(panels),
        "A dotted line has slope 1/2.",
    )


def _sizes(found: Found, quick: bool) -> Exhibit:
    rows = []
    sizes = SIZES[:2] if quick else SIZES
    for world, title in WORLDS.items():
        by_n = [_extra(found, world, 10**4, "pure", n) for n in sizes]
        grows = slope(sizes, by_n)
        rows.append(Row(f"{title}: exponent of N in the surcharge", digits(GROWTH[world]),
                        str(grows), judge_slope(grows, GROWTH[world]),
                        "no regret exceeds that of not learning: the curve bends"))  # fmt: skip
        plain = found.mean(full_information, world=world, rounds=10**5, n=N, epsilon=math.inf,
                           how="pure")  # fmt: skip
        dear = found.over(full_information, world=world, rounds=10**5, n=N, epsilon=0.1, how="pure")
        near = _extra(found, world, 10**5, "pure")
        grows = slope((1.0, 10.0), (near, dear - plain))
        rows.append(Row(f"{title}: exponent of 1/epsilon", digits(1.0), str(grows),
                        judge_slope(grows, 1.0)))  # fmt: skip
    return Exhibit(
        "The surcharge against N and epsilon",
        "N log N/epsilon for experts, N/epsilon for sphere and cube (Table 1).",
        tuple(rows),
        "Pure privacy; N at T = 10,000, epsilon at T = 100,000.",
        theirs="theory",
    )


def _bandits(found: Found, quick: bool) -> Exhibit:
    rows = []
    panels = []
    T = _bandit_rounds(quick)
    for kind, title in BANDITS.items():
        runs = {how: [found.over(bandit, kind=kind, rounds=t, epsilon=1.0, how=how) for t in T]
                for how in ("paper", "local", "central")}  # fmt: skip
        theirs = runs["paper"][-1]
        rows += [
            Row(f"{title}, T = {T[-1]:,}, {how} trust", shown(theirs), shown(runs[how][-1]),
                compare(runs[how][-1], theirs))
            for how in ("local", "central")
        ]  # fmt: skip
        grows = slope(T, runs["local"])
        rows.append(Row(f"{title}: exponent of T, local trust", "0.50", str(grows),
                        judge_slope(grows, 0.5)))  # fmt: skip
        panels.append(Panel(title, "rounds", "regret", (
            curve("the paper's reduction", T, runs["paper"], "theirs"),
            curve("ours, local", T, runs["local"], "ours"),
            curve("ours, central", T, runs["central"]),
            Line("slope 1/2", T, [float(runs["local"][0].mean()) * math.sqrt(t / T[0]) for t in T],
                 "bound"),
        )))  # fmt: skip
    return Exhibit(
        "Table 2: regret of bandits",
        "sqrt(N T log N)/epsilon for arms, sqrt(T)/epsilon for linear bandits (Theorems 4.1, 4.5).",
        tuple(rows),
        "Ten arms, one better by .1; points of the ball in five dimensions; epsilon = 1. Theirs "
        "adds <Z, x> to the loss with the printed lambda, eta and gamma. Ours adds noise to the "
        "one number that is seen; that is local privacy too, and far less noise for points.",
        tuple(panels),
        "Bands are 95% intervals over seeds.",
    )


def _printed_bounds(found: Found, quick: bool) -> Exhibit:
    rows = []
    for t in _rounds(quick):
        log = math.log(t)
        scale = N * log / 1.0  # lambda of Corollary 3.2
        # D_Lap = E[max Z - min Z] over ceil(log2 T) draws of each coordinate, about 2 sqrt(2 ln N)
        # standard deviations; that of their sum is lambda sqrt(2 ceil(log2 T)).
        noise = 2 * math.sqrt(2 * math.log(N)) * scale * math.sqrt(2 * math.ceil(math.log2(t)))
        bound = math.sqrt(t * math.log(N)) + noise
        mine = found.over(full_information, world="experts", rounds=t, n=N, epsilon=1.0, how="pure")
        rows.append(Row(f"experts, T = {t:,}", digits(bound), shown(mine),
                        compare(mine, np.array([bound])),
                        "says nothing: the bound exceeds T" if bound > t else ""))  # fmt: skip
    return Exhibit(
        "What the bound of Theorem 3.1 says, and what happens",
        "regret at most sqrt(D_R sum |l|^2) + D_Lap.",
        tuple(rows),
        "The theorem with its own constants for ten experts at epsilon = 1, beside what our "
        "learner loses on one sequence. A bound is for the worst sequence; the table shows how far "
        "it is from a usual one.",
        theirs="bound",
        ours="measured",
    )


PAPER = Paper(
    "online-2017",
    "The price of differential privacy for online learning",
    "Agarwal and Singh (ICML 2017)",
    "The main claim holds: with full information privacy costs a term that hardly grows with the "
    "number of rounds. The printed noise does not give the printed epsilon, and better trees and "
    "rates lose several times less.",
    cells,
    exhibits,
)
