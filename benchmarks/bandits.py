"""Private bandits against continual LinUCB and LinUCB: the tables of docs/bandits-why.md.

    python benchmarks/bandits.py [private] [lockin] [late] [drift]
                                 [joint] [policies] [growth] [free] [speed] [seeds] [from=SEED]

Without arguments everything, on 20 seeds, with local trust and the figure in their own scripts
(bandits_local.py, bandits_figures.py). Regret is pseudo-regret: means of the best minus means of
the chosen actions, summed over rounds. Set OMP_NUM_THREADS=1: two runs go side by side.
"""

import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from kit import CONSOLE, new_table, run, with_interval

from discreet.bandits import LinearBandit, Model, baselines
from discreet.bandits.policies import POLICIES, Elimination, Interval, Stage
from discreet.decisions import Policy
from discreet.environments import play
from discreet.environments.linear import drifting_world, linear_world
from discreet.experiments.measure import grid
from discreet.privacy import SeededNoise, Tree

FIRST = 1000  # seed, unless another is named; the defaults were tuned on 100 to 799
T = 50_000
SEEDS = 20  # of every part, by default
WIDTHS = (0.1, 0.3, 1.0)  # of non-private LinUCB, where it gets the best of them


@dataclass(frozen=True)
class Case:
    """A learner in a world."""

    learner: str
    world: str = "sphere"
    dim: int = 5
    noise: float = 0.1
    epsilon: float = 1.0
    marks: tuple[int, ...] = (T,)  # rounds at which regret is read; the last is the horizon


def printed_elimination(stage: Stage) -> Policy:
    """Elimination with the widths as printed: b = min(8 lam |W phi|, 2) (Algorithm 6, line 8).

    lam = sqrt(d log(1/delta) / N), W the root of the inverse Gram matrix, delta = 1/rounds.
    """
    belief = stage.belief
    d = len(stage.belief.mean)
    rows = max(belief.effective_rows, 1.0)
    values, vectors = np.linalg.eigh(belief.gram / rows)
    lam = math.sqrt(d * math.log(max(stage.rounds, 2)) / rows)
    root = vectors * np.maximum(values, lam**2 / d) ** -0.5
    return Elimination.narrowed(stage, Interval(belief.mean, root, 8 * lam))


POLICIES["elimination theory"] = printed_elimination


def make(case: Case, seed: int):
    """A learner by name, with nothing tuned for the world."""
    name, _, more = case.learner.partition(" ")
    d = case.dim
    horizon = case.marks[-1]
    zero_one = case.world in ("half", "tenth")
    common = {"reward_range": (0.0, 1.0) if zero_one else (-1.0, 1.0), "seed": seed}
    if name == "LinUCB":
        return baselines.LinUCB(d, horizon, width=float(more or 0.3), **common)
    common["noise"] = SeededNoise(seed)
    if name == "continual":
        tree = Tree(2, balanced=False)  # as published
        return baselines.ContinualLinUCB(
            d, horizon, case.epsilon, mechanism=tree if more == "tree" else more, **common
        )
    if name == "LocalLinUCB":
        return baselines.LocalLinUCB(d, horizon, case.epsilon, **common)
    if name == "LocalSGD":
        return baselines.LocalSGDBandit(d, horizon, case.epsilon, **common)
    if name in ("local", "shuffled"):
        return LinearBandit(d, horizon, case.epsilon, trust=name, **common)
    epsilon = math.inf if more == "without privacy" else case.epsilon
    if name in ("private", "same"):
        return LinearBandit(d, horizon, epsilon, **common)
    return LinearBandit(d, horizon, epsilon, policy=case.learner, **common)


def regret(*, seed: int, **values) -> dict[str, np.ndarray]:
    """Cumulative regret at the marks; every learner meets the same people and reward noise."""
    case = Case(**values)
    world = linear_world(case.world, case.dim, noise=case.noise, seed=seed)
    played = play(make(case, seed), world, case.marks[-1], seed=seed)
    return {"value": np.cumsum(played.regret)[np.array(case.marks) - 1]}


