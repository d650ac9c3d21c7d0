"""Attacks on what learners and devices do: others' coins, and whether a report is sent at all.

No chance is involved: the scores that are compared are functions of coins that the attacker knows.
"""

import numpy as np
import pytest

from discreet.audit import ATTACKS
from discreet.audit.attacks.channels import EXTREME, KINDS


def test_hostile__whether_a_report_comes_does_not_depend_on_the_record():
    zeros, record = (ATTACKS["device, hostile states"].scores(10, which, 3) for which in (0, 1))
    assert zeros.shape[1] == len(EXTREME) * len(KINDS)
    assert np.array_equal(zeros, record)


def test_hostile__extreme_numbers_are_answered_and_impossible_ones_refused():
    seen = ATTACKS["device, hostile states"].scores(2, 1, 3).reshape(-1, len(EXTREME))
    answered = np.array([name in ("whitening", "theta", "both") for name in EXTREME])
    assert (seen == np.where(answered, 1.0, -1.0)).all()


COINS = [name for name in ATTACKS if name.endswith("own context")]


@pytest.mark.parametrize("name", COINS)
def test_own_context__moves_nobody_elses_coins(name):
    """The first view: how many people beside the canary got the action that the coins say."""
    if name == "continual linucb, own context":
        pytest.skip("a new policy every round: the people beside the canary are later people")
    beside = [ATTACKS[name].scores(3, which, 5)[:, 0] for which in (0, 1)]
    assert np.ptp(np.concatenate(beside)) == 0
