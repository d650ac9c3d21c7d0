"""Forecasts against fits and runs, and their speed: the figures of docs/forecast.md.

    python benchmarks/forecast.py [regression | bandits | PART]...

A forecast sees a public sample of 3,000 rows and the numbers n, epsilon, delta and label noise; a
fit sees other rows of the same world. A bandit's forecast sees stand-ins, a run fresh contexts of
a world with fresh seeds. Prints both, and saves docs/forecast.png and docs/bandit-forecast.png.
"""

import hashlib
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from kit import CONSOLE, new_table, run, with_error

from discreet.bandits import LinearBandit
from discreet.environments import play
from discreet.environments.linear import linear_world
from discreet.experiments import bandit_forecast, regression_forecast, sheet, statistics
from discreet.experiments.bandit_forecast import MOST_RUNS, Stream, forecast
from discreet.experiments.measure import grid
from discreet.experiments.regression_forecast import Question
from discreet.experiments.statistics import one_more, standard_error
from discreet.privacy import SeededNoise
from discreet.regression import PrivateLinearRegression
from discreet.regression.information import expected_error, information_matrix, price_of_privacy

RUNS = 32
LOCAL_RUNS = 24  # a third of them with 10^6 rows
UNIT = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": False}
BANDIT_RUNS = 40
WORLD_RUNS = 60
CHOICE_RUNS = 12
NEVER = 1e18  # rounds: not within the horizon
Options = tuple[tuple[str, float], ...]  # of a Stream
GUESS = 99  # seed of a forecast and of its public sample
CODE = hashlib.sha256(
    b"".join(
        Path(str(module.__file__)).read_bytes()
        for module in (bandit_forecast, regression_forecast, statistics)
    )
).hexdigest()[:12]  # of the forecasts themselves, which kept cells must be of


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


def fit(
    *, world: str, d: int, n: int, epsilon: float, sigma: float, trust: str, seed: int
) -> dict[str, list[float]]:
    """Mean absolute and mean squared error of a private fit and of least squares."""
    rng = np.random.default_rng([seed, n, d])
    draw = (WORLDS | HELD_OUT)[world]
    X = draw(n, d, rng)
    test = draw(4000, d, rng)
    theta = rng.standard_normal(d)
    theta *= 0.8 / np.linalg.norm(theta)
    y = np.clip(X @ theta + sigma * rng.standard_normal(n), -1, 1)
    model = PrivateLinearRegression(epsilon, trust=trust, random_state=seed, **UNIT).fit(X, y)
    errors = {"private": test @ (model.coef_ - theta),
              "plain": test @ (np.linalg.lstsq(X, y, rcond=None)[0] - theta)}  # fmt: skip
    return {name: [np.mean(np.abs(e)), np.mean(e**2)] for name, e in errors.items()}


def fits_to_stand_ins(
    *, world: str, d: int, n: int, epsilon: float, sigma: float, trust: str, code: str, seed: int
) -> dict[str, np.ndarray]:
    """Errors that the forecast of this code simulates from 3,000 public rows."""
    assert code == CODE
    X = (WORLDS | HELD_OUT)[world](3000, d, np.random.default_rng(seed))
    made = Question(X, n, sigma, 1e-6).simulated(n, epsilon, trust, seed=seed)
    assert made is not None
    return {"l1": made[0], "l2": made[1]}


