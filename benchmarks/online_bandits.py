"""Private bandits with losses: regret beside the same learner without privacy, and speed.

    OMP_NUM_THREADS=1 python benchmarks/online_bandits.py [short] [shifting] [arms] [points]
                                                          [speed] [--seeds 10]

short   AdversarialBandit, 10 arms, gap 0.1, T = 10^5; the paper's EXP2 in the same reduction
shifting  the same with a leader that shifts
arms    the same, T = 10^6
points  BarrierBandit, d = 5, T = 10^5: loss vectors z_t u with u a random direction of dual norm 1
        and z_t = 1 with probability 3/4, else -1; standing at zero costs 50,000
"""

import argparse
import math
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from kit import CONSOLE, new_table, run

from discreet.domains import Ball, Cube, Polytope, Simplex
from discreet.environments.losses import expert_losses
from discreet.environments.playing import play_losses
from discreet.experiments.measure import Found, grid
from discreet.experiments.statistics import standard_error
from discreet.online.adversarial import AdversarialBandit, Exp2
from discreet.online.barrier import BarrierBandit
from discreet.online.reduction import PrivateReduction
from discreet.privacy import SeededNoise
from discreet.privacy.channels import BinaryChannel

ARMS = 10
DIM = 5
DOMAINS = {"Ball": Ball, "Cube": Cube}


def arms(*, name: str, horizon: int, epsilon: float, trust: str, seed: int) -> dict[str, float]:
    """Regret against the best arm."""
    losses = expert_losses(name, horizon, ARMS, gap=0.1, seed=seed)
    noise = SeededNoise(seed)
    bandit = AdversarialBandit(ARMS, horizon, epsilon, trust=trust, seed=seed, noise=noise)
    suffered = play_losses(bandit, lambda t, d: losses.item(t, d.action), horizon)
    return {"value": suffered.sum() - losses.sum(axis=0).min()}


def paper(*, name: str, horizon: int, epsilon: float, trust: str, seed: int) -> dict[str, float]:
    """EXP2 in the reduction, with three times the rate of its bound and exploration to match."""
    losses = expert_losses(name, horizon, ARMS, gap=0.1, seed=seed)
    channel = BinaryChannel(epsilon, low=0.0, high=1.0)
    rate = 3 * math.sqrt(2 * math.log(ARMS) / (horizon * ARMS * channel.second_moment))
    explore = min(0.5, rate * ARMS * channel.report_bound)
    plain = Exp2(ARMS, rate=rate, explore=explore, seed=seed)
    bandit = PrivateReduction(plain, epsilon, noise=SeededNoise(seed))
    suffered = play_losses(bandit, lambda t, d: losses.item(t, d.choice.action), horizon)
    return {"value": suffered.sum() - losses.sum(axis=0).min()}


def points(*, domain: str, horizon: int, epsilon: float, trust: str, seed: int) -> dict[str, float]:
    """Regret against the best point, which is -1 in the mean direction for each round."""
    rng = np.random.default_rng([seed, 1])
    direction = rng.normal(size=DIM)
    direction /= np.linalg.norm(direction, 2 if domain == "Ball" else 1)
    signs = np.where(rng.random(horizon) < 0.75, 1.0, -1.0)
    bandit = BarrierBandit(DOMAINS[domain](DIM), horizon, epsilon, trust=trust, seed=seed,
                           noise=SeededNoise(seed))  # fmt: skip
    suffered = play_losses(
        bandit, lambda t, d: signs.item(t) * float(direction.dot(d.point)), horizon
    )
    return {"value": suffered.sum() + abs(signs.sum())}


ARM_CASES = (  # losses, horizon, trust, epsilon, target
    ("gap", 10**6, "local", math.inf, ""),
    ("gap", 10**6, "local", 1.0, "ratio 1.6"),
    ("gap", 10**6, "central", 0.1, "15,000"),
    ("gap", 10**6, "central", 1.0, ""),
)
SHORT = (
    ("local", math.inf),
    ("local", 1.0),
    ("EXP2, local", 1.0),
    ("central", 1.0),
    ("central", 0.1),
)
SHORT_CASES = tuple(("gap", 10**5, trust, epsilon, "") for trust, epsilon in SHORT)
SHIFTING_CASES = tuple(("shifting", 10**5, trust, epsilon, "") for trust, epsilon in SHORT)
POINT_CASES = tuple(  # domain, horizon, trust, epsilon, target
    (domain, 10**5, trust, epsilon, target)
    for domain, targets in (("Ball", ("", "7,500", "6,000")), ("Cube", ("", "14,000", "11,500")))
    for (trust, epsilon), target in zip(
        (("local", math.inf), ("local", 1.0), ("central", 1.0)), targets, strict=True
    )
)


