"""Is the epsilon of a dossier what its releases cost? Needs dp-accounting, and nothing of discreet.

    python check_dossier.py dossier.json    # of: discreet dossier model.state -o dossier.json
Scopes are disjoint; reports of a person are in different batches. Status 1: more than promised.
"""

import json
import sys
from pathlib import Path

import dp_accounting
import numpy as np
from dp_accounting.pld import common, privacy_loss_distribution
from scipy.optimize import brentq
from scipy.stats import binom


def by_losses(releases, delta):  # Gaussian and pure ones together
    law, grid = privacy_loss_distribution, {"value_discretization_interval": 1e-3}
    kinds = [(each["mechanism"], each["sensitivity"] / each["scale"]) for each in releases]
    mu = sum(price**2 for kind, price in kinds if kind == "gaussian") ** 0.5
    whole = law.from_gaussian_mechanism(1 / mu, **grid) if mu else law.identity(**grid)
    for epsilon in (price for kind, price in kinds if kind != "gaussian"):
        pure = common.DifferentialPrivacyParameters(epsilon, 0.0)
        whole = whole.compose(law.from_privacy_parameters(pure, **grid))
    return whole.get_epsilon_for_delta(delta)


def by_crowd(local, n, delta):  # others are clones of a record or its neighbour (Feldman 2022)
    q, clones = 1 / (np.exp(local) + 1), np.arange(n)[:, None]
    weights = binom.pmf(clones, n - 1, 2 * q)
    weights, clones = (each[weights[:, 0] > 1e-18] for each in (weights, clones))
    up, own = (binom.pmf(np.arange(clones.max() + 2) - i, clones, 0.5) for i in (1, 0))
    one, other = (1 - q) * up + q * own, q * up + (1 - q) * own
    over = lambda e: (weights * np.maximum(one - np.exp(e) * other, 0)).sum() - delta  # noqa: E731
    return brentq(over, -1.0, local)


def cost(releases, delta, k):
    if any("crowd" in each for each in releases):
        return k * max(by_crowd(each["epsilon"], each["crowd"], delta / k) for each in releases)
    if delta == 0:
        return sum(each["sensitivity"] / each["scale"] for each in releases)
    if all("mu" in each or "epsilon" in each for each in releases):
        return by_losses(releases, delta)
    event = dp_accounting.ZCDpEvent(sum(each["rho"] for each in releases))
    return dp_accounting.rdp.RdpAccountant().compose(event).get_epsilon(delta)


def main(path):
    promise = json.loads(Path(path).read_text(encoding="utf-8"))["promise"]
    epsilon, delta, made = (promise[each] for each in ("epsilon", "delta", "releases"))
    parts = [[r for r in made if r["scope"] in (None, s)] for s in {r["scope"] for r in made}]
    found = max((cost(part, delta, promise["contributions"]) for part in parts), default=0.0)
    print(f"promised: {epsilon} at delta = {delta:g}; found: {found:.4g}")
    return int(found > float(epsilon) * 1.02)  # grids and orders are coarse, on the safe side


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
