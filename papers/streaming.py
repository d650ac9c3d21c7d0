"""Han et al. (2022): Tables 2 to 4, rates in every geometry, and what the printed noise gives.

paper   T, d, p          SubOpt            sigma_+, kappa_q, |.|_+
here    rounds, dim, p   what is left      `printed_noise`
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.bandits import SparseBandit
from discreet.domains import LpBall
from discreet.environments import play
from discreet.experiments.measure import Found, Measurement, grid
from discreet.optimization import StreamingFrankWolfe
from discreet.privacy import SeededNoise
from papers.every_round import EveryRound
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
from papers.optimizers import NoisySFW, NoisySGD
from papers.slopes import slope
from papers.sparse_arms import sparse_arms
from papers.streaming_constants import code, noise, printed_noise, sign_leak

PLACES = ((1000, 5), (1000, 10), (2000, 5), (2000, 10))
# Printed in Tables 3 and 4: mean and spread of ten runs.
PRINTED = {
    1.5: ((0.017, 0.010), (0.20, 0.048), (0.0024, 0.001), (0.060, 0.032)),
    math.inf: ((0.036, 0.022), (0.092, 0.021), (0.015, 0.0059), (0.058, 0.013)),
}
OTHER = {  # NoisySFW at p = 1.5, NoisySGD at p = inf
    1.5: ((0.52, 0.057), (0.95, 0.095), (0.44, 0.029), (0.89, 0.069)),
    math.inf: ((0.026, 0.018), (0.053, 0.015), (0.013, 0.0037), (0.038, 0.013)),
}
TEST = 10_000
STEPS = (0.3, 1.0, 3.0, 10.0)  # factors for the baselines' steps: the best one counts
GEOMETRIES = {1.0: "p = 1", 1.5: "p = 1.5", 2.0: "p = 2", math.inf: "p = inf"}
ARMS = 5
DIM = 1000
MARKS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
BUDGETS = (1.0, 3.0, 10.0, math.inf)


def _horizons(quick: bool) -> tuple[int, ...]:
    return (1000, 4000) if quick else (1000, 4000, 16_000)


def _dims(quick: bool) -> tuple[int, ...]:
    return (100, 1000) if quick else (100, 1000, 10_000, 100_000)


def _arm_rounds(quick: bool) -> tuple[int, ...]:
    return (5000, 10_000) if quick else (5000, 10_000, 20_000, 40_000)


# -- cells ----------------------------------------------------------------------------------------


def _rows(rounds: int, dim: int, p: float, size: float, seed: int) -> tuple[Array, Array, Array]:
    """Rows of unit l_q norm (and a test set), labels, and theta = size x ones of unit l_p norm."""
    rng = np.random.default_rng([seed, rounds, dim])
    q = 1.0 if math.isinf(p) else p / (p - 1)
    X = rng.normal(size=(rounds + TEST, dim))
    X /= np.linalg.norm(X, q, axis=1, keepdims=True)
    theta = size * np.full(dim, dim ** (-1 / p))
    return X, X @ theta + 0.05 * rng.normal(size=len(X)), theta


def suboptimality(
    *, rounds: int, dim: int, p: float, how: str, step: float, seed: int
) -> Mapping[str, float]:
    """Fraction of the excess risk of theta = 0 that is left, at (1, 1/T)-DP, as in the paper."""
    X, y, theta = _rows(rounds, dim, p, 1.0, seed)
    domain = LpBall(p, dim)
    noise = SeededNoise(seed)
    delta = 1 / rounds
    if how in ("ours", "plain"):
        epsilon = 1.0 if how == "ours" else math.inf
        learner = StreamingFrankWolfe(domain, rounds, epsilon, delta, noise=noise)
        for row, label in zip(X[:rounds], y[:rounds], strict=True):
            learner.learn(row, label)
        found = learner.theta
    elif how == "NoisySFW":
        fit = NoisySFW(domain, 1.0, delta, step=step, noise=noise)
        found = fit.fit(X[:rounds], y[:rounds]).theta
    else:
        many = NoisySGD(domain, 1.0, delta, passes=20, step=step, gradient_bound=0.3, noise=noise)
        found = many.fit(X[:rounds], y[:rounds]).theta
    risks = [float(np.mean((y[rounds:] - X[rounds:] @ v) ** 2)) for v in (found, theta, 0 * theta)]
    return {"value": (risks[0] - risks[1]) / (risks[2] - risks[1])}


def excess(*, rounds: int, dim: int, p: float, size: float, seed: int) -> Mapping[str, float]:
    """E (x . (theta^ - theta))^2 on fresh rows, epsilon = 1, delta = 1/T."""
    if p == 1:
        return {"value": _one_norm(rounds, dim, size, seed)}
    X, y, theta = _rows(rounds, dim, p, size, seed)
    learner = StreamingFrankWolfe(LpBall(p, dim), rounds, 1.0, 1 / rounds, noise=SeededNoise(seed))
    for row, label in zip(X[:rounds], y[:rounds], strict=True):
        learner.learn(row, label)
    return {"value": float(np.mean((X[rounds:] @ (learner.theta - theta)) ** 2))}


def _one_norm(rounds: int, dim: int, size: float, seed: int) -> float:
    """Signs as rows, four entries of theta: the excess risk is |theta^ - theta|_2^2."""
    rng = np.random.default_rng([seed, rounds, dim])
    theta = np.zeros(dim)
    theta[:4] = size * np.array([0.4, -0.3, 0.2, -0.1])
    learner = StreamingFrankWolfe(LpBall(1, dim), rounds, 1.0, 1 / rounds, noise=SeededNoise(seed))
    for _ in range(rounds):
        x = rng.integers(0, 2, dim, dtype=np.int8) * 2.0 - 1.0
        learner.learn(x, float(x[:4] @ theta[:4]) + 0.05 * rng.normal())
    return float(np.sum((learner.theta - theta) ** 2))


def sparse(
    *, rounds: int, epsilon: float, method: str, contexts: str, seed: int
) -> Mapping[str, Array]:
    """Regret at some rounds, of the learner and of uniform play."""
    world = sparse_arms(ARMS, DIM, nonzero=10, contexts=contexts, seed=seed)
    kind = {"windows": SparseBandit, "every-round": EveryRound}[method]
    bandit = kind(ARMS, DIM, rounds, epsilon, 1e-6, seed=seed, noise=SeededNoise(seed))
    played = play(bandit, world, rounds, seed=seed)
    places = [math.ceil(fraction * rounds) - 1 for fraction in MARKS]
    return {"value": played.regret.cumsum()[places], "uniform": played.uniform.cumsum()[places]}


# -- exhibits -------------------------------------------------------------------------------------


def cells(quick: bool) -> list[Measurement]:
    """All of them."""
    few = 4 if quick else 10
    dims = _dims(quick)
    places = {"rounds": (1000, 2000), "dim": (5, 10)}
    every = {"rounds": (4000,), "method": ("every-round",), "contexts": ("signs",)}
    return [
        *grid(suboptimality, seeds=few, **places, p=tuple(PRINTED), how=("ours", "plain"),
              step=(1.0,)),
        *grid(suboptimality, seeds=few, **places, p=(1.5,), how=("NoisySFW",), step=STEPS),
        *grid(suboptimality, seeds=few, **places, p=(math.inf,), how=("NoisySGD",), step=STEPS),
        *grid(excess, seeds=few, rounds=_horizons(quick), dim=(10,), p=tuple(GEOMETRIES),
              size=(1.0, 0.5)),
        *grid(excess, seeds=3, rounds=(10_000,), dim=dims[:3], p=(1.0,), size=(1.0,)),
        *grid(excess, seeds=2, rounds=(10_000,), dim=dims[3:], p=(1.0,), size=(1.0,)),
        *grid(sparse, seeds=2 if quick else 4, rounds=_arm_rounds(quick), epsilon=BUDGETS,
              method=("windows",), contexts=("signs",)),
        *grid(sparse, seeds=2 if quick else 4, epsilon=(1.0, 10.0), **every),
        *grid(sparse, seeds=2 if quick else 4, epsilon=(1.0, 10.0), **{**every,
              "method": ("windows",)}),
        *grid(sign_leak, seeds=1, runs=(10_000,)),
        *grid(printed_noise, seeds=1, dim=(5, 10, 100, 1000), rounds=(1000,), levels=(False,)),
        *grid(printed_noise, seeds=1, dim=(5,), rounds=(1000,), levels=(True,)),
    ]  # fmt: skip


def exhibits(found: Found, quick: bool) -> list[Exhibit]:
    """Tables, rates, dimensions, the bandit, the noise, the code."""
    return [
        _tables(found),
        _rates(found, quick),
        _dimensions(found, quick),
        _bandit(found, quick),
        _steps(found),
        noise(found),
        code(found),
    ]


def _ten(pair: tuple[float, float]) -> Array:
    """Ten numbers with a printed mean and std: what the printed table knows."""
    mean, std = pair
    return mean + std * math.sqrt(0.9) * np.tile([-1.0, 1.0], 5)


def _tables(found: Found) -> Exhibit:
    rows = []
    for p, values in PRINTED.items():
        name = "NoisySFW" if p == 1.5 else "NoisySGD"
        for (rounds, dim), printed, other in zip(PLACES, values, OTHER[p], strict=True):
            world: dict[str, Any] = {"rounds": rounds, "dim": dim, "p": p}
            mine = found.over(suboptimality, **world, how="ours", step=1.0)
            plain = found.mean(suboptimality, **world, how="plain", step=1.0)
            rival = min((found.over(suboptimality, **world, how=name, step=step)
                         for step in STEPS), key=lambda v: float(v.mean()))  # fmt: skip
            rows.append(Row(f"p = {p:g}, T = {rounds}, d = {dim}",
                            f"{printed[0]:g} ± {printed[1]:g}", shown(mine),
                            compare(mine, _ten(printed)),
                            f"without privacy {digits(plain)}; {name} printed {other[0]:g}, "
                            f"ours {shown(rival)}"))  # fmt: skip
    return Exhibit(
        "Tables 2, 3 and 4: suboptimality",
        "Algorithm 1 leaves the printed fraction of the excess risk of theta = 0, at (1, 1/T)-DP, "
        "and beats NoisySFW at p = 1.5.",
        tuple(rows),
        "Same data as the paper's (label noise .05), StreamingFrankWolfe as it comes; its "
        "constants were tuned on this family of data with other seeds, so expect less elsewhere. "
        "NoisySFW and NoisySGD are our own, calibrated exactly, with the best of four steps, as in "
        "the paper. NoisySGD makes 20 passes and releases once, which is an easier task. The "
        "printed figures come from code that is not private as claimed (below).",
        theirs="printed",
    )


def _rates(found: Found, quick: bool) -> Exhibit:
    rows = []
    T = _horizons(quick)
    panels = []
    for size, claimed, name in ((1.0, -0.5, "convex"), (0.5, -1.0, "theta inside the ball")):
        lines = []
        for p, title in GEOMETRIES.items():
            runs = [found.over(excess, rounds=t, dim=10, p=p, size=size) for t in T]
            falls = slope(T, runs)
            ends = f"{shown(runs[0])} at {T[0]:,}, {shown(runs[-1])} at {T[-1]:,}"
            rows.append(Row(f"{title}, {name}: exponent of t", digits(claimed), str(falls),
                            judge_slope(falls, claimed), ends))  # fmt: skip
            lines.append(curve(title, T, runs))
        start = lines[1].y[0]
        lines.append(Line("slope -1/2" if size == 1 else "slope -1", T,
                          [start * (t / T[0]) ** claimed for t in T], "bound"))  # fmt: skip
        panels.append(Panel(name, "rounds", "excess risk", tuple(lines)))
    return Exhibit(
        "Excess risk against t, and strong convexity",
        "1/sqrt(t) + sqrt(d)/(epsilon t) for convex losses (Theorem 3.5), 1/t + d/(epsilon t)^2 "
        "for strongly convex ones with the optimum inside the set (Theorem 3.8).",
        tuple(rows),
        "epsilon = 1, delta = 1/T, d = 10, one learner for each horizon. The squared loss is "
        "strongly convex on these rows, so faster than 1/sqrt(t) is no wonder. A bound is for the "
        "worst data; these are not.",
        tuple(panels),
        "The dotted line starts at p = 1.5.",
        theirs="rate",
    )


def _dimensions(found: Found, quick: bool) -> Exhibit:
    dims = _dims(quick)
    runs = [found.over(excess, rounds=10_000, dim=d, p=1.0, size=1.0) for d in dims]
    logs = [math.log(2 * d) for d in dims]
    rows = [Row(f"d = {d:,}", "", shown(v), "",
                f"divided by ln 2d: {digits(float(v.mean()) / log)}")
            for d, v, log in zip(dims, runs, logs, strict=True)]  # fmt: skip
    grows = slope(dims, runs)
    log = slope(dims, logs)
    rows.append(
        Row("exponent of d", str(log), str(grows), judge_slope(grows, log.value), "that of log d")
    )
    grows = slope(logs, runs)
    rows.append(Row("exponent of log d", "1.00", str(grows), judge_slope(grows, 1.0)))
    return Exhibit(
        "p = 1: the excess risk grows with log d only",
        "O(log d/(epsilon sqrt(t))) (Theorem 3.12).",
        tuple(rows),
        "|theta^ - theta|^2 at T = 10,000, epsilon = 1; four entries of theta are not zero, and "
        "theta = 0 has .30.",
        (Panel("p = 1, T = 10,000", "d", "excess risk", (
            curve("ours", dims, runs, "ours"),
            Line("sqrt(d)", dims, [float(runs[0].mean()) * math.sqrt(d / dims[0]) for d in dims],
                 "bound"),
        )),),
        theirs="theory",
    )  # fmt: skip


def _bandit(found: Found, quick: bool) -> Exhibit:
    T = _arm_rounds(quick)
    rows = []
    lines = []
    theory = slope(T, [(math.log(DIM * t) * math.log(t)) ** 2 for t in T])
    for epsilon in BUDGETS:
        runs = [found.over(sparse, rounds=t, epsilon=epsilon, method="windows", contexts="signs")
                for t in T]  # fmt: skip
        ends = [v[:, -1] for v in runs]
        uniform = found.over(sparse, "uniform", rounds=T[-1], epsilon=epsilon, method="windows",
                             contexts="signs")[:, -1]  # fmt: skip
        last = runs[-1]
        late = float((last[:, -1] - last[:, -3]).mean()) / float(uniform.mean() * 0.2)
        name = "no privacy" if math.isinf(epsilon) else f"epsilon = {epsilon:g}"
        grows = slope(T, ends)
        note = (f"regret {shown(ends[-1])} at T = {T[-1]:,}, uniform play "
                f"{digits(float(uniform.mean()))}; in the last fifth {late:.2f} of it")  # fmt: skip
        rows.append(Row(f"{name}: exponent of T", str(theory), str(grows),
                        judge_slope(grows, theory.value), note))  # fmt: skip
        marks = [math.ceil(fraction * T[-1]) for fraction in MARKS]
        lines.append(curve(name, marks, list(last.T), "plain" if math.isinf(epsilon) else ""))
    return Exhibit(
        "The sparse bandit: regret of order log^2 T",
        "regret O(log^2(dT) log^2 T/epsilon^2) for K arms with sparse parameters (Theorem 4.9).",
        tuple(rows),
        f"{ARMS} arms, {DIM:,} features of which ten matter for each arm; one learner for each "
        "horizon. Theory is the exponent that log^2(dT) log^2 T has over these T. The smaller "
        "epsilon, the longer all regret is exploration.",
        (Panel(f"T = {T[-1]:,}", "rounds", "regret so far", tuple(lines), (False, False)),),
        "One learner for each budget, made for this horizon.",
        theirs="theory",
    )  # fmt: skip


def _steps(found: Found) -> Exhibit:
    rows = []
    for epsilon in (1.0, 10.0):
        a, b = (found.over(sparse, rounds=4000, epsilon=epsilon, method=m, contexts="signs")[:, -1]
                for m in ("every-round", "windows"))  # fmt: skip
        rows.append(Row(f"epsilon = {epsilon:g}", shown(a), shown(b), compare(b, a)))
    return Exhibit(
        "The paper's selection in every round, and one release a window",
        "Algorithm 3: each round chooses a vertex for its arm through noisy selection.",
        tuple(rows),
        "Regret at T = 4,000, both calibrated exactly. Composing thousands of selections leaves "
        "none of them any signal; a window's statistics are released once.",
        theirs="every round",
        ours="windows",
    )


PAPER = Paper(
    "streaming-2022",
    "Optimal private streaming SCO in l_p-geometry with applications in high dimensional online "
    "decision making",
    "Han, Liang, Liang, Wang, Yao and Zhang (ICML 2022)",
    "The recursion works, and with exact calibration and a small clip it does better than printed. "
    "The sparse bandit's regret flattens as claimed once exploration is over, which at epsilon = 1 "
    "takes tens of thousands of rounds. The printed noise is not private in the paper's own "
    "setting, nor is the public code.",
    cells,
    exhibits,
)