def runs(cases: Iterable[Case], seeds: int) -> dict[Case, np.ndarray]:
    """Regret of every case: (seeds, marks)."""
    wanted = {case: {name: (value,) for name, value in asdict(case).items()} for case in cases}
    chosen = range(FIRST, FIRST + seeds)
    found = run([cell for axes in wanted.values() for cell in grid(regret, seeds=chosen, **axes)])
    return {case: found.over(regret, **asdict(case)) for case in wanted}


# -- parts ----------------------------------------------------------------------------------------

JOINT = (  # world, dim, noise, the target: at most so much, or continual BLT's regret
    ("sphere", 5, 0.1, 150), ("sphere", 20, 0.1, 350), ("sphere", 5, 0.3, 190),
    ("sphere", 20, 0.3, 520), ("short", 5, 0.1, 330), ("decay", 5, 0.1, 200),
    ("fixed", 5, 0.1, 400), ("rare", 5, 0.1, "blt"), ("basis", 5, 0.1, None),
    ("sign", 5, 0.1, None), ("half", 5, 0.1, "blt"), ("tenth", 5, 0.1, "blt"),
)  # fmt: skip
LEARNERS = ("private", "continual blt", "continual tree", "LinUCB")


def private(seeds: int) -> None:
    cases = {(w, d, n): Case("private", w, d, n) for w, d, n, _ in JOINT}
    found = runs(cases.values(), seeds)
    table = new_table(
        f"LinearBandit, defaults: regret at T = {T:,}, epsilon = 1, delta = 1e-6, 10 actions, "
        f"{seeds} seeds from {FIRST}",
        ("world", "d", "noise", "mean ± 95%", "median", "largest"),
    )
    for (world, d, noise), case in cases.items():
        values = found[case][:, 0]
        table.add_row(world, str(d), f"{noise:g}", with_interval(values),
                      f"{np.median(values):,.0f}", f"{values.max():,.0f}")  # fmt: skip
    CONSOLE.print(table)


def lockin(seeds: int) -> None:
    found = runs((Case("private", world) for world in ("fixed", "basis")), seeds)
    table = new_table(
        f"Runs that stay with a wrong action: {seeds} seeds from {FIRST}, T = {T:,}",
        ("world", "mean ± 95%", "median", "largest", "runs above 1,500"),
    )
    for case, values in found.items():
        table.add_row(case.world, with_interval(values[:, 0]), f"{np.median(values):,.0f}",
                      f"{values.max():,.0f}", str(int((values > 1500).sum())))  # fmt: skip
    CONSOLE.print(table)


