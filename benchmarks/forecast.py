"""Forecasts against fits and runs, and their speed: the figures of docs/planning.md.

    python benchmarks/planning.py [regression] [bandits]

A forecast sees a public sample of 3,000 rows and the numbers n, epsilon, delta and label noise; a
fit sees other rows of the same world. A bandit's forecast sees stand-ins, a run fresh contexts of
a world with fresh seeds. Prints both, and saves docs/planning.png and docs/bandit-planning.png.
"""

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from discreet.bandits import LinearBandit
from discreet.environments import linear_world
from discreet.experiments import bandit_report
from discreet.experiments.bandit_forecast import Forecast, Stream, forecast
from discreet.experiments.regression_forecast import Question, figure
from discreet.privacy import SeededNoise
from discreet.regression import PrivateLinearRegression
from discreet.regression.information import expected_error, information_matrix, price_of_privacy

CONSOLE = Console(width=150)
RUNS = 10
BANDIT_RUNS = 20


def sphere(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    X = rng.standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def clipped(X: np.ndarray) -> np.ndarray:
    return X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))


def decay(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    return clipped(rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -1.5)


def log_normal(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    return clipped(0.1 * sphere(n, d, rng) * np.exp(rng.standard_normal((n, 1))))


def basis(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    return np.eye(d)[np.minimum(rng.geometric(0.5, n) - 1, d - 1)]


def correlated(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    common = rng.standard_normal((n, 1))
    return clipped((0.3 * common + 0.1 * rng.standard_normal((n, d))) / math.sqrt(d))


def dummies(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    rare = rng.random((n, d - 1)) < np.linspace(0.02, 0.4, d - 1)
    return np.column_stack([np.ones(n), rare]) / math.sqrt(d)


WORLDS: dict[str, Callable[..., np.ndarray]] = {
    "sphere": sphere,
    "sphere, radius .05": lambda n, d, rng: 0.05 * sphere(n, d, rng),
    "Gaussian, scale j^-1.5": decay,
    "log-normal norms": log_normal,
    "basis, frequency 2^-j": basis,
}
HELD_OUT: dict[str, Callable[..., np.ndarray]] = {  # not used when the constants were fitted
    "cube": lambda n, d, rng: rng.uniform(-1, 1, (n, d)) / math.sqrt(d),
    "correlated": correlated,
    "intercept and dummies": dummies,
}


def measured(world: str, n: int, d: int, runs: int, sigma: float, **options) -> np.ndarray:
    """Mean absolute and root mean square error of private fits and of least squares."""
    squares = np.zeros((2, 2))
    for seed in range(runs):
        rng = np.random.default_rng([seed, n, d])
        draw = (WORLDS | HELD_OUT)[world]
        X, test = draw(n, d, rng), draw(4000, d, rng)
        theta = rng.standard_normal(d)
        theta *= 0.8 / np.linalg.norm(theta)
        y = np.clip(X @ theta + sigma * rng.standard_normal(n), -1, 1)
        model = PrivateLinearRegression(random_state=seed, **options).fit(X, y)
        plain = np.linalg.lstsq(X, y, rcond=None)[0]
        for row, estimate in enumerate((model.coef_, plain)):
            error = test @ (estimate - theta)
            squares[row] += np.mean(np.abs(error)), np.mean(error**2)
    squares /= runs
    return np.column_stack([squares[:, 0], np.sqrt(squares[:, 1])])


def accuracy(
    trust: str,
    worlds: dict[str, Callable[..., np.ndarray]],
    cases: list[tuple[int, int, float, float]],
    runs: int,
) -> None:
    table = Table(title=f"{trust} trust: mean absolute error x 10^4, forecast / fits ({runs} runs)")
    for column in ("covariates", "d", "rows", "epsilon", "label noise", "least squares", "private",
                   "forecast / fit", "the same in l2", "price / measured"):  # fmt: skip
        table.add_column(column, justify="right")
    off = {}
    for world, draw in worlds.items():
        for d, n, epsilon, sigma in cases:
            X = draw(3000, d, np.random.default_rng(99))
            fits, plain = measured(world, n, d, runs, sigma, epsilon=epsilon, trust=trust)
            known = {"trust": trust, "label_noise": sigma}
            guess = [expected_error(X, n, epsilon, norm=norm, **known) for norm in ("l1", "l2")]
            simple = expected_error(X, n, label_noise=sigma)
            price = price_of_privacy(X, n, epsilon, **known)
            ratios = np.array(guess) / fits
            off.setdefault(world, []).append(ratios)
            table.add_row(
                world, str(d), f"{n:,}", f"{epsilon:g}", f"{sigma:g}",
                f"{simple * 1e4:.1f} / {plain[0] * 1e4:.1f}",
                f"{guess[0] * 1e4:.1f} / {fits[0] * 1e4:.1f}",
                f"{ratios[0]:.2f}", f"{ratios[1]:.2f}",
                f"{price:.2f} / {(fits[1] / plain[1]) ** 2:.2f}",
            )  # fmt: skip
        table.add_section()
    CONSOLE.print(table)
    for world, ratios in off.items():
        logs = np.abs(np.log(ratios))
        CONSOLE.print(f"{world:>24}: off by a factor {np.exp(logs.mean(0))[0]:.2f} on average, "
                      f"{np.exp(logs.max(0))[0]:.2f} at worst (l2: {np.exp(logs.mean(0))[1]:.2f}, "
                      f"{np.exp(logs.max(0))[1]:.2f})")  # fmt: skip


def choices() -> None:
    table = Table(title="Forecast over least squares: central (d = 8, 20,000 rows), local (10^6)")
    deltas = (1e-5, 1e-6, 1e-9, 1e-12)
    for column in ("epsilon", *(f"delta = {delta:g}" for delta in deltas), "local: root of price"):
        table.add_column(column, justify="right")
    for epsilon in (0.1, 0.3, 1.0, 3.0):
        ratios = [expected_error(8, 20_000, epsilon, delta) / expected_error(8, 20_000)
                  for delta in deltas]  # fmt: skip
        local = math.sqrt(price_of_privacy(8, 10**6, epsilon, trust="local"))
        table.add_row(f"{epsilon:g}", *(f"{ratio:.2f}" for ratio in ratios), f"{local:.0f}")
    CONSOLE.print(table)


def speed() -> None:
    table = Table(title="information_matrix to 1e-8, covariates with scale j^-1.5, lam = .01")
    for column in ("d", "rows", "gamma", "time", "against one X' X and one eigh"):
        table.add_column(column, justify="right")
    for d, rows in ((8, 5000), (100, 5000), (500, 5000)):
        X = decay(rows, d, np.random.default_rng(0))
        start = time.perf_counter()
        np.linalg.eigh(X.T @ X)
        base = time.perf_counter() - start
        for gamma in (0.01, 1.0, math.inf):
            start = time.perf_counter()
            information_matrix(X, gamma=gamma, lam=0.01)
            ours = time.perf_counter() - start
            table.add_row(str(d), f"{rows:,}", f"{gamma:g}", f"{ours:.2f} s", f"{ours / base:.0f}")
    CONSOLE.print(table)


def played(
    name: str, d: int, T: int, epsilon: float, trust: str, noise: float, clicks: bool = False
) -> np.ndarray:
    """Regret of LinearBandit in a world by name, fresh contexts and seeds: (runs,)."""
    low = 0.0 if clicks else -1.0
    regrets = []
    for seed in range(500, 500 + BANDIT_RUNS):
        world, rng = linear_world(name, dim=d, noise=noise, seed=seed), np.random.default_rng(seed)
        bandit = LinearBandit(d, T, epsilon, trust=trust, reward_range=(low, 1.0), seed=seed,
                              noise=SeededNoise(seed))  # fmt: skip
        regret = 0.0
        while bandit.rounds < T:
            n = min(bandit.rounds_until_release, T - bandit.rounds, 10_000)
            people = world.people(n, rng)
            decisions = bandit.decide_many(people.features)
            bandit.learn_many(decisions, people.rewards(decisions.action, rng))
            regret += float(people.regret(decisions.action).sum())
        regrets.append(regret)
    return np.array(regrets)


def foreseen(features: np.ndarray | int, T: int, epsilon: float, **options) -> Forecast:
    trust, runs = options.pop("trust", "joint"), options.pop("runs", BANDIT_RUNS)
    return forecast(Stream(features, T, **options), epsilon, trust=trust, runs=runs)


def bandit_accuracy() -> None:
    table = Table(title=f"Bandits on the sphere: regret, forecast / fresh runs ({BANDIT_RUNS})")
    for column in ("trust", "d", "rounds", "epsilon", "noise", "forecast", "measured", "ratio",
                   "standard error", "seconds"):  # fmt: skip
        table.add_column(column, justify="right")
    cases = [("joint", d, T, epsilon, noise) for d in (5, 20) for T in (5_000, 50_000)
             for epsilon, noise in ((0.3, 0.1), (1.0, 0.1), (3.0, 0.1), (1.0, 0.3))]  # fmt: skip
    cases += [("local", 5, T, epsilon, 0.1) for T in (5_000, 50_000) for epsilon in (1.0, 3.0)]
    logs = []
    for trust, d, T, epsilon, noise in cases:
        start = time.perf_counter()
        guess = foreseen(d, T, epsilon, trust=trust, noise=noise)
        seconds = time.perf_counter() - start
        regret = played("sphere", d, T, epsilon, trust, noise)
        ratio = guess.expected / regret.mean()
        spread = math.hypot(*(np.std(each, ddof=1) / np.mean(each) / math.sqrt(BANDIT_RUNS)
                              for each in (regret, guess.regret[:, -1])))  # fmt: skip
        logs.append(abs(math.log(ratio)))
        table.add_row(trust, str(d), f"{T:,}", f"{epsilon:g}", f"{noise:g}",
                      f"{guess.expected:,.0f}", f"{regret.mean():,.0f}", f"{ratio:.2f}",
                      f"{spread:.2f}", f"{seconds:.1f}")  # fmt: skip
    CONSOLE.print(table)
    CONSOLE.print(f"off by a factor {math.exp(np.mean(logs)):.2f} on average, "
                  f"{math.exp(max(logs)):.2f} at worst")  # fmt: skip


def bandit_worlds() -> None:
    d, T, epsilon = 5, 50_000, 1.0
    table = Table(title="Other worlds, d = 5, 50,000 rounds, epsilon = 1: median regret, its ratio "
                  f"to the measured one; the worst of {BANDIT_RUNS}")  # fmt: skip
    for column in ("world", "measured", "from the dimension", "public rows", "public action sets"):
        table.add_column(column, justify="right")
    for name in ("sphere", "sign", "half", "tenth", "short", "decay", "basis", "rare", "fixed"):
        clicks = {"half": 0.5, "tenth": 0.1}.get(name)
        noise = 1.0 if name == "sign" else None if clicks else 0.1
        regret = played(name, d, T, epsilon, "joint", noise or 0.0, clicks is not None)
        usual = float(np.median(regret))
        public = linear_world(name, dim=d, seed=99)  # same features, another parameter
        sets = public.contexts(1 if name == "fixed" else 500, np.random.default_rng(99))
        if clicks:  # the plan adds the constant itself
            sets = math.sqrt(2) * sets[:, :, 1:]
        known = sets.shape[2]
        cells = [f"{usual:,.0f}; {regret.max():,.0f}"]
        for features in (known, sets.reshape(-1, known), sets):
            guess = foreseen(features, T, epsilon, noise=noise, clicks=clicks)
            median = float(np.median(guess.regret[:, -1]))
            cells.append(f"{median:,.0f} ({median / usual:.2f}); {guess.worst:,.0f}")
        table.add_row(name, *cells)
    CONSOLE.print(table)


def bandit_choices() -> None:
    table = Table(title="d = 5, 10 actions: better after; regret, and its share of uniform's")
    lengths = (1_000, 10_000, 100_000, 1_000_000)
    for column in ("trust", "epsilon", "better after", *(f"{T:,} rounds" for T in lengths)):
        table.add_column(column, justify="right")
    settings = [("none", math.inf), *(("joint", e) for e in (0.1, 0.3, 1.0, 3.0)),
                *(("local", e) for e in (0.3, 1.0, 3.0))]  # fmt: skip
    for trust, epsilon in settings:
        model = "local" if trust == "local" else "joint"
        plans = [foreseen(5, T, epsilon, trust=model) for T in lengths]
        table.add_row(trust, f"{epsilon:g}", f"{plans[-1].better_after:,.0f}",
                      *(f"{p.expected:,.0f} ({100 * p.share:.2g}%)" for p in plans))  # fmt: skip
    CONSOLE.print(table)

    table = Table(title="d = 5, 50,000 rounds: regret by delta (joint) and by contributions")
    deltas, often = (1e-5, 1e-6, 1e-9, 1e-12), (1, 3, 10)
    for column in ("epsilon", *(f"delta = {delta:g}" for delta in deltas),
                   *(f"contributions = {k}" for k in often)):  # fmt: skip
        table.add_column(column, justify="right")
    for epsilon in (0.3, 1.0, 3.0):
        plans = [foreseen(5, 50_000, epsilon, delta=delta) for delta in deltas]
        plans += [foreseen(5, 50_000, epsilon, contributions=k) for k in often]
        table.add_row(f"{epsilon:g}", *(f"{p.expected:,.0f}" for p in plans))
    CONSOLE.print(table)


def bandit_trusts() -> None:
    table = Table(title="Better than uniform after so many of 100,000 rounds (share; 6 runs)")
    settings = [("joint", 1.0), ("local", 3.0), ("local", 1.0)]
    for column in ("d", "rewards", *(f"{trust}, epsilon = {e:g}" for trust, e in settings)):
        table.add_column(column, justify="right")
    kinds = {"noise .1": {}, "noise .5, gap .1": {"noise": 0.5, "gap": 0.1},
             "10% clicks": {"clicks": 0.1}, "10% clicks, gap .02": {"clicks": 0.1, "gap": 0.02},
             }  # fmt: skip
    for d in (5, 20):
        for kind, options in kinds.items():
            plans = [foreseen(d, 100_000, e, trust=trust, runs=6, **options)
                     for trust, e in settings]  # fmt: skip
            table.add_row(str(d), kind, *(f"{p.better_after:,.0f} ({100 * p.share:.3g}%)"
                                          for p in plans))  # fmt: skip
    CONSOLE.print(table)


def bandits() -> None:
    bandit_accuracy()
    bandit_worlds()
    bandit_choices()
    bandit_trusts()
    bandit_figure()


def bandit_figure() -> None:
    stream = Stream(5, 50_000)
    plans = [foreseen(5, 50_000, math.inf)]
    plans += [foreseen(5, 50_000, e, trust=t) for t in ("joint", "local") for e in (0.3, 1.0, 3.0)]
    path = Path(__file__).parents[1] / "docs" / "bandit-planning.png"
    bandit_report.figure(path, stream, plans)
    CONSOLE.print(f"Figure: docs/{path.name}")


def regression() -> None:
    speed()
    choices()
    accuracy(
        "central",
        WORLDS,
        [(8, 2000, 1.0, 0.1), (8, 20_000, 1.0, 0.1), (8, 200_000, 1.0, 0.1), (8, 20_000, 0.3, 0.1),
         (8, 20_000, 3.0, 0.1), (8, 20_000, 1.0, 0.3), (30, 50_000, 1.0, 0.1)],
        RUNS,
    )  # fmt: skip
    accuracy("central", HELD_OUT, [(5, 5000, 0.7, 0.2), (12, 30_000, 0.7, 0.1)], RUNS)
    accuracy("local", WORLDS, [(5, 100_000, 1.0, 0.1), (5, 1_000_000, 1.0, 0.1)], 3)
    accuracy("local", HELD_OUT, [(5, 200_000, 2.0, 0.1)], 3)
    path = Path(__file__).parents[1] / "docs" / "planning.png"
    figure(path, Question(8, 20_000, 0.1, 1e-6), (0.3, 1.0, 3.0), ("central", "local"), 0.005)
    CONSOLE.print(f"Figure: docs/{path.name}")


if __name__ == "__main__":
    for part in sys.argv[1:] or ("regression", "bandits"):
        {"regression": regression, "bandits": bandits}[part]()
