"""Attacks on what learners and devices do: others' coins, and whether a report is sent at all.

No chance is involved: the scores that are compared are functions of coins that the attacker knows.
"""

import numpy as np
import pytest
from known import reason

from discreet.audit import ATTACKS
from discreet.audit.attacks_hostile import LIES, answered


def exact(*names):
    """Attacks by name; those of the table of open bugs may fail."""
    return [
        pytest.param(name, marks=pytest.mark.xfail(reason=why, strict=False) if why else ())
        for name in names
        for why in [reason("audit", name)]
    ]


@pytest.mark.parametrize("name", exact("hostile policy, bandit", "hostile state, regression"))
def test_hostile__whether_a_report_comes_does_not_depend_on_the_record(name):
    zeros, record = (ATTACKS[name].scores(40, world, 3) for world in (0, 1))
    assert zeros.shape[1] >= len(LIES)
    assert np.array_equal(zeros, record)


COINS = [name for name in ATTACKS if name.endswith("own context")]


@pytest.mark.parametrize("name", exact(*COINS))
def test_own_context__moves_nobody_elses_coins(name):
    """The first view: how many people beside the canary got the action that the coins say."""
    if name == "continual linucb, own context":
        pytest.skip("a new policy every round: the people beside the canary are later people")
    beside = [ATTACKS[name].scores(3, world, 5)[:, 0] for world in (0, 1)]
    assert np.ptp(np.concatenate(beside)) == 0


def test_answered__sees_what_the_server_sees():
    def fails():
        raise FloatingPointError

    assert [answered(lambda: [1.0]), answered(lambda: [np.nan]), answered(fails)] == [1, 0, 0]
