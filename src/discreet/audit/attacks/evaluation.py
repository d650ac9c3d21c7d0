"""Attacks on experiments: everybody's values are known but one person's, nothing or everything."""

from functools import partial

import numpy as np

from discreet.arrays import Array
from discreet.audit.rows import Claim, Fits, attack
from discreet.audit.views import each
from discreet.evaluation import ABTest, evaluate
from discreet.privacy import Guarantee, SeededNoise

measured = partial(attack, room="evaluation")
OTHERS = [f"person {i}" for i in range(40)]  # enough in each arm for a look at a batch
ARMS = ("A", "B")
METRICS = {"bought": (0.0, 1.0), "came": (0.0, 1.0)}


def summed_as(mechanism: str) -> Fits:
    """Experiments whose looks are released like this."""

    def fits(test: ABTest, promise: Guarantee) -> bool:
        return test.running == (mechanism == "running")

    return fits


def _looked_at(mechanism: str, name: str) -> None:
    # All metrics from 0 to 1: the whole sensitivity, in one look.
    @measured(name, ABTest, kind="gaussian", fits=summed_as(mechanism))
    @each
    def look(claim: Claim, neighbour: int, noise: SeededNoise) -> Array:
        """One person has nothing or everything in all metrics; the noisy sums of their arm."""
        test = ABTest(
            ARMS, METRICS, claim.epsilon, claim.delta, salt="known", looks=1,
            mechanism=mechanism, noise=noise,
        )  # fmt: skip
        silent = np.zeros(len(OTHERS))
        test.add_many(OTHERS, dict.fromkeys(METRICS, silent))
        test.add("canary", dict.fromkeys(METRICS, float(neighbour)))
        test.look()
        sums = test.released[-1].sums[ARMS.index(test.arm("canary"))]
        return np.asarray(sums @ test.weights**2)


_looked_at("batches", "A/B test, a batch")
_looked_at("running", "A/B test, a running sum")


SILENT = 60  # rows with the reward in the middle


# Rewards 0 and 1 of one action with the least propensity: u from -1 to 1, squares the same.
@measured("off-policy value", kind="gaussian")
@each
def off_policy(claim: Claim, neighbour: int, noise: SeededNoise) -> float:
    """One logged decision earned nothing or everything; the released value of a policy."""
    rewards = np.append(np.full(SILENT, 0.5), float(neighbour))
    log = {"action": np.zeros(SILENT + 1), "reward": rewards}
    value = evaluate(
        log, lambda _: np.array([1.0, 0.0]), claim.epsilon, claim.delta, least_propensity=0.5,
        propensity=0.5, model="none", noise=noise,
    )  # fmt: skip
    return float(value.estimate)
