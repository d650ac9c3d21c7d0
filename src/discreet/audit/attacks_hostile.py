"""Attacks by a server that lies, under local trust: is a report sent at all?

The server chooses the questions. It sends finite but huge numbers, for which arithmetic on the
device overflows for some records and not for others. Whether a report comes, and whether it is one
that an honest device could have sent, must not depend on the record. A device may refuse the
question: it refuses it whatever the record is.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from discreet.audit.attack import Claim, attack
from discreet.bandits import Device, PublicPolicy
from discreet.privacy import Noise, SeededNoise
from discreet.privacy.checks import Array
from discreet.regression.local_protocol import QUESTIONS, PublicState, report

RECORD = np.full(2, 0.7)  # against zeros; both entries count in a sum that overflows
HUGE, TINY = 1.7e308, 1e-300
LIES: dict[str, dict[str, Any]] = {
    "frame": {"frame": np.full((2, 2), HUGE)},
    "theta": {"theta": np.full(2, HUGE)},
    "clip": {"clip": TINY},
    "frame and clip": {"frame": np.full((2, 2), HUGE), "clip": TINY},
}


def answered(ask: Callable[[], Any]) -> float:
    """1 if the device sends a finite report, 0 if it sends none or one that is not finite."""
    with np.errstate(all="ignore"):
        try:
            return float(np.isfinite(np.asarray(ask(), dtype=np.float64)).all())
        except Exception:  # whatever it is, the server sees that nothing came
            return 0.0


def bandit_device(
    honest: PublicPolicy, asked: PublicPolicy, world: int, noise: Noise, seed: int
) -> float:
    """What a server learns from one question to one device of a bandit; -1 if it is refused."""
    device = Device(honest, noise=noise, seed=seed)
    decision = device.decide([world * RECORD])
    try:
        device.update(asked)
    except ValueError:  # before the device looks at its record
        return -1.0
    return answered(lambda: device.report(decision, 1.0).values)


def regression_device(asked: PublicState, world: int, noise: Noise) -> float:
    """The same of a regression."""
    return answered(lambda: report(world * RECORD[None], np.ones(1), asked, noise).values)


@attack("hostile policy, bandit", room="bandits", kind="pure")
def hostile_policy(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """Features of zeros or not, and policies of huge numbers: did a report come?"""
    honest = PublicPolicy.start(2, claim.epsilon)
    asked = [replace(honest, window=1, **lie) for lie in LIES.values()]
    return np.array(
        [
            [bandit_device(honest, each, world, noise, seed) for each in asked]
            for seed in range(runs)
        ]
    )


@attack("hostile state, regression", room="regression", kind="pure")
def hostile_state(claim: Claim, runs: int, world: int, noise: SeededNoise) -> Array:
    """Features of zeros or not, and states of huge numbers: did a report come?"""
    asked = [
        replace(PublicState.start(question, dim=2, epsilon=claim.epsilon), **lie)
        for question in QUESTIONS
        for lie in LIES.values()
    ]
    return np.array(
        [[regression_device(each, world, noise) for each in asked] for _ in range(runs)]
    )
