"""What is it worth? Private intervals beside those without privacy, on the same data.

    python benchmarks/evaluation.py [runs]      # 600 of the fast ones, fewer of the others

Tables of docs/evaluation.md: A/B tests of three arms with fifty looks, bandits with a hold-out on
three worlds, logs of a uniform logger. delta = 1e-6. Seeds from FIRST on; none was used to choose
anything. Set OMP_NUM_THREADS=1.
"""

import math
import sys
from collections.abc import Sequence

import numpy as np
import scipy
from kit import CONSOLE, new_table

from discreet.bandits import Holdout, LinearBandit
from discreet.environments import play
from discreet.environments.people import People
from discreet.environments.randhie import randhie_world
from discreet.evaluation import evaluate
from discreet.evaluation.intervals import Interval
from discreet.evaluation.looks import Reader
from discreet.evaluation.totals import BatchTotals, ExperimentTotals, RunningTotals
from discreet.evaluation.worth import Totals, values
from discreet.privacy import Budget, SeededNoise

FIRST = 5000
EPSILONS = (0.3, 1.0, 3.0)
ALPHA = 0.05
LOOKS, PEOPLE = 50, 20_000  # in each arm at the end
SHOWN = (4, 19, 49)  # looks at 2,000, 8,000 and 20,000
CHANCES = (0.1, 0.1, 0.12)


def experiment(
    seed: int, chances: Sequence[float], epsilon: float, mechanism: str
) -> list[dict[tuple[int, int], Interval]]:
    """Differences of all pairs of arms, look by look."""
    rng = np.random.default_rng(seed)
    noise, budget, arms = SeededNoise(seed), Budget(epsilon, 1e-6), len(chances)
    running = mechanism == "running"
    totals: ExperimentTotals = BatchTotals(arms, budget, noise)
    if running:
        totals = RunningTotals(arms, budget, LOOKS, noise)
    reader = Reader(LOOKS if running else 0, ALPHA, arms)
    batch = np.full(arms, PEOPLE // LOOKS)
    people = np.zeros(arms, dtype=int)
    seen = []
    for _ in range(LOOKS):
        people += batch
        std = totals.std
        totals.add(rng.binomial(batch, chances).astype(float))
        sums, totals = totals.closed()
        reader.take((people if running else batch).tolist(), sums.tolist(), [std] * arms)
        seen.append(dict(reader.differences()))
    return seen


def betting(x: np.ndarray, alpha: float) -> np.ndarray:
    """(looks, 2): the hedged capital interval of Waudby-Smith and Ramdas (2024), at each look."""
    t = np.arange(1, len(x) + 1)
    mean = (0.5 + np.cumsum(x)) / (t + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2)) / (t + 1)
    before = np.append(0.25, variance[:-1])
    bet = np.sqrt(2 * math.log(2 / alpha) / (before * t * np.log1p(t)))
    grid = np.linspace(0.0005, 0.9995, 1000)
    grid = grid[np.abs(grid - x.mean()) < 0.25]
    ends = np.empty((LOOKS, 2))
    capital = np.zeros((2, len(grid)))
    for k, part in enumerate(np.split(np.arange(len(x)), LOOKS)):
        gap = x[part, None] - grid
        up = np.minimum(bet[part, None], 0.5 / grid)
        down = np.minimum(bet[part, None], 0.5 / (1 - grid))
        capital[0] += np.log1p(up * gap).sum(axis=0)
        capital[1] += np.log1p(-down * gap).sum(axis=0)
        inside = grid[np.max(capital, axis=0) < math.log(2 / alpha)]
        ends[k] = (inside.min(), inside.max())
    return ends


def plain(seed: int, way: str) -> np.ndarray:
    """(looks, 2): ends of the difference of the last arm and the first, without privacy."""
    rng = np.random.default_rng(seed)
    first, last = ((rng.random(PEOPLE) < p).astype(float) for p in (CHANCES[0], CHANCES[-1]))
    n = PEOPLE // LOOKS * np.arange(1, LOOKS + 1)
    a, b = (np.cumsum(x)[n - 1] / n for x in (first, last))
    variance = (a * (1 - a) + b * (1 - b)) / n
    alpha = ALPHA / 3  # three pairs of arms
    if way == "betting":
        one, other = betting(first, alpha / 2), betting(last, alpha / 2)
        return np.stack([other[:, 0] - one[:, 1], other[:, 1] - one[:, 0]], axis=1)
    if way == "mSPRT":  # Johari, Koomen, Pekelis, Walsh (2022): mixture N(0, .01^2)
        tau = 0.01**2
        both = variance + tau
        evidence = 2 * math.log(1 / alpha) + np.log(both / variance)
        half = np.sqrt(variance * both / tau * evidence)
    else:
        half = -scipy.special.ndtri(alpha / 2) * np.sqrt(variance)
    return np.stack([b - a - half, b - a + half], axis=1)


