"""All attacks by name. Importing it imports every learner.

mechanisms, last_bits, sums    one-shot mechanisms, and running sums by themselves
lives                          learners that publish running sums
channels, wire, shuffled       devices, reports on the wire, batches that a relay forwards
bandits, behaviour, sparse     windows; what others see; choices and measurements
online, optimization           batches and gradient sums; steps towards vertices, windows
regression, evaluation         fits; experiments and logs
"""

import importlib
import pkgutil
from typing import Any

from discreet.audit.rows import ATTACKS, Attack
from discreet.privacy import Guarantee

__all__ = ["ATTACKS", "attacks_on"]

for _module in pkgutil.iter_modules(__path__):  # each puts its attacks into ATTACKS
    importlib.import_module(f"{__name__}.{_module.name}")


def attacks_on(learner: Any, promise: Guarantee) -> list[Attack]:
    """The attacks on a learner of this configuration, at what it promises.

    An attack makes the learner that it attacks, of a size of its own. Where nothing fits, nothing
    is attacked, and whoever asks must say so.

    >>> from discreet.bandits import LinearBandit, People
    >>> bandit = LinearBandit(3, epsilon=2.0, people=People(rounds=5))
    >>> (attack,) = attacks_on(bandit, bandit.guarantee)
    >>> attack.claim.epsilon, attack.claim.contributions
    (2.0, 5)
    """
    if not promise.private:
        return []
    return [
        each.at(promise.epsilon, promise.delta, promise.contributions)
        for each in ATTACKS.values()
        if each.concerns(type(learner), learner, promise)
    ]
