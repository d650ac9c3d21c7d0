"""Information-weighted regression (2025): errors beside the bounds of Theorems 4.5 and 5.5.

paper   p            W_(gamma, lambda), U_lambda   A       alpha     tr(A W^2)/T
here    covariates   `information_matrix`          Sigma   epsilon   `central_scale`
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from discreet.arrays import Array
from discreet.experiments.measure import Found, Measurement, grid
from discreet.privacy import Budget, Ledger, SeededNoise
from discreet.regression import Problem
from discreet.regression.information import price_of_privacy
from papers.exhibit import (
    EQUAL,
    WORSE,
    WRONG,
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
from papers.information_weighted_bounds import bounds, public
from papers.local_methods import one_dimensional, one_shot
from papers.reweighted import EIGENVALUES, constant
from papers.slopes import slope
from papers.worlds import FAMILIES, D, fit, regret

SIGNS = {"labels": ("signs",)}
GAUSSIAN = {"labels": ("gaussian",)}
LENGTHS = (1.0, 0.3, 0.1, 0.03)  # of the covariates in one dimension
PEOPLE = 200_000


def _rows(quick: bool) -> tuple[int, ...]:
    return (2000, 20_000) if quick else (2000, 20_000, 200_000)


def _many(quick: bool) -> tuple[int, ...]:
    return (20_000, 200_000) if quick else (20_000, 200_000, 1_000_000)


def _rounds(quick: bool) -> tuple[int, ...]:
    return (10_000, 50_000) if quick else (10_000, 100_000, 1_000_000)


# -- cells ----------------------------------------------------------------------------------------


def one_feature(*, length: float, people: int, method: str, seed: int) -> Mapping[str, float]:
    """|theta^ - theta| for covariates +-length, theta = .7, epsilon = 1, local trust."""
    rng = np.random.default_rng([seed, people])
    X = np.asarray(length * rng.choice([-1.0, 1.0], (people, 1)), dtype=np.float64)
    y = np.clip(0.7 * X[:, 0] + 0.1 * rng.standard_normal(people), -1, 1)
    problem = Problem(
        np.asarray(X, dtype=np.float64),
        y,
        Ledger(Budget(1.0), "pure"),
        SeededNoise(seed),
        rng,
        None,
    )
    estimate = (one_dimensional if method == "Algorithm 1" else one_shot)(problem)
    return {"value": abs(float(estimate.theta[0]) - 0.7)}


# -- exhibits -------------------------------------------------------------------------------------


def cells(quick: bool) -> list[Measurement]:
    """All of them."""
    few = 6 if quick else 16
    main = _rounds(quick)[1]
    return [
        *grid(fit, seeds=few, family=FAMILIES, rows=_rows(quick), epsilon=(1.0,),
              method=("auto", "AdaSSP"), **SIGNS),
        *grid(fit, seeds=3 if quick else 8, family=FAMILIES, rows=_many(quick), epsilon=(1.0,),
              method=("local",), **SIGNS),
        *grid(fit, seeds=few, family=("sphere", "log-normal", "rare .01"), rows=_rows(quick),
              epsilon=(1.0,), method=("auto", "OLS", "AdaSSP"), **GAUSSIAN),
        *grid(fit, seeds=few, family=tuple(f"rare {s:g}" for s in EIGENVALUES), rows=(20_000,),
              epsilon=(1.0,), method=("auto", "OLS"), **GAUSSIAN),
        *grid(one_feature, seeds=3 * few, length=LENGTHS, people=(PEOPLE,),
              method=("Algorithm 1", "one shot")),
        *grid(regret, seeds=few, world=("sphere", "fixed"), rounds=_rounds(quick),
              epsilon=(1.0, math.inf), how=("joint",)),
        *grid(regret, seeds=few, world=("sphere",), rounds=(main,), epsilon=(1.0,),
              how=("local", "LocalLinUCB", "tree")),
        *grid(regret, seeds=few, world=("sphere",), rounds=_rounds(quick), epsilon=(1.0, 3.0),
              how=("local",)),
        *grid(regret, seeds=few, world=("fixed",), rounds=(main,), epsilon=(1.0,), how=("tree",)),
    ]  # fmt: skip


def exhibits(found: Found, quick: bool) -> list[Exhibit]:
    """Errors and their bounds, then regret, then the constant."""
    return [
        bounds(found, _rows(quick), "auto"),
        bounds(found, _many(quick), "local"),
        _price(found, quick),
        _one_feature(found),
        _norms(found),
        _joint(found, quick),
        _gap(found, quick),
        _local(found, quick),
        _constants(),
    ]


def _price(found: Found, quick: bool) -> Exhibit:
    rows = []
    panels = []
    T = _rows(quick)
    for family in ("sphere", "log-normal", "rare .01"):

        def error(method: str, family: str = family) -> list[Array]:
            return [found.over(fit, "l2", family=family, rows=n, epsilon=1.0, method=method,
                               labels="gaussian") for n in T]  # fmt: skip

        mine = error("auto")
        plain = error("OLS")
        ada = error("AdaSSP")
        paid = [float(a.mean() / b.mean()) for a, b in zip(mine, plain, strict=True)]
        other = [float(a.mean() / b.mean()) for a, b in zip(ada, plain, strict=True)]
        told = [price_of_privacy(public(family), n, 1.0) for n in T]
        rows += [
            Row(
                f"{family}, T = {n:,}", digits(c), digits(a), compare(x, y), f"forecast {digits(b)}"
            )
            for n, a, b, c, x, y in zip(T, paid, told, other, mine, ada, strict=True)
        ]
        falls = slope(T, [a / float(b.mean()) - 1 for a, b in zip(mine, plain, strict=True)])
        rows.append(Row(f"{family}: exponent of T in price - 1", "-0.50", str(falls),
                        judge_slope(falls, -0.5)))  # fmt: skip
        panels.append(Panel(family, "rows", "price of privacy", (
            Line("AdaSSP", T, other, "theirs"), Line("ours", T, paid, "ours"),
            Line("forecast, tr(Sigma W^2)/d", T, told, "bound"),
        )))  # fmt: skip
    return Exhibit(
        "The price of privacy against T",
        "squared error over that of least squares is O(1) once T exceeds kappa(p)^2 "
        "log(1/beta)/alpha^2 (Section 5.3).",
        tuple(rows),
        "Labels with Gaussian noise of std .1, epsilon = 1, delta = 1e-6. Theirs is AdaSSP "
        "(Wang 2018), the best of the usual methods. The forecast is price_of_privacy.",
        tuple(panels),
        "1 means privacy for free.",
        theirs="AdaSSP",
    )


def _one_feature(found: Found) -> Exhibit:
    runs = {m: [found.over(one_feature, length=s, people=PEOPLE, method=m) for s in LENGTHS]
            for m in ("one shot", "Algorithm 1")}  # fmt: skip
    rows = [
        Row(f"|phi| = {s:g}", shown(a), shown(b), compare(b, a))
        for s, a, b in zip(LENGTHS, *runs.values(), strict=True)
    ]
    shorter = [1 / s for s in LENGTHS[:3]]
    for name, claimed in (("one shot", 2.0), ("Algorithm 1", 1.0)):
        grows = slope(shorter, runs[name][:3])
        verdict = judge_slope(grows, claimed) if name == "Algorithm 1" else ""
        rows.append(Row(f"{name}: exponent of 1/|phi|, down to {LENGTHS[2]:g}", digits(claimed),
                        str(grows), verdict))  # fmt: skip
    lines = (
        curve("E phi^2: sufficient statistics", LENGTHS, runs["one shot"], "theirs"),
        curve("E|phi|: Algorithm 1", LENGTHS, runs["Algorithm 1"], "ours"),
    )
    return Exhibit(
        "One dimension: E|phi| instead of E phi^2",
        "under local privacy the error is 1/(E|phi| alpha sqrt(T)); methods that are smooth in phi "
        "have 1/(E phi^2 alpha sqrt(T)) (Lemma 3.1, Proposition 3.2).",
        tuple(rows),
        f"{PEOPLE:,} people with phi = +-|phi|, theta = .7, epsilon = 1: error of theta. Where an "
        "estimate is no better than a guess its error stops growing.",
        (Panel("local trust", "|phi|", "|error|", lines),),
        "Bands are 95% intervals over seeds.",
        theirs="one shot",
        ours="Algorithm 1",
    )


def _norms(found: Found) -> Exhibit:
    runs = {
        norm: [found.over(fit, norm, family=f"rare {s:g}", rows=20_000, epsilon=1.0, method="auto",
                          labels="gaussian") for s in EIGENVALUES]
        for norm in ("l1", "l2")
    }  # fmt: skip
    plain = [found.over(fit, "l2", family=f"rare {s:g}", rows=20_000, epsilon=1.0, method="OLS",
                        labels="gaussian") for s in EIGENVALUES]  # fmt: skip
    l2 = [np.sqrt(v) for v in runs["l2"]]
    rows = [
        Row(f"smallest eigenvalue {s:g}", shown(a, 1e3), shown(b, 1e3), "",
            f"L2 of least squares {shown(np.sqrt(c), 1e3)}")
        for s, a, b, c in zip(EIGENVALUES, runs["l1"], l2, plain, strict=True)
    ]  # fmt: skip
    for norm, values in (("L1", runs["l1"]), ("L2", l2)):
        worst = max(float(v.mean()) for v in values) / float(values[0].mean())
        fine = worst < 2 if norm == "L1" else worst >= 2
        rows.append(Row(f"{norm}: worst / at .1", "bounded" if norm == "L1" else "grows",
                        digits(worst), EQUAL if fine else WORSE))  # fmt: skip
    lines = (
        curve("L1 error", EIGENVALUES, runs["l1"], "ours"),
        curve("L2 error", EIGENVALUES, l2, "theirs"),
    )
    return Exhibit(
        "L1 error and L2 error",
        "the L1 error does not depend on the covariates (Proposition 5.4); the L2 error of any "
        "private method must, when a direction is rare (Proposition 3.5).",
        tuple(rows),
        "T = 20,000, epsilon = 1, errors x 1000, one direction in a small fraction of the rows. L2 "
        "is worst where the direction is rare enough to drown in noise and common enough to count.",
        (Panel("ours", "smallest eigenvalue", "error", lines),),
        "Bands are 95% intervals over seeds.",
        theirs="L1",
        ours="L2",
    )


def _joint(found: Found, quick: bool) -> Exhibit:
    T = _rounds(quick)
    mine, plain = ([found.over(regret, world="sphere", rounds=t, epsilon=e, how="joint")
                    for t in T] for e in (1.0, math.inf))  # fmt: skip
    tree = found.over(regret, world="sphere", rounds=T[1], epsilon=1.0, how="tree")
    extra = [a - b for a, b in zip(mine, plain, strict=True)]
    grows = slope(T, mine)
    price = slope(T, extra)
    rows = (
        Row(f"regret at T = {T[1]:,}, against Shariff and Sheffet", shown(tree), shown(mine[1]),
            compare(mine[1], tree)),
        Row("exponent of T", "0.50", str(grows), judge_slope(grows, 0.5)),
        Row("exponent of T in private minus plain", "0.00", str(price), judge_slope(price, 0.0),
            ", ".join(shown(v) for v in extra)),
    )  # fmt: skip
    return Exhibit(
        "Theorem 6.2: sqrt(T) + 1/alpha",
        "Reg = O(sqrt(d_A^3 d T log T) + d_A d^3/2/alpha) under joint privacy.",
        rows,
        f"Sphere, d = {D}, ten actions, epsilon = 1. On this world regret without privacy is "
        "logarithmic, so that most of ours is the price of privacy.",
        (Panel("sphere", "rounds", "regret", (
            curve("ours", T, mine, "ours"), curve("ours without privacy", T, plain, "plain"),
            Line("slope 1/2", T, [float(mine[0].mean()) * math.sqrt(t / T[0]) for t in T],
                 "bound"),
        )),),
    )  # fmt: skip


def _gap(found: Found, quick: bool) -> Exhibit:
    T = _rounds(quick)
    mine = [found.over(regret, world="fixed", rounds=t, epsilon=1.0, how="joint") for t in T]
    late = [found.over(regret, "late", world="fixed", rounds=t, epsilon=1.0, how="joint")
            for t in T]  # fmt: skip
    tree = found.over(regret, world="fixed", rounds=T[1], epsilon=1.0, how="tree")
    grows = slope(T, mine)
    fraction = float(late[-1].mean() / mine[-1].mean())
    rows = (
        Row(f"regret at T = {T[1]:,}, against Shariff and Sheffet", shown(tree), shown(mine[1]),
            compare(mine[1], tree)),
        Row("exponent of T (log^2 T: about .2)", "0.20", str(grows), judge_slope(grows, 0.2),
            ", ".join(shown(v) for v in mine)),
        Row(f"fraction of the last half of T = {T[-1]:,}", "small", digits(fraction),
            EQUAL if fraction < 0.1 else WORSE),
    )  # fmt: skip
    return Exhibit(
        "Theorem 6.3: logarithmic regret with a gap",
        "Reg = O(log^2 T/Delta + log^3/2 T/alpha) when the best action is ahead by Delta.",
        rows,
        "The same ten actions in every round, the best ahead by at least .1; "
        f"d = {D}, epsilon = 1.",
    )


def _local(found: Found, quick: bool) -> Exhibit:
    T = _rounds(quick)
    runs = {e: [found.over(regret, world="sphere", rounds=t, epsilon=e, how="local") for t in T]
            for e in (1.0, 3.0)}  # fmt: skip
    other = found.over(regret, world="sphere", rounds=T[1], epsilon=1.0, how="LocalLinUCB")
    rows = [
        Row(f"regret at T = {T[1]:,}, against local LinUCB", shown(other), shown(runs[1.0][1]),
            compare(runs[1.0][1], other))
    ]  # fmt: skip
    for e, values in runs.items():
        grows = slope(T, values)
        rows.append(Row(f"exponent of T, epsilon = {e:g}", "0.50", str(grows),
                        judge_slope(grows, 0.5), ", ".join(shown(v) for v in values)))  # fmt: skip
    lines = tuple(curve(f"epsilon = {e:g}", T, v, "ours" if e == 1 else "")
                  for e, v in runs.items())  # fmt: skip
    half = Line("slope 1/2", T, [float(runs[3.0][0].mean()) * math.sqrt(t / T[0]) for t in T],
                "bound")  # fmt: skip
    return Exhibit(
        "Theorem 6.4: sqrt(T)/alpha under local privacy",
        "Reg = O(d_A sqrt(d^3 T log T)/alpha).",
        tuple(rows),
        f"Sphere, d = {D}, ten actions. The first tens of thousands of people are exploration: the "
        "exponent falls to 1/2 and below only after them.",
        (Panel("local trust", "rounds", "regret", (*lines, half)),),
        "Theirs is LinUCB on local reports of second moments (Zheng et al. 2020).",
        theirs="theory, or local LinUCB",
    )


def algorithm_1_cost(alpha: float) -> float:
    """epsilon of Algorithm 1's two reports: Laplace of rate alpha/2 for moves of 2 and 1.

    >>> algorithm_1_cost(1.0)
    1.5
    """
    return alpha / 2 * 2 + alpha / 2 * 1


def _constants() -> Exhibit:
    both = constant()
    cost = algorithm_1_cost(1.0)
    row = Row("Algorithm 1: epsilon of its two reports", "1.00", digits(cost),
              WRONG if cost > 1 else EQUAL,
              "sign(phi) y moves by 2, |phi| by 1; Laplace of rate alpha/2")  # fmt: skip
    return replace(both, rows=(*both.rows, row))


PAPER = Paper(
    "information-weighted-2025",
    "Beyond covariance matrix: the statistical complexity of private linear regression",
    "Chen, Li, Rakhlin and Simchi-Levi (2025), information-weighted regression",
    "The theory describes what happens: nothing is below the lower bounds, the price of privacy "
    "goes to 1, and L1 errors do not depend on the covariates. How closely our estimators follow "
    "the information matrix with the hardest labels, +1 and -1, is in the first two tables. The "
    "constants are loose by factors; only Algorithm 1's do not give its epsilon.",
    cells,
    exhibits,
)