def late_regret(*, seed: int, delay: int, answered: float) -> dict[str, np.ndarray]:
    """Regret on the sphere; a round against blind choice, of all and of the worst thousand; at end.

    The worst thousand is of expected regret, given the policy: the luck of a thousand blind choices
    alone is worth .05.
    """
    world = linear_world("sphere", 5, seed=seed)
    context_rng = np.random.default_rng([seed, 1])
    reward_rng = np.random.default_rng([seed, 2])
    people = world.people(T, context_rng)
    answers = np.random.default_rng([seed, 5]).random(T) < answered
    bandit = make(Case("private"), seed)
    lost = np.empty(T)
    expected = np.empty(T)
    waiting: list = []
    done = 0
    while done < T:
        step = min(bandit.rounds_until_release, T - done, max(delay // 4, 1) if delay else T)
        some = people[done : done + step]
        chosen = bandit.decide_many(some.features)
        lost[done : done + step] = some.regret(chosen.action)
        likely = bandit.policy.probabilities(some.features)
        expected[done : done + step] = some.best - (likely * some.means).sum(axis=1)
        rewards = np.where(
            answers[done : done + step], some.rewards(chosen.action, reward_rng), np.nan
        )
        done += step
        waiting.append((done + delay, chosen, rewards))
        while waiting and waiting[0][0] <= done:
            bandit.learn_many(*waiting.pop(0)[1:])
    blind = people.best - people.means.mean(axis=1)
    worst = (expected - blind).reshape(-1, 1000).mean(axis=1).max()
    last = lost[-T // 10 :].mean()
    return {"value": np.array([lost.sum(), lost.mean() - blind.mean(), worst, last])}


def late(seeds: int) -> None:
    wanted = [{"delay": delay, "answered": 1.0} for delay in (0, 500, 2000, 5000)]
    wanted += [{"delay": 0, "answered": share} for share in (0.3, 0.1, 0.03, 0.01)]
    chosen = range(FIRST, FIRST + seeds)
    cells = []
    for each in wanted:
        cells += grid(late_regret, seeds=chosen, **{name: (v,) for name, v in each.items()})
    found = run(cells)
    table = new_table(
        f"Sphere, d = 5, T = {T:,}: late and missing rewards, {seeds} seeds from {FIRST}",
        ("rounds late", "answered", "regret", "worst run against blind choice, a round",
         "its worst thousand", "regret a round at the end"),
    )  # fmt: skip
    for each in wanted:
        values = found.over(late_regret, **each)
        table.add_row(f"{each['delay']:,}", f"{each['answered']:.0%}", with_interval(values[:, 0]),
                      f"{values[:, 1].max():+.3f}", f"{values[:, 2].max():+.3f}",
                      f"{values[:, 3].mean():.4f}")  # fmt: skip
    CONSOLE.print(table)


def moving_regret(*, seed: int, world: str, half_life) -> dict[str, float]:
    """Regret where theta moves, or does not."""
    if world in ("drift", "switch"):
        place = drifting_world(world, 5, seed=seed)
    else:
        place = linear_world(world, 5, seed=seed)
    bandit = LinearBandit(
        5, T, seed=seed, noise=SeededNoise(seed), model=Model(half_life=half_life)
    )
    return {"value": float(play(bandit, place, T, seed=seed).regret.sum())}


def drift(seeds: int) -> None:
    worlds = ("drift", "switch", "sphere", "fixed")
    lives = (None, 1000, 500, 250, "auto")
    chosen = range(FIRST, FIRST + seeds)
    found = run(grid(moving_regret, seeds=chosen, world=worlds, half_life=lives))
    table = new_table(f"Regret at T = {T:,} by half-life, {seeds} seeds from {FIRST}",
                      ("half_life", *worlds))  # fmt: skip
    for half_life in lives:
        cells = (found.over(moving_regret, world=w, half_life=half_life) for w in worlds)
        table.add_row(str(half_life), *(with_interval(values) for values in cells))
    CONSOLE.print(table)


def joint(seeds: int) -> None:
    found = runs((Case(name, world, d, noise) for world, d, noise, _ in JOINT
                           for name in LEARNERS), seeds)  # fmt: skip
    table = new_table(
        f"Regret at T = {T:,}, 10 actions, epsilon = 1, delta = 1e-6: mean ± 95%, {seeds} seeds",
        ("world", "d", "noise", "private", "largest", "target", "blt", "tree", "LinUCB",
         "blt / private", "tree / private", "d / epsilon"),
    )  # fmt: skip
    for world, d, noise, target in JOINT:
        ours, blt, tree, plain = (found[Case(name, world, d, noise)][:, 0] for name in LEARNERS)
        table.add_row(
            world, str(d), {"sign": "±1", "half": "0/1", "tenth": "0/1"}.get(world, f"{noise:g}"),
            with_interval(ours), f"{ours.max():,.0f}",
            {None: "-", "blt": f"{blt.mean():,.0f} (blt)"}.get(target, str(target)),
            with_interval(blt), with_interval(tree), with_interval(plain),
            f"{blt.mean() / ours.mean():.2f}", f"{tree.mean() / ours.mean():.2f}", f"{d:g}",
        )  # fmt: skip
    CONSOLE.print(table)
    CONSOLE.print("Targets on the sphere: 2.3 times below blt, 4.5 times below the tree.")


def policies(seeds: int) -> None:
    names = ("ucb", "thompson", "greedy", "squarecb", "elimination", "elimination theory")
    worlds = (("sphere", 5), ("sphere", 20), ("fixed", 5))
    found = runs((Case(name, *world) for name in names for world in worlds), seeds)
    table = new_table(
        f"Regret at T = {T:,} by policy: mean ± 95% (largest), {seeds} seeds; ucb is the default",
        ("policy", *(f"{world}, d = {d}" for world, d in worlds)),
    )
    for name in names:
        cells = (found[Case(name, *world)][:, 0] for world in worlds)
        table.add_row(name, *(f"{with_interval(values)} ({values.max():,.0f})" for values in cells))
    CONSOLE.print(table)


def growth(seeds: int) -> None:
    worlds = (("sphere", 5), ("sphere", 20), ("rare", 5))
    marks = (100_000, 200_000)
    names = ("private", "continual blt")
    found = runs((Case(name, *world, marks=marks) for world in worlds for name in names),
                 seeds)  # fmt: skip
    table = new_table(
        f"Regret from 100,000 to 200,000 rounds, {seeds} seeds; target: at most 15% more",
        ("world", "d", "learner", *(f"{mark:,}" for mark in marks), "growth"),
    )
    for case, curve in found.items():
        first, last = curve.mean(axis=0)
        table.add_row(case.world, str(case.dim), case.learner, with_interval(curve[:, 0]),
                      with_interval(curve[:, 1]), f"{100 * (last / first - 1):.1f}%")  # fmt: skip
    CONSOLE.print(table)
    marks = (9 * T // 10, T)
    (curve,) = runs([Case("private", "fixed", marks=marks)], seeds).values()
    first, last = curve.mean(axis=0)
    late = 1 - curve[:, 0] / curve[:, 1]
    CONSOLE.print(
        f"fixed actions with a gap, {len(curve)} seeds: the last tenth of {T:,} rounds adds "
        f"{100 * (1 - first / last):.2f}% of the regret (target: under 3%), in the worst run "
        f"{100 * late.max():.1f}%; regret {with_interval(curve[:, 1])}, "
        f"largest {curve[:, 1].max():.0f}"
    )


def free(seeds: int) -> None:
    marks = (10_000, 100_000, 1_000_000)
    plain = tuple(f"LinUCB {width:g}" for width in WIDTHS)
    names = ("private", "same without privacy", *plain)
    found = runs((Case(name, "sign", marks=marks) for name in names), seeds)
    table = new_table(
        f"Rewards +1 and -1, d = 5, epsilon = 1: regret, and ratio to LinUCB; {seeds} seeds",
        ("learner", *(f"T = {mark:,}" for mark in marks)),
    )
    regrets = {name: found[Case(name, "sign", marks=marks)] for name in names}
    for name, curve in regrets.items():
        table.add_row(name, *(with_interval(column) for column in curve.T))
    means = {name: curve.mean(axis=0) for name, curve in regrets.items()}
    best = np.min([means[name] for name in plain], axis=0)
    against = {"LinUCB 0.3": means["LinUCB 0.3"], "LinUCB, best width at each T": best,
               "same without privacy": means["same without privacy"]}  # fmt: skip
    for name, base in against.items():
        table.add_row(f"private / {name}", *(f"{r:.2f}" for r in means["private"] / base))
    CONSOLE.print(table)


# -- speed ----------------------------------------------------------------------------------------


class _TwelveLines:
    """Disjoint LinUCB by Sherman-Morrison: what one would write without a library."""

    def __init__(self, actions, dim, alpha=0.3):
        self.inverse = np.tile(np.eye(dim), (actions, 1, 1))
        self.alpha = alpha
        self.b = np.zeros((actions, dim))

    def decide(self, x):  # (actions, dim)
        u = np.matmul(self.inverse, x[:, :, None])[:, :, 0]
        bonus = np.sqrt(np.einsum("ad,ad->a", x, u))
        return int(np.argmax(np.einsum("ad,ad->a", self.b, u) + self.alpha * bonus))

    def learn(self, x, a, reward):
        u = self.inverse[a] @ x[a]
        self.inverse[a] -= np.outer(u, u) / (1 + x[a] @ u)
        self.b[a] += reward * x[a]


def seconds(work: Callable[[], None], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    work()
    return clock() - start


def speed(repeats: int) -> None:
    d = 20
    actions = 10
    one = 4_000
    many = 100_000
    world = linear_world("sphere", d, actions=actions, seed=FIRST)
    rng = np.random.default_rng(FIRST)
    people = world.people(many, rng)
    features = people.features
    rewards = np.column_stack([people.rewards(np.full(many, a), rng) for a in range(actions)])

    def twelve() -> None:
        learner = _TwelveLines(actions, d)
        for x, y in zip(features[:one], rewards[:one], strict=True):
            action = learner.decide(x)
            learner.learn(x, action, y[action])

    def single() -> None:
        learner = LinearBandit(d, one, seed=0, noise=SeededNoise(0))
        for x, y in zip(features[:one], rewards[:one], strict=True):
            decision = learner.decide(x)
            learner.learn(decision, y[decision.action])

    turns = []

    def windows() -> None:
        learner = LinearBandit(d, many, seed=0, noise=SeededNoise(0))
        while (done := learner.rounds) < many:
            turns.append(seconds(learner.turn, time.process_time))
            end = min(many, done + learner.rounds_until_release)
            chosen = learner.decide_many(features[done:end])
            learner.learn_many(chosen, rewards[np.arange(done, end), chosen.action])
        learner.decide(features[0])  # the last release

    # Processor time, interleaved: what else the machine does hits all three alike, or none.
    jobs = ((twelve, one), (single, one), (windows, many))
    times = np.array([[seconds(work, time.process_time) / rounds for work, rounds in jobs]
                      for _ in range(repeats)])  # fmt: skip
    base, single_time, window_time = np.median(times, axis=0) * 1e6
    ratios = np.median(times[:, :1] / times[:, 1:], axis=0)
    table = new_table(
        f"Decide and learn, d = {d}, {actions} actions, one process: median of {len(times)}",
        ("", "microseconds a round", "times as fast", "target"),
    )
    table.add_row("12 lines of numpy, Sherman-Morrison, disjoint", f"{base:.1f}", "1", "")
    table.add_row("decide, learn", f"{single_time:.1f}", f"{ratios[0]:.2f}", "0.95")
    table.add_row(f"decide_many, learn_many, {many:,} rounds, releases included",
                  f"{window_time:.2f}", f"{ratios[1]:.1f}", "25")  # fmt: skip
    table.add_row("of these a release and the next window", f"{np.median(turns) * 1e6:,.0f} each",
                  "", "1,500")  # fmt: skip
    CONSOLE.print(table)


PARTS = {
    "private": private,
    "lockin": lockin,
    "late": late,
    "drift": drift,
    "joint": joint,
    "policies": policies,
    "growth": growth,
    "free": free,
    "speed": speed,
}


def main(parts: dict[str, Callable[[int], None]], arguments: Sequence[str]) -> None:
    """Run the parts that are named, or all; a number is that of seeds."""
    global FIRST
    FIRST = next((int(each[5:]) for each in arguments if each.startswith("from=")), FIRST)
    arguments = [each for each in arguments if not each.startswith("from=")]
    asked = [each for each in arguments if not each.isdigit()] or list(parts)
    seeds = next((int(each) for each in arguments if each.isdigit()), SEEDS)
    unknown = ", ".join(set(asked) - set(parts))
    if unknown:
        sys.exit(f"unknown: {unknown}; parts are {', '.join(parts)}")
    for name in asked:
        took = seconds(lambda name=name: parts[name](seeds))
        CONSOLE.print(f"{name}: {took:.0f} s")


if __name__ == "__main__":
    main(PARTS, sys.argv[1:])
