"""What is it worth? Private intervals beside those without privacy, on the same data.

    python benchmarks/evaluation.py [runs] [part ...]      # 600; all of PARTS

Tables of docs/evaluation.md: A/B tests of three arms with fifty looks, of coins and of values that
are none, bandits with a hold-out on three worlds and in simulated windows, logs of two loggers.
delta = 1e-6. For A/A tests and simulated windows 5/3 of the runs, for slow parts fewer. Seeds from
FIRST on; none was used to choose anything. Set OMP_NUM_THREADS=1.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import scipy
from kit import CONSOLE, new_table

from discreet.bandits import Holdout, LinearBandit, People
from discreet.bandits.window import EARNED, HELD, sensitivity
from discreet.environments import play
from discreet.environments.people import People as Offered
from discreet.environments.randhie import randhie_world
from discreet.evaluation import evaluate
from discreet.evaluation.intervals import SPREAD
from discreet.evaluation.looks import Reader
from discreet.evaluation.totals import BatchTotals, ExperimentTotals, RunningTotals
from discreet.evaluation.worth import Totals, values
from discreet.privacy import Budget, SeededNoise

FIRST = 5000
EPSILONS = (0.3, 1.0, 3.0)
ALPHA = 0.05
LOOKS, PEOPLE = 50, 20_000  # in each arm at the end
SHOWN = (4, 19, 49)  # looks at 2,000, 8,000 and 20,000
COINS = (0.1, 0.1, 0.12)  # chances, arm by arm
RATINGS = (0.3, 0.3, 0.315)  # means of values between 0 and 1 that have
CALM = 0.1  # this standard deviation


def people(seed: int, means: Sequence[float], std: float | None = None) -> np.ndarray:
    """(arms, PEOPLE): coins of these chances, or beta-distributed values."""
    rng = np.random.default_rng(seed)
    if std is None:
        return (rng.random((len(means), PEOPLE)) < np.array(means)[:, None]).astype(float)
    sizes = [m * (1 - m) / std**2 - 1 for m in means]
    return np.stack(
        [rng.beta(m * n, (1 - m) * n, PEOPLE) for m, n in zip(means, sizes, strict=True)]
    )


class Experiment:
    """Looks at three arms through one mechanism, as `ABTest` takes them.

    spreads   whether y (1 - y) is read too
    """

    def __init__(self, epsilon: float, mechanism: str, spreads: bool = True) -> None:
        self.budget = Budget(epsilon, 1e-6)
        self.running = mechanism == "running"
        self.spreads = spreads

    def readers(self, seed: int, y: np.ndarray) -> Iterator[Reader]:
        """What is known after each look: the same reader, as it goes on."""
        arms, noise = len(y), SeededNoise(seed)
        totals: ExperimentTotals = BatchTotals(2 * arms, self.budget, noise)
        if self.running:
            totals = RunningTotals(2 * arms, self.budget, LOOKS, noise)
        reader = Reader(LOOKS if self.running else 0, ALPHA, arms)
        batches = y.reshape(arms, LOOKS, -1)
        terms = np.stack([batches.sum(axis=2), SPREAD * (batches * (1 - batches)).sum(axis=2)])
        n = PEOPLE // LOOKS
        for k in range(LOOKS):
            std = totals.std
            totals.add(terms[:, :, k].ravel())
            (sums, calm), totals = (found := totals.closed())[0].reshape(2, -1), found[1]
            sizes = [n * (k + 1) if self.running else n] * arms
            read = (calm / SPREAD).tolist() if self.spreads else None
            reader.take(sizes, sums.tolist(), [std] * arms, read)
            yield reader

    def ends(self, seed: int, y: np.ndarray, truth: Sequence[float]) -> tuple[np.ndarray, bool]:
        """(looks, 2): the last arm less the first; and whether all intervals of all looks hold.

        Ends are computed at SHOWN alone. Elsewhere only whether the lower one is above 0 (1 or -1):
        from bets, as is whether intervals hold.
        """
        found, held, last = [], True, (0, len(y) - 1)
        for k, reader in enumerate(self.readers(seed, y)):
            if not reader.speaks:
                found.append((-1.0, 1.0))
                continue
            earned = reader._differences()
            limit = reader.limit
            for (i, j), each in earned.items():
                held &= each.against(reader.bets, truth[i] - truth[j]) < limit
            for each, mean in zip(reader.shown, truth, strict=True):
                held &= each.low <= mean <= each.high
            if k in SHOWN:
                u = reader.differences()[last]
                found.append((-u.high, -u.low))
            else:
                one = earned[last]
                proved = one.estimate < 0 and one.against(reader.bets, 0.0) >= limit
                found.append((1.0 if proved else -1.0, 1.0))
        return np.array(found), held


def betting(x: np.ndarray, alpha: float) -> np.ndarray:
    """(looks, 2): the hedged capital interval of Waudby-Smith and Ramdas (2024), at each look."""
    t = np.arange(1, len(x) + 1)
    mean = (0.5 + np.cumsum(x)) / (t + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2)) / (t + 1)
    before = np.append(0.25, variance[:-1])
    bet = np.sqrt(2 * math.log(2 / alpha) / (before * t * np.log1p(t)))
    grid = np.linspace(0.0005, 0.9995, 1000)
    grid = grid[np.abs(grid - x.mean()) < 0.06]
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


def plain(y: np.ndarray, way: str) -> np.ndarray:
    """(looks, 2): ends of the difference of the last arm and the first, without privacy."""
    first, last = y[0], y[-1]
    n = PEOPLE // LOOKS * np.arange(1, LOOKS + 1)
    a, b = (np.cumsum(x)[n - 1] / n for x in (first, last))
    spread = sum(np.cumsum(x * x)[n - 1] / n - m * m for x, m in ((first, a), (last, b)))
    variance = spread / n
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


def row(name: str, ends: np.ndarray, truth: float, held: Sequence[bool]) -> list[str]:
    """Half widths in percent at SHOWN, power, people at the first proof; ends (runs, looks, 2)."""
    half = np.median((ends[:, :, 1] - ends[:, :, 0]) / 2, axis=0) * 100
    proved = ends[:, :, 0] > 0
    first = np.where(proved.any(axis=1), (proved.argmax(axis=1) + 1) * (PEOPLE // LOOKS), np.inf)
    middle = float(np.median(first))
    when = f"{middle:,.0f}" if math.isfinite(middle) else "not proved"
    digits = 1 if truth > 0.01 else 2
    widths = (f"{half[k]:.{digits}f}" for k in SHOWN)
    return [name, *widths, f"{proved.any(axis=1).mean():.2f}", when, f"{np.mean(held):.3f}"]


PLAIN = ("betting", "mSPRT", "z-test, each look alone")
COLUMNS = ("way", "2,000", "8,000", "20,000 an arm", "power", "proved after", "coverage")


def compared(
    title: str, means: Sequence[float], std: float | None, ours: dict[str, Experiment], runs: int
) -> None:
    """Ours and what people use, on the same people."""
    table = new_table(f"{title}, three arms, {LOOKS} looks, {runs} runs", COLUMNS)
    truth = means[-1] - means[0]
    seeds = range(FIRST, FIRST + runs)
    for name, way in ours.items():
        found = [way.ends(seed, people(seed, means, std), means) for seed in seeds]
        ends, held = zip(*found, strict=True)
        table.add_row(*row(name, np.array(ends), truth, held))
    for way in PLAIN:
        ends = np.array([plain(people(seed, means, std), way) for seed in seeds])
        held = ((ends[:, :, 0] <= truth) & (truth <= ends[:, :, 1])).all(axis=1)
        table.add_row(*row(f"{way}, no privacy", ends, truth, held))
    CONSOLE.print(table)


TAKEN = (("running", 0.3), ("running", 1.0), ("batches", 3.0))  # by `ABTest`
OTHERS = (("batches", 0.3), ("batches", 1.0), ("running", 3.0))


def coins(runs: int, ways: Sequence[tuple[str, float]] = TAKEN, title: str = "A/B test") -> None:
    """Three arms, the third one better by 2 percentage points."""
    ours = {f"{way}, epsilon = {e:g}": Experiment(e, way) for way, e in ways}
    compared(f"{title}: 10% against 12%", COINS, None, ours, runs)


def ratings(runs: int) -> None:
    """Values that are no coins: what their spread is worth."""
    ours = {
        f"running, epsilon = {epsilon:g}{words}": Experiment(epsilon, "running", spreads)
        for epsilon in (0.3, 1.0)
        for spreads, words in ((True, ""), (False, ", as if they were coins"))
    }
    title = f"A/B test: ratings with a deviation of {CALM:g}, .3 against .315"
    compared(title, RATINGS, CALM, ours, runs // 3)


def alike(runs: int) -> None:
    """Three arms of 10%, by the mechanism that `ABTest` takes."""
    runs = runs * 5 // 3
    table = new_table(
        f"A/A test: a difference is shown at any of {LOOKS} looks, {runs} runs",
        ("arms", *(f"epsilon = {e:g}" for e in EPSILONS)),
    )
    shown = []
    for epsilon in EPSILONS:
        way = Experiment(epsilon, "running" if epsilon <= 1 else "batches")
        wrong = 0
        for seed in range(FIRST, FIRST + runs):
            *_, last = way.readers(seed, people(seed, (0.1,) * 3))
            wrong += min(last.p_values.values()) < ALPHA  # the least of all looks
        shown.append(f"{wrong / runs:.3f}")
    table.add_row("three, of 10%", *shown)
    CONSOLE.print(table)


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

    def people(self, n: int, rng: np.random.Generator, start: int = 0) -> Offered:
        rows = rng.standard_normal((n, 10, 5))
        rows /= np.linalg.norm(rows, axis=2, keepdims=True)
        means = self.level + self.slope * rows @ self.theta
        return Offered(rows, means, "zero-one", reward_range=self.reward_range)


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
        for epsilon in (*EPSILONS, math.inf):
            found = [bandit_in(name, seed, epsilon) for seed in range(FIRST, FIRST + runs)]
            half = [
                float(np.median([at(widths, n) for widths, _ in found]))
                for n in (10_000, 50_000, 200_000)
            ]
            proved = [math.inf if when is None else when for _, when in found]
            middle = float(np.median(proved))
            table.add_row(
                name,
                "no privacy" if math.isinf(epsilon) else f"{epsilon:g}",
                *("-" if math.isinf(each) else f"{each:.1f}" for each in half),
                f"{middle:,.0f}" if math.isfinite(middle) else "-",
                f"{np.mean(np.isfinite(proved)):.0%}",
            )
    CONSOLE.print(table)


SIMULATED = {  # what the policy and the hold-out earn, and their deviation, if they are no coins
    "insurance: 0.78, 0.69": (0.78, 0.69, None),
    "even, alike: 0.5, 0.5": (0.5, 0.5, None),
    "even: 0.6, 0.5": (0.6, 0.5, None),
    "rare, alike: 0.02, 0.02": (0.02, 0.02, None),
    "rare: 0.03, 0.02": (0.03, 0.02, None),
    "ratings, alike: 0.3, 0.3": (0.3, 0.3, CALM),
    "ratings: 0.32, 0.3": (0.32, 0.3, CALM),
}


def windows(
    seed: int, chances: tuple[float, float], deviation: float | None, epsilon: float
) -> list[Totals]:
    """Releases of a bandit whose groups earn this, up to T."""
    rng = np.random.default_rng([seed, 3])
    mu = Budget(epsilon, 1e-6).mu
    std = sensitivity(Holdout(0.05), People(rounds=1)) / mu
    stds = (std / EARNED, std / HELD)
    found, rounds = [], 0
    while rounds < T:
        n = max(254, rounds // 2)
        held = int(rng.binomial(n, 0.05))
        sums, spreads = [], []
        for size, m, noise in zip((n - held, held), chances, stds, strict=True):
            if deviation is None:
                total, calm = float(rng.binomial(size, m)), 0.0
            else:
                k = m * (1 - m) / deviation**2 - 1
                y = rng.beta(m * k, (1 - m) * k, size)
                total, calm = float(y.sum()), float((y * (1 - y)).sum())
            sums.append(total + rng.normal(0, noise))
            spreads.append(calm + rng.normal(0, noise / SPREAD))
        variances = (0.0, stds[0] ** 2, stds[1] ** 2)
        found.append(Totals(n, held, n, *sums, variances, spreads=tuple(spreads)))
        rounds += n
    return found


def coverage(runs: int) -> None:
    """All intervals of all releases together, and alarms without a gain, in simulated windows."""
    runs = runs * 5 // 3
    table = new_table(
        f"Hold-out of 5%, epsilon = 1, all releases up to 200,000: {runs} runs",
        ("policy and hold-out earn", "all intervals hold", "a gain is shown", "half width (%)",
         "without the spread"),
    )  # fmt: skip
    for name, (policy, holdout, deviation) in SIMULATED.items():
        chances = (policy, holdout)
        truths = (*chances, policy - holdout)
        held_all, alarms, half, wide = [], [], [], []
        for seed in range(FIRST, FIRST + runs):
            releases = windows(seed, chances, deviation, 1.0)
            found = [v for v in values(releases, (0, 1), held_out=0.05, horizon=T) if v.mean]
            held_all.append(
                all(
                    each.low <= truth <= each.high
                    for v in found
                    for each, truth in zip((v.mean, v.holdout, v.uplift), truths, strict=True)
                )
            )
            alarms.append(any(v.uplift.low > 0 or v.uplift.high < 0 for v in found))
            half.append(found[-1].uplift.half_width)
            if seed < FIRST + 100:
                blind = [replace(each, spreads=(0.0, 0.0)) for each in releases]
                last = values(blind, (0, 1), held_out=0.05, horizon=T)[-1]
                wide.append(last.uplift.half_width)
        shown = f"{np.mean(alarms):.3f}" + ("" if policy == holdout else " (there is one)")
        widths = (f"{100 * np.median(each):.2f}" for each in (half, wide))
        table.add_row(name, f"{np.mean(held_all):.3f}", shown, *widths)
    CONSOLE.print(table)


LOGGERS = {"uniform": 0.5, "adverse: 2%": 0.02}  # chance of the action that the policy takes


def logs(runs: int) -> None:
    """Two actions, 40% and 70%: the value of the second one."""
    n = 20_000
    table = new_table(
        f"Off-policy value, {n:,} decisions: half width in percentage points, {runs} runs",
        ("logger", "epsilon", "half width", "coverage"),
    )

    def second(_: object) -> np.ndarray:
        return np.array([0.0, 1.0])

    for logger, chance in LOGGERS.items():
        for epsilon in (*EPSILONS, math.inf):
            held, half = [], []
            for seed in range(FIRST, FIRST + runs):
                rng = np.random.default_rng([seed, 5])
                sent = (rng.random(n) < chance).astype(int)
                rewards = (rng.random(n) < np.where(sent == 1, 0.7, 0.4)).astype(float)
                found = evaluate(
                    {"action": sent, "reward": rewards, "p": np.where(sent, chance, 1 - chance)},
                    second,
                    epsilon,
                    least_propensity=chance,
                    noise=SeededNoise(seed),
                )
                held.append(found.low <= 0.7 <= found.high)
                half.append(100 * found.half_width)
            name = "no privacy" if math.isinf(epsilon) else f"{epsilon:g}"
            table.add_row(logger, name, f"{np.median(half):.2f}", f"{np.mean(held):.3f}")
    CONSOLE.print(table)


PARTS = {
    "logs": logs,
    "coverage": coverage,
    "coins": coins,
    "bandits": lambda runs: bandits(max(runs // 50, 3)),
    "ratings": ratings,
    "others": lambda runs: coins(runs // 6, OTHERS, "A/B test, the other mechanism"),
    "alike": alike,
}


def main(runs: int, parts: Sequence[str]) -> None:
    for name in parts:
        PARTS[name](runs)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 600, sys.argv[2:] or list(PARTS))