def row(name: str, ends: np.ndarray) -> list[str]:
    """Half widths in percent at SHOWN, power, people at the first proof; ends (runs, looks, 2)."""
    half = np.median((ends[:, :, 1] - ends[:, :, 0]) / 2, axis=0) * 100
    proved = ends[:, :, 0] > 0
    first = np.where(proved.any(axis=1), (proved.argmax(axis=1) + 1) * (PEOPLE // LOOKS), np.inf)
    truth = CHANCES[-1] - CHANCES[0]
    held = ((ends[:, :, 0] <= truth) & (truth <= ends[:, :, 1])).all(axis=1)
    middle = float(np.median(first))
    people = f"{middle:,.0f}" if math.isfinite(middle) else "not proved"
    power, coverage = proved.any(axis=1).mean(), held.mean()
    return [name, *(f"{half[k]:.1f}" for k in SHOWN), f"{power:.2f}", people, f"{coverage:.3f}"]


def experiments(runs: int) -> None:
    """Three arms, the third one better by 2 percentage points."""
    table = new_table(
        f"A/B test: 10% against 12%, three arms, {LOOKS} looks, {runs} runs",
        ("way", "2,000", "8,000", "20,000 an arm", "power", "proved after", "coverage"),
    )
    aa = new_table(
        f"A/A test: a difference is shown at any look, {runs} runs",
        ("mechanism", *(f"epsilon = {e:g}" for e in EPSILONS)),
    )
    seeds = range(FIRST, FIRST + runs)
    for mechanism in ("running", "batches"):
        alarms = []
        for epsilon in EPSILONS:
            looks = [experiment(s, CHANCES, epsilon, mechanism) for s in seeds]
            found = [[look[0, 2] for look in run] for run in looks]
            ends = np.array([[(-u.high, -u.low) for u in run] for run in found])
            table.add_row(*row(f"{mechanism}, epsilon = {epsilon:g}", ends))
            alike = [experiment(s, (0.1,) * 3, epsilon, mechanism) for s in seeds]
            wrong = [
                any(u.low > 0 or u.high < 0 for look in run for u in look.values()) for run in alike
            ]
            alarms.append(f"{np.mean(wrong):.3f}")
        aa.add_row(mechanism, *alarms)
    for way in ("betting", "mSPRT", "z-test, each look alone"):
        table.add_row(*row(f"{way}, no privacy", np.array([plain(s, way) for s in seeds])))
    CONSOLE.print(table)
    CONSOLE.print(aa)


WORLDS = ("health insurance (RAND)", "even", "rare")
LEVELS = {"even": (0.5, 0.3), "rare": (0.02, 0.015)}  # chance of a reward: mean, and most more
T = 200_000


class Coins:
    """Rewards 0 or 1; five features, ten actions drawn anew for everybody."""

    reward_range = (0.0, 1.0)
    n_actions = 10
    dim = 5

    def __init__(self, name: str, seed: int) -> None:
        self.level, self.slope = LEVELS[name]
        self.theta = np.random.default_rng([seed, 7]).standard_normal(5)
        self.theta /= np.linalg.norm(self.theta)

    def people(self, n: int, rng: np.random.Generator, start: int = 0) -> People:
        rows = rng.standard_normal((n, 10, 5))
        rows /= np.linalg.norm(rows, axis=2, keepdims=True)
        means = self.level + self.slope * rows @ self.theta
        return People(rows, means, "zero-one", reward_range=self.reward_range)


def bandit_in(name: str, seed: int, epsilon: float) -> tuple[list[tuple[int, float]], int | None]:
    """Half widths of the uplift after each release, and when it was proved."""
    here = Coins(name, seed) if name in LEVELS else randhie_world()
    features = 5 if name in LEVELS else here.features.phi
    bandit = LinearBandit(
        features,
        T,
        epsilon,
        reward_range=here.reward_range,
        holdout=Holdout(0.05),
        seed=seed,
        noise=SeededNoise(seed),
    )
    play(bandit, here, T, seed=seed)
    bandit.turn()
    ends = np.cumsum([each.rounds for each in bandit.totals]).tolist()
    found = bandit.values()
    widths = [
        (n, math.inf if v.uplift is None else 100 * v.uplift.half_width)
        for n, v in zip(ends, found, strict=True)
    ]
    return widths, found[-1].proved


def at(widths: list[tuple[int, float]], rounds: int) -> float:
    """The half width after so many decisions, between releases by its logarithm."""
    known = [(math.log(n), math.log(w)) for n, w in widths if math.isfinite(w)]
    if not known or math.log(rounds) < known[0][0]:
        return math.inf
    x, y = zip(*known, strict=True)
    return math.exp(float(np.interp(math.log(rounds), x, y)))


def bandits(runs: int) -> None:
    """The gain over a hold-out of 5% that chooses blindly."""
    table = new_table(
        f"Gain of a bandit over its hold-out: half width in percentage points, {runs} runs",
        ("world", "epsilon", "10,000", "50,000", "200,000 decisions", "proved after", "proved"),
    )
    for name in WORLDS:
        for epsilon in (0.3, 1.0, 3.0):
            found = [bandit_in(name, seed, epsilon) for seed in range(FIRST, FIRST + runs)]
            half = [
                float(np.median([at(widths, n) for widths, _ in found]))
                for n in (10_000, 50_000, 200_000)
            ]
            proved = [math.inf if when is None else when for _, when in found]
            middle = float(np.median(proved))
            table.add_row(
                name,
                f"{epsilon:g}",
                *("-" if math.isinf(each) else f"{each:.1f}" for each in half),
                f"{middle:,.0f}" if math.isfinite(middle) else "-",
                f"{np.mean(np.isfinite(proved)):.0%}",
            )
    CONSOLE.print(table)


def coverage(runs: int) -> None:
    """All intervals of all releases together, and alarms without a gain, in simulated windows."""
    table = new_table(
        f"Hold-out of 5%, epsilon = 1, all releases up to 200,000: {runs} runs",
        ("policy and hold-out earn", "all intervals hold", "a gain is shown"),
    )
    stds = (50.0, 25.2, 9.2)  # as a bandit's at epsilon = 1
    for chances in ((0.78, 0.69), (0.5, 0.5), (0.02, 0.02), (0.5, 0.6)):
        held_all, alarms = [], []
        for seed in range(FIRST, FIRST + runs):
            rng = np.random.default_rng([seed, 3])
            windows, rounds = [], 0
            while rounds < T:
                n = max(254, rounds // 2)
                held = int(rng.binomial(n, 0.05))
                sums = rng.binomial([n - held, held], chances) + rng.normal(0, stds[1:])
                variances = tuple(std * std for std in stds)
                windows.append(Totals(n, held, n, *sums.tolist(), variances))
                rounds += n
            found = [v for v in values(windows, (0, 1), held_out=0.05, horizon=T) if v.mean]
            truths = (*chances, chances[0] - chances[1])
            held_all.append(
                all(
                    each.low <= truth <= each.high
                    for v in found
                    for each, truth in zip((v.mean, v.holdout, v.uplift), truths, strict=True)
                )
            )
            alarms.append(any(v.uplift.low > 0 or v.uplift.high < 0 for v in found))
        shown = f"{np.mean(alarms):.3f}" + ("" if chances[0] == chances[1] else " (there is one)")
        table.add_row(f"{chances[0]:g}, {chances[1]:g}", f"{np.mean(held_all):.3f}", shown)
    CONSOLE.print(table)


def logs(runs: int) -> None:
    """A uniform logger of two actions, 40% and 70%: the value of the second one."""
    n = 20_000
    table = new_table(
        f"Off-policy value, {n:,} decisions of a uniform logger: half width, coverage, {runs} runs",
        ("epsilon", "half width (%)", "coverage"),
    )

    def second(_: object) -> np.ndarray:
        return np.array([0.0, 1.0])

    for epsilon in (0.3, 1.0, 3.0, math.inf):
        held, half = [], []
        for seed in range(FIRST, FIRST + runs):
            rng = np.random.default_rng([seed, 5])
            sent = rng.integers(2, size=n)
            rewards = (rng.random(n) < np.where(sent == 1, 0.7, 0.4)).astype(float)
            found = evaluate(
                {"action": sent, "reward": rewards},
                second,
                epsilon,
                least_propensity=0.5,
                propensity=0.5,
                noise=SeededNoise(seed),
            )
            held.append(found.low <= 0.7 <= found.high)
            half.append(100 * found.half_width)
        name = "no privacy" if math.isinf(epsilon) else f"{epsilon:g}"
        table.add_row(name, f"{np.median(half):.2f}", f"{np.mean(held):.3f}")
    CONSOLE.print(table)


def main(runs: int) -> None:
    logs(runs)
    coverage(runs)
    bandits(max(runs // 80, 3))
    experiments(max(runs // 16, 3))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 600)
