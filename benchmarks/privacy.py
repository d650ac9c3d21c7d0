"""One-shot mechanisms, channels and audits: the figures of docs/privacy.md.

python benchmarks/privacy.py
"""

import math
import time

import numpy as np
from kit import CONSOLE, new_table, run
from rich.table import Table

from discreet.audit import audit_scores
from discreet.experiments.measure import grid
from discreet.privacy import BallChannel, IntervalChannel, SecureNoise, SeededNoise, gaussian_mu
from discreet.privacy.channels import BinaryChannel
from discreet.privacy.gaussian import zcdp_epsilon
from discreet.privacy.mechanisms import Mechanisms
from discreet.privacy.shuffle import batch_local_epsilon


def calibration() -> None:
    table = Table(title="Gaussian noise at delta = 1e-6 against sqrt(2 log(1.25/delta))/epsilon")
    for column in ("epsilon", "exact", "textbook", "ratio", "epsilon by zCDP at the exact noise"):
        table.add_column(column, justify="right")
    for epsilon in (0.1, 0.5, 1.0, 3.0, 10.0):
        exact = 1 / gaussian_mu(epsilon, 1e-6)
        textbook = math.sqrt(2 * math.log(1.25e6)) / epsilon
        note = f"{textbook / exact:.2f}" + (" (not private)" if textbook < exact else "")
        concentrated = zcdp_epsilon(1 / (2 * exact**2), 1e-6)
        table.add_row(
            f"{epsilon:g}", f"{exact:.4f}", f"{textbook:.4f}", note, f"{concentrated:.3f}"
        )
    CONSOLE.print(table)


def channels() -> None:
    table = Table(title="Local channels: worst standard deviation per coordinate")
    for column in ("epsilon", "half sphere, d = 10", "chosen cap, d = 10", "gain", "cap",
                   "interval", "by", "piecewise or response", "binary"):  # fmt: skip
        table.add_column(column, justify="right")
    for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
        ball = BallChannel(10, epsilon)
        interval = IntervalChannel(epsilon)
        ratio = 1 / math.tanh(epsilon / 2)
        half = ratio * math.sqrt(math.pi) / 2 * 10 * math.gamma(5.5) / math.gamma(6)
        half /= math.sqrt(10)
        piecewise = 2 * math.exp(epsilon / 4) / math.sqrt(3) / math.expm1(epsilon / 2)
        table.add_row(f"{epsilon:g}", f"{half:.3f}", f"{ball.std:.3f}",
                      f"{half / ball.std:.2f}", f"{ball.cap:.2f}",
                      f"{interval.std:.3f}", "hybrid" if interval.hybrid else "response",
                      f"{min(piecewise, ratio):.3f}",
                      f"{2 * BinaryChannel(epsilon).std:.3f}")  # fmt: skip
    CONSOLE.print(table)
    V = np.random.default_rng(0).standard_normal((10**6, 10))
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    start = time.perf_counter()
    BallChannel(10, 1.0).privatize(V, SeededNoise(0))
    ours = time.perf_counter() - start
    start = time.perf_counter()
    np.random.default_rng(0).standard_normal(V.shape)
    base = time.perf_counter() - start
    CONSOLE.print(f"10^6 reports in d = 10: {ours:.1f} s, {ours / base:.0f} times drawing as many "
                  "normal numbers\n")  # fmt: skip


def exact_samplers() -> None:
    table = Table(title="Exact samplers against float noise: time per draw")
    for column in ("mechanism", "SeededNoise", "SecureNoise", "ratio"):
        table.add_column(column, justify="right")
    zeros = np.zeros(20_000)
    for name, call in (
        ("gaussian", lambda noise: Mechanisms(noise).gaussian(zeros, sensitivity=1.0, mu=1.0)),
        ("laplace", lambda noise: Mechanisms(noise).laplace(zeros, sensitivity=1.0, epsilon=1.0)),
    ):
        times = []
        for noise in (SeededNoise(0), SecureNoise()):
            call(noise)
            start = time.perf_counter()
            call(noise)
            times.append((time.perf_counter() - start) / len(zeros))
        table.add_row(name, f"{times[0] * 1e6:.3f} us", f"{times[1] * 1e6:.1f} us",
                      f"{times[1] / times[0]:.0f}")  # fmt: skip
    CONSOLE.print(table)


def proved(*, release: str, runs: int, seed: int) -> dict[str, float]:
    """What the best attack on one number proves at epsilon = 1."""
    noise = SeededNoise(seed)
    if release == "Laplace":
        sides = [noise.laplace(1.0, runs) + i for i in (0, 1)]
        return {"value": audit_scores(*sides).lower_bound}
    sides = [noise.gaussian(1.0, runs) + gaussian_mu(1.0, 1e-6) * i for i in (0, 1)]
    return {"value": audit_scores(*sides, delta=1e-6, method="gdp").lower_bound}


def audits() -> None:
    releases = {"Gaussian, delta = 1e-6": "gdp", "Laplace": "clopper-pearson"}
    sizes = (10**4, 10**5)
    found = run(grid(proved, seeds=range(10), release=tuple(releases), runs=sizes))
    table = new_table("What an ideal attack proves at epsilon = 1 (95%, ten audits: mean, range)",
                      ("release", "runs a side", "bound", "proved", "range"))  # fmt: skip
    for runs in sizes:
        for release, bound in releases.items():
            values = found.over(proved, release=release, runs=runs)
            table.add_row(release, f"{runs:,}", bound, f"{values.mean():.2f}",
                          f"{values.min():.2f} .. {values.max():.2f}")  # fmt: skip
    CONSOLE.print(table)


def noise_in_norms() -> None:
    table = Table(title="Pure noise for a unit l-infinity ball, epsilon = 1: deviation")
    for column in ("dimensions", "K-norm", "Laplace (l1 radius d)", "ratio"):
        table.add_column(column, justify="right")
    for dim in (1, 3, 10, 100):
        noise = SeededNoise(0)
        draws = [
            Mechanisms(noise).k_norm(np.zeros(dim), sensitivity=1.0, epsilon=1.0, norm="linf").value
            for _ in range(4000)
        ]
        cube = float(np.std(draws))
        box = dim * math.sqrt(2)
        table.add_row(str(dim), f"{cube:.2f}", f"{box:.2f}", f"{box / cube:.2f}")
    CONSOLE.print(table)


def shuffled() -> None:
    epsilons = (0.3, 1.0, 3.0)
    columns = ("people", *(f"epsilon = {epsilon:g}" for epsilon in epsilons))
    table = new_table("Shuffled reports: largest local epsilon for delta = 1e-6", columns)
    for people in (100, 1_000, 10_000, 100_000, 1_000_000):
        found = (batch_local_epsilon(epsilon, 1e-6, people) for epsilon in epsilons)
        table.add_row(f"{people:,}", *(f"{epsilon:.2f}" for epsilon in found))
    CONSOLE.print(table)


def main() -> None:
    calibration()
    noise_in_norms()
    channels()
    shuffled()
    exact_samplers()
    audits()


if __name__ == "__main__":
    main()