def show(title: str, measure: Callable[..., dict[str, float]], cases: tuple, seeds: int) -> None:
    """One line for each case; the ratio is to the last one without privacy."""
    axis = "name" if measure is arms else "domain"

    def played(trust: str) -> Callable[..., dict[str, float]]:
        return paper if trust.startswith("EXP2") else measure

    found: Found = run([
        cell for where, horizon, trust, epsilon, _ in cases
        for cell in grid(played(trust), seeds=range(seeds), horizon=(horizon,), epsilon=(epsilon,),
                         trust=(trust,), **{axis: (where,)})
    ])  # fmt: skip
    table = new_table(
        title, ("world", "trust", "epsilon", "regret", "std. error", "ratio", "target")
    )
    plain = math.nan
    for where, horizon, trust, epsilon, target in cases:
        regrets = found.over(
            played(trust), horizon=horizon, epsilon=epsilon, trust=trust, **{axis: where}
        )
        mean = float(regrets.mean())
        plain = mean if math.isinf(epsilon) else plain
        world = f"{where}, T = {horizon:,}" if measure is arms else where
        ratio = f"{mean / plain:.2f}" if plain > 0 else "-"
        table.add_row(world, trust, f"{epsilon:g}", f"{mean:,.0f}",
                      f"{standard_error(regrets):,.0f}", ratio, target)  # fmt: skip
    CONSOLE.print(table)


def speed() -> None:
    """CPU time of one decide and one learn."""
    table = new_table("microseconds a step (CPU time, epsilon = 1, SeededNoise)",
                      ("learner", "local", "central", "target"))  # fmt: skip
    sides = np.vstack([np.eye(DIM), -np.eye(DIM), np.ones((1, DIM))])
    learners: dict[str, tuple[Callable[..., AdversarialBandit | BarrierBandit], str]] = {
        "AdversarialBandit, 10 arms": (partial(AdversarialBandit, ARMS), ""),
        "BarrierBandit, Ball(5)": (partial(BarrierBandit, Ball(DIM)), "30"),
        "BarrierBandit, Cube(5)": (partial(BarrierBandit, Cube(DIM)), "30"),
        "BarrierBandit, Simplex(5)": (partial(BarrierBandit, Simplex(DIM)), "300"),
        "BarrierBandit, 11 sides in R^5": (
            partial(BarrierBandit, Polytope(sides, np.ones(11))),
            "300",
        ),
    }
    for name, (make, target) in learners.items():
        figures = []
        for trust in ("local", "central"):
            bandit = make(10**6, 1.0, trust=trust, seed=0, noise=SeededNoise(0))
            losses = np.random.default_rng(0).random(20_000).tolist()
            start = time.process_time()
            for loss in losses:
                bandit.learn(bandit.decide(), loss)
            figures.append((time.process_time() - start) / len(losses) * 1e6)
        table.add_row(name, *(f"{figure:.1f}" for figure in figures), target)
    CONSOLE.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "parts", nargs="*", default=["short", "shifting", "arms", "points", "speed"]
    )
    parser.add_argument("--seeds", type=int, default=10)
    chosen = parser.parse_args()
    if "short" in chosen.parts:
        title = f"AdversarialBandit, {ARMS} arms, T = 100,000, {chosen.seeds} seeds"
        show(title, arms, SHORT_CASES, chosen.seeds)
    if "shifting" in chosen.parts:
        title = f"AdversarialBandit, a shifting leader, T = 100,000, {chosen.seeds} seeds"
        show(title, arms, SHIFTING_CASES, chosen.seeds)
    if "arms" in chosen.parts:
        show(f"AdversarialBandit, {ARMS} arms, gap 0.1", arms, ARM_CASES, chosen.seeds)
    if "points" in chosen.parts:
        show(f"BarrierBandit, d = {DIM}, T = 100,000", points, POINT_CASES, chosen.seeds)
    if "speed" in chosen.parts:
        speed()


if __name__ == "__main__":
    main()
