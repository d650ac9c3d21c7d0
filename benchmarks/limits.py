"""How far from possible: the least error that anybody can have, beside ours; docs/how-good.md.

    python benchmarks/limits.py

Bounds hold for every mechanism that is mu-GDP as ours are, on the data described, and are proved
below. Two facts do all the work. M is what a mechanism shows of n rows, each drawn from p_theta.

Information. Let s_i be the score of row i and T = E[sum s_i | M] that of M, whose information is
I_M = E[T T']. Then tr I_M = sum_i E<s_i, T>. With row i replaced by an independent one, s_i and
what M becomes are independent, so that E<s_i, T> would be 0; and two runs of a mu-GDP mechanism on
neighbours are post-processing of N(0, 1) and N(mu, 1), whose chi^2 divergence is e^(mu^2) - 1. So

    E<s_i, T> <= sqrt(e^(mu^2) - 1) sqrt(E<s_i, T'>^2) <= sqrt(e^(mu^2) - 1) sqrt(l tr I_M)

with l the largest eigenvalue of a row's information I_1, hence

    tr I_M <= min(n tr I_1, n^2 (e^(mu^2) - 1) l) .                                            (1)

Two points. If rows differ with probability p under two hypotheses, they can be coupled so that
k ~ Binomial(n, p) of them differ, and k rows cost k mu: by concavity of 2 Phi(k mu / 2) - 1 in k,

    TV(M | first, M | second) <= min(TV of the rows themselves, 2 Phi(n p mu / 2) - 1) .       (2)
"""

import json
import math
from pathlib import Path

import numpy as np
from kit import CONSOLE, new_table, run
from scipy.special import ndtr, ndtri

from discreet.experiments.measure import grid
from discreet.privacy import gaussian_mu
from discreet.regression import PrivateLinearRegression

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
EPSILON, DELTA = 1.0, 1e-6
MU = gaussian_mu(EPSILON, DELTA)
SPREAD = math.expm1(MU**2)
D, SIGMA = 8, 0.1  # of regression: features on the sphere, normal noise
SIZES = (2_000, 20_000, 200_000)
SEEDS = 40


def kept(file: str, title: str, row: tuple[str, ...], column: str) -> str:
    """A cell of a table that another benchmark keeps."""
    tables = json.loads((FIGURES / file).read_text(encoding="utf-8"))
    (table,) = [each for name, each in tables.items() if name.startswith(title)]
    (found,) = [each for each in table["rows"] if tuple(each[: len(row)]) == row]
    return str(found[table["columns"].index(column)])


# -- regression ------------------------------------------------------------------------------------


def prior(rng: np.random.Generator) -> np.ndarray:
    """theta with independent entries of density cos^2(pi t / 2 r) / r on [-r, r], r = 1/sqrt(d)."""
    found = np.empty(0)
    while len(found) < D:
        t = rng.uniform(-1, 1, 4 * D)
        found = np.append(found, t[rng.random(4 * D) < np.cos(math.pi * t / 2) ** 2])
    return found[:D] / math.sqrt(D)


