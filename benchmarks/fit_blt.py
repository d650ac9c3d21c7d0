"""Fit the five buffers of `discreet.privacy.toeplitz`: prints the tables that stand there.

For each horizon 2^6 .. 2^40 minimise |C e_1|^2 |B row_T|^2 over log w and logit q, then fit a
quartic in (log2 T - 14)/10 to each parameter. Takes about two minutes.

    python benchmarks/fit_blt.py
"""

import math

import numpy as np
from scipy.optimize import minimize

from discreet.privacy.toeplitz import Buffered

EXPONENTS = range(6, 41)


def variance(parameters: np.ndarray, horizon: int) -> float:
    """log of the maximal variance per unit of sensitivity and mu."""
    w = np.exp(parameters[:5])
    q_gap = 1 / (1 + np.exp(parameters[5:]))
    design = Buffered.of(horizon, w, q_gap)
    if not (np.isfinite(design.beta).all() and (design.p_gap < 1).all()):
        return 1e3
    return 2 * math.log(design.sensitivity(1) * float(design.std(np.array(horizon))))


def fit() -> dict[int, np.ndarray]:
    start = Buffered.fitted(2**14)
    first = np.concatenate([np.log(start.w), np.log(1 / start.q_gap - 1)])
    found: dict[int, np.ndarray] = {}
    for chain in (range(14, 41), range(13, 5, -1)):
        best = found.get(14, first)
        for exponent in chain:
            for _ in range(3):
                for method in ("L-BFGS-B", "Nelder-Mead"):
                    best = minimize(variance, best, args=(2**exponent,), method=method,
                                    options={"maxiter": 4000}).x  # fmt: skip
            found[exponent] = best
            excess = math.exp(variance(best, 2**exponent) - square_root(2**exponent)) - 1
            print(f"2^{exponent:2d}  {excess:8.3%} above the square root", flush=True)
    return found


def square_root(horizon: int) -> float:
    """log of the maximal variance of the square root, c_k^2 ~ 1/(pi (k + 1/4)) beyond 2^22."""
    known = min(horizon, 2**22)
    factors = 1 - 1 / (2 * np.arange(1, known))
    total = 1 + float(np.sum(np.cumprod(factors) ** 2))
    return 2 * math.log(total + math.log((horizon - 0.25) / (known - 0.25)) / math.pi)


def main() -> None:
    found = fit()
    x = (np.array(EXPONENTS) - 14) / 10
    weights = np.where(np.array(EXPONENTS) < 8, 0.3, 1.0)
    table = np.polyfit(x, np.array([found[e] for e in EXPONENTS]), 4, w=weights).round(3)
    for name, block in (("_LOG_W", table[:, :5]), ("_LOGIT_Q", table[:, 5:])):
        rows = "\n".join("    (" + ", ".join(f"{v:.3f}" for v in row) + ")," for row in block)
        print(f"{name} = (\n{rows}\n)")


if __name__ == "__main__":
    main()
