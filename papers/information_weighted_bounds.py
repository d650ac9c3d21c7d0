"""Information-weighted regression (2025): errors, the matrices, and Theorems 4.5 and 5.5."""

import math
from functools import lru_cache

import numpy as np

from discreet.arrays import Array
from discreet.experiments.measure import Found
from discreet.regression import information_matrix
from papers.exhibit import (
    EQUAL,
    WORSE,
    WRONG,
    Exhibit,
    Line,
    Panel,
    Row,
    compare,
    curve,
    digits,
    shown,
)
from papers.worlds import FAMILIES, D, covariates, fit


@lru_cache
def public(family: str) -> Array:
    """Rows of a family, to compute its matrices from."""
    return covariates(family, 5000, np.random.default_rng(1))


@lru_cache
def _matrix(family: str, gamma: float, lam: float) -> tuple[float, float]:
    """tr(Sigma W^2) and |W| of a family."""
    X = public(family)
    W = information_matrix(X, gamma=gamma, lam=lam, tol=1e-4)
    return float(np.mean(np.sum((X @ W) ** 2, axis=1))), float(np.linalg.norm(W, 2))


def central_scale(family: str, T: int, alpha: float) -> float:
    """tr(Sigma W^2)/T at gamma = 1/(alpha sqrt(T)), lambda = 1/sqrt(T)."""
    return _matrix(family, 1 / (alpha * math.sqrt(T)), 1 / math.sqrt(T))[0] / T


def central_bound(family: str, T: int, alpha: float) -> float:
    """The least squared error that Theorem 5.5 (b) allows, with the constants of its proof.

    s^2/4 tr(Sigma W^2), s = min(1/(16 sqrt T), 1/(64 alpha sqrt(d) gamma T), 1/(2 sqrt(d) |W|)): s
    is half of the printed one, as the step before Proposition A.2 needs it.
    """
    best = 0.0
    for gamma in (0.3, 1.0, 3.0):
        for lam in (0.3, 1.0):
            g = gamma / (alpha * math.sqrt(D * T))
            ridge = lam * math.sqrt(D / T)
            trace, size = _matrix(family, g, ridge)
            s = min(1 / (16 * math.sqrt(T)), 1 / (64 * alpha * math.sqrt(D) * g * T),
                    1 / (2 * math.sqrt(D) * size))  # fmt: skip
            best = max(best, s**2 / 4 * trace)
    return best


def local_scale(family: str, T: int, alpha: float) -> float:
    """tr(Sigma U^2)/(alpha^2 T) at lambda = 1/(alpha sqrt(T))."""
    return _matrix(family, math.inf, 1 / (alpha * math.sqrt(T)))[0] / (alpha**2 * T)


def local_bound(family: str, T: int, alpha: float) -> float:
    """The same for Theorem 4.5 (b): s = min(1/(16 alpha sqrt(dT)), 1/(2 sqrt(d) |U|))."""
    trace, size = _matrix(family, math.inf, 1 / (alpha * math.sqrt(T)))
    s = min(1 / (16 * alpha * math.sqrt(D * T)), 1 / (2 * math.sqrt(D) * size))
    return s**2 / 4 * trace


def bounds(found: Found, sizes: tuple[int, ...], method: str) -> Exhibit:
    """Squared errors of "auto" (central) or "local" fits beside the theory's scale and bound."""
    local = method == "local"
    scale, bound = (local_scale, local_bound) if local else (central_scale, central_bound)
    matrix = "tr(A U^2)/(alpha^2 T)" if local else "tr(A W^2)/T"
    rows = []
    lines = []
    scales = []
    limits = []
    errors = []

    def runs(family: str, how: str) -> list[Array]:
        return [found.over(fit, "l2", family=family, rows=n, epsilon=1.0, method=how,
                           labels="signs") for n in sizes]  # fmt: skip

    for family in FAMILIES:
        mine = runs(family, method)
        x, low = ([each(family, n, 1.0) for n in sizes] for each in (scale, bound))
        ratio = [digits(float(v.mean()) / s) for v, s in zip(mine, x, strict=True)]
        note = f"errors over {matrix}: {', '.join(ratio)}"
        if local:
            rows.append(
                Row(f"{family}, T = {sizes[-1]:,}", digits(x[-1]), shown(mine[-1]), "", note)
            )
        else:
            rival = runs(family, "AdaSSP")[-1]
            rows.append(Row(f"{family}, T = {sizes[-1]:,}, against AdaSSP", shown(rival),
                            shown(mine[-1]), compare(mine[-1], rival), note))  # fmt: skip
        lines.append(curve(family, x, mine))
        scales += x
        limits += low
        errors += [float(v.mean()) for v in mine]
    order = np.argsort(scales)
    lines.append(Line("lower bound", [scales[i] for i in order], [limits[i] for i in order],
                      "bound"))  # fmt: skip
    lines.append(Line("y = x", (min(scales), max(scales)), (min(scales), max(scales)), "plain"))
    ranks = np.argsort(np.argsort([scales, errors], axis=1), axis=1)
    alike = float(np.asarray(np.corrcoef(ranks))[0, 1])
    above = min(e / b for e, b in zip(errors, limits, strict=True))
    rows += [
        Row("rank correlation of error and matrix", "1.00", digits(alike),
            EQUAL if alike >= 0.9 else WORSE,
            f"over {len(FAMILIES)} distributions and {len(sizes)} sizes"),
        Row("least error / lower bound", "at least 1", digits(above),
            EQUAL if above >= 1 else WRONG, "the proof's constants are small"),
    ]  # fmt: skip
    theorem = "4.5" if local else "5.5"
    return Exhibit(
        f"Squared error against the information matrix, {'local' if local else 'central'} trust",
        f"the best error is {matrix}, up to {'a factor d and ' if local else ''}constants, for "
        f"every distribution of the covariates (Theorem {theorem} and its corollary).",
        tuple(rows),
        "Labels +1 and -1, as in the lower bounds' proofs, A = Sigma, epsilon = 1; |theta| = 1/2. "
        "The lower bound is drawn with the constants of its proof. "
        + ("A fit that has learned nothing says 0; for short covariates that is below the matrix."
           if local else
           "Ours cuts residuals unless a sketch shows that this biases, as it would with these "
           "labels: their large residuals all lie against the prediction."),
        (Panel("each line a distribution, each mark a T", matrix, "squared error", tuple(lines)),),
        "Dashed: y = x. Dotted: what no private estimator can be below.",
        theirs="theory" if local else "theirs",
    )  # fmt: skip
