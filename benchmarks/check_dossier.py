"""Is the epsilon of a dossier what its releases cost? Needs dp-accounting, and nothing of discreet.

    discreet dossier model.state -o dossier.json && python benchmarks/check_dossier.py dossier.json
Releases without a scope saw all rows; scopes are disjoint, and the dearest of them counts.
Status 1: they cost more than is promised. Status 2: shuffled, which is not decided here.
"""

import json
import sys
from collections import defaultdict

import dp_accounting
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as pld


def by_losses(releases, delta):
    """Epsilon of Gaussian and pure releases together, by their privacy loss distributions."""
    whole = pld.identity(**(grid := {"value_discretization_interval": 1e-3}))
    normal = [each for each in releases if each["mechanism"] == "gaussian"]
    if mu := sum((each["sensitivity"] / each["scale"]) ** 2 for each in normal) ** 0.5:
        whole = pld.from_gaussian_mechanism(1 / mu, **grid)
    for each in releases:
        if each not in normal:
            pure = common.DifferentialPrivacyParameters(each["epsilon"], 0.0)
            whole = whole.compose(pld.from_privacy_parameters(pure, **grid))
    return whole.get_epsilon_for_delta(delta)


def by_rho(releases, delta):
    """Epsilon where some release has no other price than rho: Renyi divergences."""
    event = dp_accounting.ZCDpEvent(sum(each["rho"] for each in releases))
    return dp_accounting.rdp.RdpAccountant().compose(event).get_epsilon(delta)


def main(path):
    with open(path, encoding="utf-8") as file:
        promise = json.load(file)["promise"]
    epsilon, delta = float(promise["epsilon"]), promise["delta"]
    if any("crowd" in each for each in promise["releases"]):
        return 2
    scopes = defaultdict(list)
    for each in promise["releases"]:
        scopes[each["scope"]].append(each)
    everywhere = scopes.pop(None, [])
    found = 0.0
    for part in scopes.values() or [[]]:
        both = everywhere + part
        if delta == 0:  # pure prices add up
            found = max(found, sum(each["epsilon"] for each in both))
            continue
        losses = all("mu" in each or "epsilon" in each for each in both)
        found = max(found, (by_losses if losses else by_rho)(both, delta))
    held = found <= epsilon * 1.02  # grids and orders are coarse, on the safe side
    print(f"promised {epsilon:g}, delta {delta:g}; found {found:.4g}: {'held' if held else 'NOT'}")
    return int(not held)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
