"""How many runs an attack without power would need."""

from dataclasses import replace

import numpy as np

from discreet.audit import ATTACKS
from discreet.audit.bounds import NO_POWER
from discreet.audit.run import audit_sides
from discreet.experiments.power import runs_for_power, verdict
from discreet.privacy.gaussian import gaussian_mu


def audited(runs, *, attainable=1.0, shift=None, seed=0):
    """Of a Gaussian mechanism that claims (1, 1e-6), so many runs on both sides together."""
    attack = replace(ATTACKS["gaussian"].at(1.0, 1e-6), attainable=attainable)
    rng = np.random.default_rng(seed)
    mu = attainable * gaussian_mu(1.0, 1e-6) if shift is None else shift
    sides = rng.normal(0, 1, runs // 2), rng.normal(mu, 1, runs // 2)
    return audit_sides(attack, sides)


def test_runs_for_power__are_about_those_that_an_ideal_attack_takes():
    needed = runs_for_power(audited(400))
    assert 3 * needed < runs_for_power(audited(400, attainable=0.5)) < 9 * needed
    share = {}
    for factor in (1 / 8, 4):  # choosing among thresholds costs an ideal test more
        found = [audited(int(factor * needed), seed=seed) for seed in range(15)]
        share[factor] = np.mean([each.close.fraction >= NO_POWER for each in found])
    assert share[1 / 8] < 0.4 < 0.7 < share[4]


def test_verdict__says_what_more_runs_would_bring():
    blind = audited(200, shift=0.0)
    assert verdict(blind).startswith("no power; ")
    assert verdict(blind).endswith(" runs may have it")
    assert verdict(audited(20_000, shift=0.0)) == "no power: far from what is attainable"
    assert verdict(audited(200, attainable=0.0)) == "no power, whatever the runs"
    assert verdict(audited(20_000)).startswith("not refuted")
