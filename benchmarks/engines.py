"""One engine (`one_engine/`, a trial) against stages and few rows (`central.py`), on the same rows.

    python benchmarks/engines.py [PATTERN]

The worlds of regression.py and regression_hard.py, and labels of two values. Each row: root mean
squared error of predictions x 10^4 of both over 24 fits with noise of their own, their ratio and
its jackknife standard error, the worst fits, and the coverage of nominal 95% widths.
"""

import math
import re
import sys
import zlib

import numpy as np
from kit import CONSOLE, new_table, run
from one_engine.steps import by_steps
from regression import FAMILIES, coin_world, directions
from regression import world as family_world
from regression_hard import LINEAR
from regression_hard import world as hard_world

from discreet.experiments.measure import grid
from discreet.privacy import Budget, Ledger, SeededNoise
from discreet.regression.base import Problem
from discreet.regression.central import information_weighted

SEEDS = 24
TEST = 4_000
ENGINES = {"stages": information_weighted, "steps": by_steps}
COINS = {f"coin {mean:g}": mean for mean in (0.5, 0.12, 0.03)}
CELLS = [
    *((family, n, 1.0) for family in FAMILIES for n in (300, 2_000, 20_000, 200_000)),
    *((family, 20_000, 3.0) for family in FAMILIES),
    *(("basis", n, 1.0) for n in (10_000, 40_000)),
    *((coin, n, 1.0) for coin in COINS for n in (2_000, 20_000)),
    *(("signs", n, 1.0) for n in (2_000, 20_000)),
    *((name, LINEAR[name][1], 1.0) for name in LINEAR if name.startswith(("rare", "tails"))),
]


def data(name: str, n: int, seed: int):
    """Rows, labels, theta, rows to predict."""
    if name in COINS:
        return coin_world(COINS[name], n, seed)
    if name == "signs":  # labels of +1 and -1
        rng = np.random.default_rng([seed, n, 3])
        X = directions(rng, n, 4)
        theta = 0.9 * np.array([0.6, 0.0, 0.8, 0.0])
        y = np.where(rng.random(n) < (1 + X @ theta) / 2, 1.0, -1.0)
        return X, y, theta, directions(rng, TEST, 4)
    return family_world(name, n, seed) if name in FAMILIES else hard_world(name, seed)


def fit(*, name: str, n: int, epsilon: float, engine: str, seed: int) -> dict[str, float]:
    X, y, theta, test = data(name, n, seed)
    test = test[:TEST]
    noise = SeededNoise(zlib.crc32(f"{name} {n} {epsilon} {seed}".encode()))
    problem = Problem(X, y, Ledger(Budget(epsilon, 1e-6)), noise, np.random.default_rng(seed))
    found = ENGINES[engine](problem)
    miss = test @ (found.theta - theta)
    variance = np.einsum("ij,jk,ik->i", test, np.asarray(found.covariance), test)
    inside = np.abs(miss) <= 1.96 * np.sqrt(np.maximum(variance, 0.0))
    return {"value": float(np.mean(miss**2)), "coverage": float(inside.mean())}


def log_ratio(new: np.ndarray, old: np.ndarray) -> float:
    return 0.5 * math.log(new.mean() / old.mean())


def main(pattern: str) -> None:
    cells = [cell for cell in CELLS if re.search(pattern, cell[0])]
    tasks = [task for name, n, epsilon in cells
             for task in grid(fit, seeds=SEEDS, name=(name,), n=(n,), epsilon=(epsilon,),
                              engine=tuple(ENGINES))]  # fmt: skip
    found = run(tasks)
    table = new_table(f"RMSE x 10^4, {SEEDS} fits",
                      ("world", "rows", "epsilon", "stages", "steps", "ratio", "worst stages",
                       "worst steps", "coverage"))  # fmt: skip
    for name, n, epsilon in cells:
        setting = {"name": name, "n": n, "epsilon": epsilon}
        old, new = (found.over(fit, engine=each, **setting) for each in ENGINES)
        left_out = [log_ratio(np.delete(new, i), np.delete(old, i)) for i in range(len(old))]
        error = math.sqrt((len(old) - 1) * np.var(left_out))
        roots = (1e4 * math.sqrt(each) for each in (old.mean(), new.mean(), old.max(), new.max()))
        mean_old, mean_new, worst_old, worst_new = (f"{root:.1f}" for root in roots)
        covered = (found.mean(fit, "coverage", engine=each, **setting) for each in ENGINES)
        table.add_row(
            name, f"{n:,}", f"{epsilon:g}", mean_old, mean_new,
            f"{math.exp(log_ratio(new, old)):.3f} ± {error:.3f}", worst_old, worst_new,
            " -> ".join(f"{each:.2f}" for each in covered),
        )  # fmt: skip
    CONSOLE.print(table)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