def accuracy(
    trust: str,
    kind: str,
    worlds: dict[str, Callable[..., np.ndarray]],
    cases: list[tuple[int, int, float, float]],
    runs: int,
) -> None:
    table = new_table(
        f"{trust} trust, {kind}: mean absolute error x 10^4, forecast / fits ({runs} runs)",
        ("covariates", "d", "rows", "epsilon", "label noise", "least squares", "private",
         "forecast / fit", "the same in l2", "price / measured"),
    )  # fmt: skip
    found = run([
        cell for d, n, epsilon, sigma in cases
        for measure, seeds, more in ((fit, range(runs if n < 10**6 else runs // 3), {}),
                                     (fits_to_stand_ins, (GUESS,), {"code": (CODE,)}))
        for cell in grid(measure, seeds=seeds, world=tuple(worlds), d=(d,), n=(n,),
                         epsilon=(epsilon,), sigma=(sigma,), trust=(trust,), **more)
    ])  # fmt: skip
    off = {}
    covered = {}
    for world, draw in worlds.items():
        for d, n, epsilon, sigma in cases:
            X = draw(3000, d, np.random.default_rng(GUESS))
            setting = {"world": world, "d": d, "n": n, "epsilon": epsilon, "sigma": sigma,
                       "trust": trust}  # fmt: skip
            fits, plain = (found.over(fit, name, **setting).mean(axis=0)
                           for name in ("private", "plain"))  # fmt: skip
            for errors in (fits, plain):
                errors[1] = math.sqrt(errors[1])
            known = {"trust": trust, "label_noise": sigma}
            (l1,), (l2,) = (found.over(fits_to_stand_ins, name, code=CODE, **setting)
                            for name in ("l1", "l2"))  # fmt: skip
            guess = [l1.mean(), math.sqrt(np.mean(l2**2))]
            simple = expected_error(X, n, label_noise=sigma)
            price = price_of_privacy(X, n, epsilon, **known)
            ratios = np.array(guess) / fits
            off.setdefault(world, []).append(ratios)
            low, high = one_more(l1)
            every = found.over(fit, "private", **setting)[:, 0]
            covered.setdefault(world, []).extend((low < every) & (every < high))
            table.add_row(
                world, str(d), f"{n:,}", f"{epsilon:g}", f"{sigma:g}",
                f"{simple * 1e4:.1f} / {plain[0] * 1e4:.1f}",
                f"{guess[0] * 1e4:.1f} / {fits[0] * 1e4:.1f}",
                f"{ratios[0]:.2f}", f"{ratios[1]:.2f}",
                f"{price:.2f} / {(fits[1] / plain[1]) ** 2:.2f}",
            )  # fmt: skip
        table.add_section()
    CONSOLE.print(table)
    columns = ("covariates", "mean", "worst", "mean, l2", "worst, l2", "fits in the interval")
    factors = new_table(f"Off by a factor: {trust} trust, {kind}", columns)
    for world, ratios in off.items():
        logs = np.abs(np.log(ratios))
        each = np.exp([logs.mean(0), logs.max(0)]).T.ravel()
        cells = [f"{factor:.2f}" for factor in each]
        factors.add_row(world, *cells, f"{100 * np.mean(covered[world]):.0f}%")
    CONSOLE.print(factors)


def choices() -> None:
    deltas = (1e-5, 1e-6, 1e-9, 1e-12)
    table = new_table(
        "Forecast over least squares: central (d = 8, 20,000 rows), local (10^6)",
        ("epsilon", *(f"delta = {delta:g}" for delta in deltas), "local: root of price"),
    )
    for epsilon in (0.1, 0.3, 1.0, 3.0):
        ratios = [expected_error(8, 20_000, epsilon, delta) / expected_error(8, 20_000)
                  for delta in deltas]  # fmt: skip
        local = math.sqrt(price_of_privacy(8, 10**6, epsilon, trust="local"))
        table.add_row(f"{epsilon:g}", *(f"{ratio:.2f}" for ratio in ratios), f"{local:.0f}")
    CONSOLE.print(table)


def speed() -> None:
    table = new_table(
        "information_matrix to 1e-8, covariates with scale j^-1.5, lam = .01",
        ("d", "rows", "gamma", "processor time", "against one X' X and one eigh"),
    )
    for d, rows in ((8, 5000), (100, 5000), (500, 5000)):
        X = decay(rows, d, np.random.default_rng(0))
        start = time.process_time()
        np.linalg.eigh(X.T @ X)
        base = time.process_time() - start
        for gamma in (0.01, 1.0, math.inf):
            start = time.process_time()
            information_matrix(X, gamma=gamma, lam=0.01)
            ours = time.process_time() - start
            table.add_row(str(d), f"{rows:,}", f"{gamma:g}", f"{ours:.2f} s", f"{ours / base:.0f}")
    CONSOLE.print(table)


def regret(
    *, name: str, d: int, T: int, epsilon: float, trust: str, noise: float, seed: int
) -> dict[str, float]:
    """Of LinearBandit in a world by name, with fresh contexts."""
    world = linear_world(name, dim=d, noise=noise, seed=seed)
    bandit = LinearBandit(d, T, epsilon, trust=trust, reward_range=world.reward_range, seed=seed,
                          noise=SeededNoise(seed))  # fmt: skip
    return {"value": play(bandit, world, T, seed=seed).regret.sum()}


SEEDS = range(500, 500 + BANDIT_RUNS)


def stand_ins(
    *, name: str, known: str, d: int, T: int, epsilon: float, trust: str, noise: float, runs: int,
    code: str, seed: int,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Regret that this code's forecast simulates for somebody who knows so much of a world."""
    assert code == CODE
    public = linear_world(name, dim=d, seed=seed)  # same features, another parameter
    sets = public.contexts(1 if name == "fixed" else 2000, np.random.default_rng(seed))
    clicks = {"half": 0.5, "tenth": 0.1}.get(name)
    if clicks:  # the forecast adds the constant itself
        sets = math.sqrt(2) * sets[:, :, 1:]
    features = {"dimension": sets.shape[2], "rows": sets.reshape(-1, sets.shape[2]), "sets": sets}
    spread = 1.0 if name == "sign" else None if clicks else noise
    stream = Stream(features[known], T, noise=spread, clicks=clicks)
    made = forecast(stream, epsilon, trust=trust, runs=runs, seed=seed)
    return {"value": made.regret[:, -1]}


class Score:
    """How far off forecasts were, and how many runs lay where they said."""

    def __init__(self) -> None:
        self.logs: list[float] = []
        self.inside: list[float] = []

    def add(self, guess: np.ndarray, fresh: np.ndarray) -> tuple[float, float]:
        """The ratio of medians, and the fraction of fresh runs in the forecast's interval."""
        ratio = float(np.median(guess) / np.median(fresh))
        low, high = one_more(guess)
        inside = float(np.mean((low < fresh) & (fresh < high)))
        self.logs.append(abs(math.log(ratio)))
        self.inside.append(inside)
        return ratio, inside

    def cells(self) -> tuple[str, str, str]:
        factors = math.exp(np.mean(self.logs)), math.exp(max(self.logs))
        return f"{factors[0]:.2f}", f"{factors[1]:.2f}", f"{100 * np.mean(self.inside):.0f}%"


SCORES = ("forecasts", "mean", "worst", "runs in the interval")


def bandit_accuracy() -> None:
    table = new_table(
        f"Bandits on the sphere: median regret, forecast / fresh runs ({BANDIT_RUNS})",
        ("trust", "d", "rounds", "epsilon", "noise", "forecast", "measured", "ratio",
         "ratio of means", "standard error", "in the interval"),
    )  # fmt: skip
    cases = [("joint", d, T, epsilon, noise) for d in (5, 20) for T in (5_000, 50_000)
             for epsilon, noise in ((0.3, 0.1), (1.0, 0.1), (3.0, 0.1), (1.0, 0.3))]  # fmt: skip
    cases += [("local", 5, T, epsilon, 0.1) for T in (5_000, 50_000) for epsilon in (1.0, 3.0)]
    known = {"known": "dimension", "runs": BANDIT_RUNS, "code": CODE}
    settings = [{"name": "sphere", "d": d, "T": T, "epsilon": epsilon, "trust": trust,
                 "noise": noise} for trust, d, T, epsilon, noise in cases]  # fmt: skip
    found = run([cell for setting in settings for cell in (
        *grid(regret, seeds=SEEDS, **_axes(setting)),
        *grid(stand_ins, seeds=(GUESS,), **_axes(known | setting)))])  # fmt: skip
    scores = {"joint": Score(), "local": Score()}
    for setting in settings:
        fresh = found.over(regret, **setting)
        (guess,) = found.over(stand_ins, **known, **setting)
        ratio, inside = scores[setting["trust"]].add(guess, fresh)
        error = math.hypot(*(standard_error(each) / np.mean(each) for each in (fresh, guess)))
        table.add_row(setting["trust"], str(setting["d"]), f"{setting['T']:,}",
                      f"{setting['epsilon']:g}", f"{setting['noise']:g}",
                      f"{np.median(guess):,.0f}", f"{np.median(fresh):,.0f}", f"{ratio:.2f}",
                      f"{guess.mean() / fresh.mean():.2f}", f"{error:.2f}",
                      f"{100 * inside:.0f}%")  # fmt: skip
    CONSOLE.print(table)
    factors = new_table("Off by a factor: bandits on the sphere", SCORES)
    for trust, score in scores.items():
        factors.add_row(f"{trust} trust", *score.cells())
    CONSOLE.print(factors)


def _axes(setting: dict[str, object]) -> dict[str, tuple[object]]:
    return {key: (value,) for key, value in setting.items()}


def bandit_worlds(trust: str, epsilon: float, runs: int) -> None:
    names = ("sphere", "sign", "half", "tenth", "short", "decay", "basis", "rare", "fixed")
    inputs = {"dimension": "from the dimension", "rows": "public rows",
              "sets": "public action sets"}  # fmt: skip
    table = new_table(
        f"Other worlds, {trust} trust, epsilon = {epsilon:g}, d = 5, 50,000 rounds: median regret, "
        f"its ratio to the measured one; runs in the interval ({MOST_RUNS} and {runs} runs)",
        ("world", "measured", *inputs.values(), "means: measured", "public action sets"),
    )
    setting = {"d": 5, "T": 50_000, "epsilon": epsilon, "trust": trust, "noise": 0.1}
    made = {"runs": MOST_RUNS, "code": CODE}
    seeds = range(SEEDS[0], SEEDS[0] + runs)
    found = run(grid(regret, seeds=seeds, name=names, **_axes(setting))
                + grid(stand_ins, seeds=(GUESS,), name=names, known=tuple(inputs),
                       **_axes(made | setting)))  # fmt: skip
    scores = {known: Score() for known in inputs}
    for name in names:
        fresh = found.over(regret, name=name, **setting)
        cells = [f"{np.median(fresh):,.0f}"]
        for known, score in scores.items():
            (guess,) = found.over(stand_ins, name=name, known=known, **made, **setting)
            ratio, inside = score.add(guess, fresh)
            cells.append(f"{np.median(guess):,.0f} ({ratio:.2f}); {100 * inside:.0f}%")
        cells += [with_error(fresh), with_error(guess)]
        table.add_row(name, *cells)
    CONSOLE.print(table)
    factors = new_table(f"Off by a factor: bandits in nine worlds, {trust} trust", SCORES)
    for known, score in scores.items():
        factors.add_row(inputs[known], *score.cells())
    CONSOLE.print(factors)


def outlook(
    *, d: int, T: int, epsilon: float, trust: str, runs: int, options: Options, code: str, seed: int
) -> dict[str, float]:
    """What this code's forecast says on the sphere: mean regret, its fraction, better after."""
    assert code == CODE
    stream = Stream(d, T, **dict(options))
    made = forecast(stream, epsilon, trust=trust, runs=runs, seed=seed)
    return {"regret": made.expected, "fraction": made.fraction,
            "after": min(made.better_after, NEVER)}  # fmt: skip


def outlooks(asked: dict[object, dict[str, object]]) -> dict[object, dict[str, float]]:
    """What forecasts say, by the key of the question."""
    asked = {key: {"d": 5, "options": (), "code": CODE, "trust": "joint"} | question
             for key, question in asked.items()}  # fmt: skip
    found = run([cell for question in asked.values()
                 for cell in grid(outlook, seeds=(0,), **_axes(question))])  # fmt: skip
    return {key: {name: float(found.over(outlook, name, **question)[0])
                  for name in ("regret", "fraction", "after")}
            for key, question in asked.items()}  # fmt: skip


def bandit_choices() -> None:
    lengths = (1_000, 10_000, 100_000, 1_000_000)
    table = new_table(
        "d = 5, 10 actions: better after; regret, and its fraction of uniform's",
        ("trust", "epsilon", "better after", *(f"{T:,} rounds" for T in lengths)),
    )
    settings = [("none", math.inf), *(("joint", e) for e in (0.1, 0.3, 1.0, 3.0)),
                *(("local", e) for e in (0.3, 1.0, 3.0))]  # fmt: skip
    made = outlooks({
        (trust, epsilon, T): {"T": T, "epsilon": epsilon,
                              "trust": "local" if trust == "local" else "joint",
                              "runs": CHOICE_RUNS if T < 10**6 else CHOICE_RUNS // 2}
        for trust, epsilon in settings for T in lengths
    })  # fmt: skip
    for setting in settings:
        each = [made[*setting, T] for T in lengths]
        cells = (f"{g['regret']:,.0f} ({100 * g['fraction']:.2g}%)" for g in each)
        table.add_row(setting[0], f"{setting[1]:g}", f"{each[-1]['after']:,.0f}", *cells)
    CONSOLE.print(table)


def bandit_deltas() -> None:
    deltas = (1e-5, 1e-6, 1e-9, 1e-12)
    often = (3, 10)
    table = new_table(
        "d = 5, 50,000 rounds: regret by delta (joint) and by contributions",
        ("epsilon", *(f"delta = {delta:g}" for delta in deltas),
         *(f"contributions = {k}" for k in often)),
    )  # fmt: skip
    columns = [*(("delta", delta) for delta in deltas), *(("contributions", k) for k in often)]
    budgets = (0.3, 1.0, 3.0)
    made = outlooks({
        (e, column): {"T": 50_000, "epsilon": e, "runs": CHOICE_RUNS, "options": (column,)}
        for e in budgets for column in columns
    })  # fmt: skip
    for e in budgets:
        table.add_row(f"{e:g}", *(f"{made[e, column]['regret']:,.0f}" for column in columns))
    CONSOLE.print(table)


def bandit_trusts() -> None:
    settings = [("joint", 1.0), ("local", 3.0), ("local", 1.0)]
    table = new_table(
        "Better than uniform after so many of 100,000 rounds (fraction; 6 runs)",
        ("d", "rewards", *(f"{trust}, epsilon = {e:g}" for trust, e in settings)),
    )
    kinds: dict[str, Options] = {
        "noise .1": (),
        "noise .5, gap .1": (("noise", 0.5), ("gap", 0.1)),
        "10% clicks": (("clicks", 0.1),),
        "10% clicks, gap .02": (("clicks", 0.1), ("gap", 0.02)),
    }
    made = outlooks({
        (d, kind, trust, e): {"d": d, "T": 100_000, "epsilon": e, "trust": trust, "runs": 6,
                              "options": options}
        for d in (5, 20) for kind, options in kinds.items() for trust, e in settings
    })  # fmt: skip
    for d in (5, 20):
        for kind in kinds:
            each = [made[d, kind, *setting] for setting in settings]
            cells = (f"{'never' if g['after'] == NEVER else format(g['after'], ',.0f')} "
                     f"({100 * g['fraction']:.3g}%)" for g in each)  # fmt: skip
            table.add_row(str(d), kind, *cells)
    CONSOLE.print(table)


def bandit_figure() -> None:
    stream = Stream(5, 50_000)
    trusts = ("joint", "local")
    settings = [("joint", math.inf), *((t, e) for t in trusts for e in (0.3, 1.0, 3.0))]
    forecasts = [forecast(stream, e, trust=trust, runs=CHOICE_RUNS) for trust, e in settings]
    path = Path(__file__).parents[1] / "docs" / "bandit-forecast.png"
    sheet.draw(path, stream, trusts, forecasts)
    CONSOLE.print(f"Figure: docs/{path.name}")


def central() -> None:
    accuracy(
        "central",
        "fitted to",
        WORLDS,
        [(8, 2000, 1.0, 0.1), (8, 20_000, 1.0, 0.1), (8, 200_000, 1.0, 0.1), (8, 20_000, 0.3, 0.1),
         (8, 20_000, 3.0, 0.1), (8, 20_000, 1.0, 0.3), (30, 50_000, 1.0, 0.1)],
        RUNS,
    )  # fmt: skip
    accuracy("central", "held out", HELD_OUT, [(5, 5000, 0.7, 0.2), (12, 30_000, 0.7, 0.1)], RUNS)


def local() -> None:
    accuracy(
        "local", "fitted to", WORLDS, [(5, 100_000, 1.0, 0.1), (5, 1_000_000, 1.0, 0.1)], LOCAL_RUNS
    )
    accuracy("local", "held out", HELD_OUT, [(5, 200_000, 2.0, 0.1)], LOCAL_RUNS)


def regression_figure() -> None:
    path = Path(__file__).parents[1] / "docs" / "forecast.png"
    question = Question(8, 20_000, 0.1, 1e-6, target=0.005)
    trusts = ("central", "local")
    epsilons = (0.3, 1.0, 3.0)
    answers = [question.answer(trust, e) for trust in trusts for e in epsilons]
    sheet.draw(path, question, trusts, answers)
    CONSOLE.print(f"Figure: docs/{path.name}")


PARTS: dict[str, dict[str, Callable[[], None]]] = {
    "regression": {
        "speed": speed,
        "choices": choices,
        "central": central,
        "local": local,
        "regression-figure": regression_figure,
    },
    "bandits": {
        "sphere": bandit_accuracy,
        "worlds": lambda: bandit_worlds("joint", 1.0, WORLD_RUNS),
        "local-worlds": lambda: bandit_worlds("local", 3.0, BANDIT_RUNS),
        "bandit-choices": bandit_choices,
        "deltas": bandit_deltas,
        "trusts": bandit_trusts,
        "bandit-figure": bandit_figure,
    },
}


if __name__ == "__main__":
    single = {name: part for parts in PARTS.values() for name, part in parts.items()}
    for asked in sys.argv[1:] or PARTS:
        for part in PARTS.get(asked, {asked: single.get(asked)}).values():
            if part is None:
                sys.exit(f"no part {asked!r}; there are {', '.join((*PARTS, *single))}")
            part()
