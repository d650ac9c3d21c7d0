"""What local trust must cost a bandit on arms: the table of limits in docs/online.md.

    OMP_NUM_THREADS=1 python benchmarks/online_limit.py [seeds]

Coins with a gap, told by randomised response, are coins with tanh(epsilon/2) of the gap. So a
private learner plays the plain game with the smaller gap, and pays in units of the larger one.
"""

import math
import sys

import numpy as np
from kit import CONSOLE, new_table, run
from online_bandits import ARMS

from discreet.environments.losses import expert_losses
from discreet.environments.playing import play_losses
from discreet.experiments.measure import grid
from discreet.experiments.statistics import standard_error
from discreet.online.adversarial import AdversarialBandit
from discreet.privacy import SeededNoise

GAP = 0.1
FIRST = 500  # seed: none of the other tables, nor of the tuning
T = 100_000


def adversarial(*, gap: float, epsilon: float, seed: int) -> dict[str, float]:
    """Expected regret of `AdversarialBandit`, which supposes nothing about losses."""
    losses = expert_losses("gap", T, ARMS, gap=gap, seed=seed)
    bandit = AdversarialBandit(ARMS, T, epsilon, seed=seed, noise=SeededNoise(seed))
    best = losses.mean(axis=0).argmin()
    actions = []

    def loss(t, decision):
        actions.append(decision.action)
        return losses.item(t, decision.action)

    play_losses(bandit, loss, T)
    return {"value": gap * float(np.sum(np.array(actions) != best))}


def thompson(*, gap: float, seed: int) -> dict[str, float]:
    """The same of Thompson sampling, which knows that losses are coins that never change."""
    rng = np.random.default_rng([seed, 7])
    means = np.full(ARMS, 0.5)
    means[0] -= gap
    counts = np.ones((2, ARMS))
    regret = 0.0
    for coin in rng.random(T):
        arm = int(rng.beta(counts[0], counts[1]).argmin())
        counts[0 if coin < means[arm] else 1, arm] += 1
        regret += gap * (arm != 0)
    return {"value": regret}


def information(gap: float) -> float:
    """What a coin of mean 1/2 tells against one of mean 1/2 - gap (Kullback and Leibler)."""
    return -0.5 * math.log(1 - 4 * gap**2)


def main(seeds: int) -> None:
    keep = math.tanh(0.5)  # of the gap, at epsilon = 1
    chosen = range(FIRST, FIRST + seeds)
    wanted = {
        "`AdversarialBandit`": (
            (adversarial, {"gap": GAP, "epsilon": math.inf}, 1.0),
            (adversarial, {"gap": GAP * keep, "epsilon": math.inf}, keep),
            (adversarial, {"gap": GAP, "epsilon": 1.0}, 1.0),
        ),
        "Thompson sampling": (
            (thompson, {"gap": GAP}, 1.0),
            (thompson, {"gap": GAP * keep}, keep),
        ),
    }
    found = run([
        cell for cases in wanted.values() for measure, values, _ in cases
        for cell in grid(measure, seeds=chosen, **{name: (v,) for name, v in values.items()})
    ])  # fmt: skip
    table = new_table(
        f"Limits of local trust: {ARMS} arms, gap {GAP:g}, T = {T:,}, epsilon = 1, {seeds} seeds",
        ("learner", "plain", "plain, on reports", "as coded, local", "ratio"),
    )
    for name, cases in wanted.items():
        regrets = [found.over(measure, **values) / scale for measure, values, scale in cases]
        cells = [f"{each.mean():,.0f} ± {standard_error(each):,.0f}" for each in regrets]
        ratio = f"{regrets[1].mean() / regrets[0].mean():.2f}"
        table.add_row(name, *cells, *["-"] * (3 - len(cells)), ratio)
    lai = information(GAP) / information(GAP * keep)
    table.add_row("any, coins of the worst gap", "-", "-", "-", f"{1 / keep:.2f}")
    table.add_row("any, gap .1 and T to infinity", "-", "-", "-", f"{lai:.2f}")
    CONSOLE.print(table)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
