"""Ene, Nguyen and Vladu (2021): printed noise, and what one round needs (docs/errata.md, B)."""

import math

import numpy as np

from papers.exhibit import EQUAL, WRONG, Exhibit, Row, compare, digits

DELTA = 1e-6


def lemma_7(T: int, n: int, epsilon: float) -> float:
    """Standard deviation of Laplace(T^1/2 n L log T/epsilon), L = 1."""
    return math.sqrt(2 * T) * n * math.log(T) / epsilon


def lemma_10(T: int, n: int, epsilon: float) -> float:
    """Standard deviation of the Gaussian calibration, L = 1, delta = 10^-6."""
    log = math.log((n + T) / DELTA)
    norm = log + math.sqrt((1 + math.sqrt(T) / n) * log)
    return float(T**0.25) * math.sqrt(n) * math.log(T) * math.log(T / DELTA) * norm / epsilon


LEMMAS = {"lemma 7": lemma_7, "lemma 10": lemma_10}


def node_noise(T: int, n: int) -> dict[str, float]:
    """Standard deviations of a node's noise at epsilon = 1 for L = D = 1, and what one round needs.

    One round changes one term (n/zeta) f u of a batch, f in [0, D] over a set of diameter D: in l2
    by (n/zeta) D = n^1/2 T^1/4, in l1 by sqrt(n) times that; a tree over T^1/2 batches has
    floor(log2 T^1/2) + 1 levels.
    """
    levels = math.floor(math.log2(math.isqrt(T))) + 1
    one = math.sqrt(n) * T**0.25
    return {
        "lemma 7": lemma_7(T, n, 1.0),
        "one round, pure": math.sqrt(2) * levels * math.sqrt(n) * one,
        "lemma 10": lemma_10(T, n, 1.0),
        "one round, delta = 1e-6": math.sqrt(levels) * one * 4.224678889,
        "lemma 7's own product": math.sqrt(2) * math.sqrt(T) * math.sqrt(n) * one * math.log(T),
    }


def calibration() -> Exhibit:
    """Lemmas 7 and 10 beside what one round can change."""
    rows = []
    for T in (10**4, 10**6):
        noise = node_noise(T, 10)
        needs = {"lemma 7": "one round, pure", "lemma 10": "one round, delta = 1e-6"}
        for lemma, need in needs.items():
            factor = noise[lemma] / noise[need]
            rows.append(Row(f"T = {T:,}: {lemma}", digits(noise[lemma]), digits(noise[need]),
                            compare(np.array([noise[need]]), np.array([noise[lemma]])),
                            f"{factor:,.0f} times too much"))  # fmt: skip
        product = noise["lemma 7's own product"]
        rows.append(Row(f"T = {T:,}: the product in Lemma 7's proof", digits(noise["lemma 7"]),
                        digits(product), WRONG if product > 1.01 * noise["lemma 7"] else EQUAL,
                        f"T_batch n^1/2 M = T^3/4 n L, not T^1/2 n L: "
                        f"{product / noise['lemma 7']:.0f} times more"))  # fmt: skip
    return Exhibit(
        "What one round can change",
        "noise must hide the norm of a whole batch: T_batch n^1/2 M (Lemma 7), Lemma 9's bound "
        "(Lemma 10).",
        tuple(rows),
        "Neighbours differ in one round, and one round changes one term of one batch. Calibrated "
        "to that, the private term of the regret drops from T^3/4 to about T^1/2. The lemmas' "
        "products do not follow from their own factors (Lemma 10 misses sqrt(T_batch) too), but "
        "both are far above what is needed: the algorithm is private, only too noisy. n = 10, "
        "L = D = 1, deviations of a node's noise in each coordinate at epsilon = 1.",
        theirs="printed",
        ours="needed",
    )
