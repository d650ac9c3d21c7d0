"""Private bandits with losses: regret beside the same learner without privacy, and speed.

    OMP_NUM_THREADS=1 python benchmarks/online_bandits.py [arms] [points] [speed] [--seeds 10]

arms    AdversarialBandit, 10 arms, gap 0.1, T = 10^6; the shifting leader beside it
points  BarrierBandit, d = 5, T = 10^5: loss vectors z_t u with u a random direction of dual norm 1
        and z_t = 1 with probability 3/4, else -1; standing at zero costs 50,000
"""

import argparse
import math
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table

from discreet.domains import Ball, Cube, Domain, Polytope, Simplex
from discreet.environments.losses import expert_losses
from discreet.online.adversarial import AdversarialBandit
from discreet.online.barrier import BarrierBandit
from discreet.privacy import SeededNoise

CONSOLE = Console(width=110)
ARMS, DIM = 10, 5


def arms(seed: int, *, name: str, horizon: int, epsilon: float, trust: str) -> float:
    """Regret against the best arm."""
    losses = expert_losses(name, horizon, ARMS, gap=0.1, seed=seed)
    best = float(losses.sum(axis=0).min())
    noise = SeededNoise(seed)
    bandit = AdversarialBandit(ARMS, horizon, epsilon, trust=trust, seed=seed, noise=noise)
    suffered = 0.0
    for t in range(horizon):
        decision = bandit.decide()
        loss = losses.item(t, decision.action)
        suffered += loss
        bandit.learn(decision, loss)
    return suffered - best


def points(seed: int, *, domain: Domain, horizon: int, epsilon: float, trust: str) -> float:
    """Regret against the best point, which is -1 in the mean direction for each round."""
    rng = np.random.default_rng([seed, 1])
    direction = rng.normal(size=DIM)
    direction /= np.linalg.norm(direction, 2 if isinstance(domain, Ball) else 1)
    signs = np.where(rng.random(horizon) < 0.75, 1.0, -1.0).tolist()
    noise = SeededNoise(seed)
    bandit = BarrierBandit(domain, horizon, epsilon, trust=trust, seed=seed, noise=noise)
    suffered = 0.0
    for sign in signs:
        decision = bandit.decide()
        loss = sign * float(direction.dot(decision.point))
        suffered += loss
        bandit.learn(decision, loss)
    return suffered + abs(sum(signs))


def over_seeds(run: Callable[[int], float], seeds: int) -> tuple[float, float]:
    """Mean and standard error."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        regrets = list(pool.map(run, range(seeds)))
    return float(np.mean(regrets)), float(np.std(regrets, ddof=1) / math.sqrt(seeds))


def show(title: str, rows: Iterator[tuple[str, str, float, float, float, float | str]]) -> None:
    table = Table(title=title)
    for column in ("world", "trust", "epsilon", "regret", "std. error", "ratio", "target"):
        table.add_column(column, justify="right")
    plain = 0.0
    for world, trust, epsilon, mean, error, target in rows:
        if math.isinf(epsilon):
            plain = mean
        goal = target if isinstance(target, str) else f"{target:,.0f}"
        ratio = f"{mean / plain:.2f}" if plain > 0 else "-"
        table.add_row(world, trust, f"{epsilon:g}", f"{mean:,.0f}", f"{error:,.0f}", ratio, goal)
        print(world, trust, epsilon, round(mean), round(error), ratio, flush=True)
    CONSOLE.print(table)


def arm_rows(seeds: int) -> Iterator[tuple[str, str, float, float, float, float | str]]:
    cases: list[tuple[str, int, str, float, str]] = [
        ("gap", 10**6, "local", math.inf, ""),
        ("gap", 10**6, "local", 1.0, "ratio 1.6"),
        ("gap", 10**6, "central", 0.1, "15,000"),
        ("gap", 10**6, "central", 1.0, ""),
        ("shifting", 10**5, "local", math.inf, ""),
        ("shifting", 10**5, "local", 1.0, ""),
        ("shifting", 10**5, "central", 1.0, ""),
    ]
    for name, horizon, trust, epsilon, target in cases:
        run = partial(arms, name=name, horizon=horizon, epsilon=epsilon, trust=trust)
        yield f"{name}, T = {horizon:,}", trust, epsilon, *over_seeds(run, seeds), target


def point_rows(seeds: int) -> Iterator[tuple[str, str, float, float, float, float | str]]:
    targets = {(Ball, "local"): 7500, (Cube, "local"): 14000}
    targets |= {(Ball, "central"): 6000, (Cube, "central"): 11500}
    for domain in (Ball(DIM), Cube(DIM)):
        for trust, epsilon in (("local", math.inf), ("local", 1.0), ("central", 1.0)):
            run = partial(points, domain=domain, horizon=10**5, epsilon=epsilon, trust=trust)
            target = "" if math.isinf(epsilon) else float(targets[type(domain), trust])
            yield type(domain).__name__, trust, epsilon, *over_seeds(run, seeds), target


def speed() -> None:
    """CPU time of one decide and one learn."""
    table = Table(title="microseconds a step (CPU time, epsilon = 1, SeededNoise)")
    for column in ("learner", "local", "central", "target"):
        table.add_column(column, justify="right")
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
    parser.add_argument("parts", nargs="*", default=["arms", "points", "speed"])
    parser.add_argument("--seeds", type=int, default=10)
    chosen = parser.parse_args()
    if "arms" in chosen.parts:
        show(f"AdversarialBandit, {ARMS} arms, gap 0.1", arm_rows(chosen.seeds))
    if "points" in chosen.parts:
        show(f"BarrierBandit, d = {DIM}, T = 100,000", point_rows(chosen.seeds))
    if "speed" in chosen.parts:
        speed()


if __name__ == "__main__":
    main()
