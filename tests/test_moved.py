"""Names of the last release."""

import importlib

import pytest

from discreet.moved import Renamed

MOVED = {
    "discreet.online:StreamingFrankWolfe": "discreet.optimization:StreamingFrankWolfe",
    "discreet.online:SparseBandit": "discreet.bandits:SparseBandit",
    "discreet.online.streaming:StreamingFrankWolfe": "discreet.optimization:StreamingFrankWolfe",
    "discreet.online.sparse:SparseBandit": "discreet.bandits:SparseBandit",
    "discreet.online.baselines:NoisySFW": "discreet.optimization.baselines:NoisySFW",
    "discreet.online.baselines:NoisySGD": "discreet.optimization.baselines:NoisySGD",
    "discreet.online.baselines:LocalMD": "discreet.optimization.baselines:LocalMD",
    "discreet.online.losses:Loss": "discreet.optimization.losses:Loss",
    "discreet.online.losses:MarginLoss": "discreet.optimization.losses:MarginLoss",
    "discreet.online.losses:named_loss": "discreet.optimization.losses:named_loss",
    "discreet.experiments.plan:Plan": "discreet.experiments.experiment:Experiment",
    "discreet.experiments.plan:PlanError": "discreet.experiments.experiment:ExperimentError",
    "discreet.experiments.plan:Choice": "discreet.experiments.experiment:Choice",
    "discreet.experiments.plan:Cell": "discreet.experiments.experiment:Cell",
    "discreet.experiments.bandit_planning:Stream": "discreet.experiments.bandit_forecast:Stream",
    "discreet.experiments.bandit_planning:Forecast": (
        "discreet.experiments.bandit_forecast:Forecast"
    ),
    "discreet.experiments.bandit_planning:forecast": (
        "discreet.experiments.bandit_forecast:forecast"
    ),
}


def named(place):
    module, name = place.split(":")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_moved_names__are_what_they_became_and_warn(old, new):
    with pytest.warns(DeprecationWarning, match=new.replace(":", ".")) as caught:
        found = named(old)
    assert found is named(new)
    assert caught[0].filename == __file__  # it is the caller who is told


@pytest.mark.parametrize("module", sorted({old.split(":")[0] for old in MOVED}))
def test_moved_names__others_were_never_there(module):
    assert not hasattr(importlib.import_module(module), "Nothing")


def test_renamed__reads_the_new_attribute_and_warns():
    class Ball:
        radius = 2.0
        reach = Renamed("radius")

    with pytest.warns(DeprecationWarning, match=r"Ball\.reach is now Ball\.radius"):
        assert Ball().reach == 2.0