def squared_error(*, n: int, seed: int) -> dict[str, float]:
    """Of predictions on the sphere: E <x, theta^ - theta>^2 = |theta^ - theta|^2 / d."""
    rng = np.random.default_rng([seed, n])
    theta = prior(rng)
    X = rng.standard_normal((n, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = X @ theta + SIGMA * rng.standard_normal(n)
    bounds = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": False}
    model = PrivateLinearRegression(EPSILON, **bounds, random_state=seed).fit(X, np.clip(y, -1, 1))
    plain = np.linalg.lstsq(X, y, rcond=None)[0]
    ours, theirs = (float(np.sum((each - theta) ** 2)) / D for each in (model.coef_, plain))
    return {"value": ours, "plain": theirs}


def least_squared_error(n: int) -> float:
    """van Trees with (1): for phi = theta / sqrt(d), whose squared error is that of predictions.

    E |phi^ - phi|^2 >= d^2 / (tr I_M + tr J). A row's information about phi is d x x'/sigma^2: of
    trace d/sigma^2, and 1/sigma^2 in every direction, as E x x' = I/d. That of the prior is
    pi^2 / r^2 for each entry of theta, and d times that for phi. Clipped labels know no more.
    """
    rows = min(n * D / SIGMA**2, n**2 * SPREAD / SIGMA**2)
    return D**2 / (rows + D * D * math.pi**2 * D)


def regression() -> list[list[str]]:
    found = run(grid(squared_error, seeds=SEEDS, n=SIZES))
    rows = []
    for n in SIZES:
        ours, plain = (
            math.sqrt(found.mean(squared_error, name, n=n)) for name in ("value", "plain")
        )
        bound = math.sqrt(least_squared_error(n))
        what = f"regression, {n:,} rows, d = {D}: root mean squared error x 10^4"
        rows.append([what, *(f"{1e4 * x:.1f}" for x in (ours, bound)), f"{ours / bound:.2f}",
                     f"{1e4 * plain:.1f}"])  # fmt: skip
    return rows


# -- bandits ---------------------------------------------------------------------------------------

ACTIONS, T = 10, 50_000


def least_regret(d: int, draws: int = 200_000) -> float:
    """Linear rewards <x, theta> + N(0, sigma^2), ten actions on the sphere, theta uniform on it.

    Let u be the direction in which theta is thought to lie after t rounds. Actions have no
    direction of their own, so whoever plays the best action for u earns c E<u, theta> in the mean,
    c = E max_k <x_k, u>, and nobody earns more: round t loses c (1 - rho), rho = E<u, theta>.
    By parts along the rotations, under which the prior is invariant,

        (d - 1) rho = E <P u, score of M> <= sqrt(1 - rho^2) sqrt(tr I_M),   P = I - theta theta',

    so that rho <= sqrt(I / (I + (d - 1)^2)). A row's information is x x'/sigma^2, of trace
    1/sigma^2, and in no direction more than k/sigma^2, k = E max_k <x_k, w>^2, whatever is played.
    """
    rng = np.random.default_rng(0)
    x = rng.standard_normal((draws, ACTIONS, d))
    along = x[:, :, 0] / np.linalg.norm(x, axis=2)
    c, k = along.max(axis=1).mean(), (along**2).max(axis=1).mean()
    t = np.arange(T, dtype=float)
    known = np.minimum(t, t**2 * SPREAD * k) / SIGMA**2
    return float(np.sum(c * (1 - np.sqrt(known / (known + (d - 1) ** 2)))))


def bandits() -> list[list[str]]:
    rows = []
    for d in (5, 20):
        world = ("sphere", str(d), "0.1")
        ours = kept("bandits.json", "LinearBandit, defaults", world, "mean ± 95%")
        plain = kept("bandits.json", "Regret at T = 50,000, 10 actions", world, "LinUCB")
        value, limit = float(ours.split()[0]), least_regret(d)
        what = f"bandit, {T:,} rounds, d = {d}: regret"
        shown = (f"{value:.0f}", f"{limit:.1f}", f"{value / limit:.0f}", plain.split()[0])
        rows.append([what, *shown])
    return rows


# -- running sums ----------------------------------------------------------------------------------


def sums() -> list[list[str]]:
    """The least mean variance of x -> A x + B z with A = B C (benchmarks/prefix.py): |A|_*^2 / T^2.

    Of one entry of C x of sensitivity max |C e_i| = 1: |B|_F^2 / T >= |B|_F^2 |C|_F^2 / T^2, and
    the nuclear norm of A is at most the product of the two norms.
    """
    shown = kept("prefix.json", "Gaussian noise: maximal variance", ("2^20",), "blt")
    limit = kept("prefix.json", "Gaussian noise: maximal variance", ("2^20",), "lower bound")
    ours, bound = float(shown.split("(")[1].rstrip(")")), float(limit.strip("()"))
    return [["running sum, 2^20 rounds: mean variance, linear mechanisms", f"{ours:.2f}",
             f"{bound:.2f}", f"{ours / bound:.2f}", "0"]]  # fmt: skip


# -- uplift ----------------------------------------------------------------------------------------

HELD, CHANCE = 0.05, 0.69  # the hold-out's share; what it earns in the RAND experiment
ALPHA = 0.05


def least_half_width(n: int) -> float:
    """Half the least width of a 95% interval for what the policy gains, in percentage points.

    If intervals of half width w hold under what the hold-out earns, p or p + 2 w, they tell one
    from the other with errors of alpha each: TV >= 1 - 2 alpha. By (2) with n p = 2 w times the
    held-out rows; of the rows themselves the normal law of their sum.
    """
    rows = HELD * n
    private = 2 * float(ndtri(1 - ALPHA)) / MU / rows
    plain = 2 * float(ndtri(1 - ALPHA)) * math.sqrt(CHANCE * (1 - CHANCE) / rows)
    assert abs(2 * ndtr(private * rows * MU / 2) - 1 - (1 - 2 * ALPHA)) < 1e-9
    return 100 * max(private, plain) / 2


def uplift() -> list[list[str]]:
    rows = []
    for n in (10_000, 50_000, 200_000):
        column = f"{n:,}" + " decisions" * (n == 200_000)
        title = "Gain of a bandit over its hold-out"
        ours, plain = (
            kept("evaluation.json", title, ("health insurance (RAND)", epsilon), column)
            for epsilon in ("1", "no privacy")
        )
        bound = least_half_width(n)
        what = f"uplift, {n:,} decisions: half width (percentage points), at every look"
        rows.append([what, ours, f"{bound:.2f}", f"{float(ours) / bound:.1f}", plain])
    return rows


def main() -> None:
    table = new_table(
        f"Ours beside what is possible, epsilon = {EPSILON:g}, delta = {DELTA:g}",
        ("what", "ours", "at least", "ours / bound", "no privacy"),
    )
    for row in (*sums(), *regression(), *bandits(), *uplift()):
        table.add_row(*row)
    CONSOLE.print(table)


if __name__ == "__main__":
    main()
