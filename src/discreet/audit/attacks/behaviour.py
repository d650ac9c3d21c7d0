"""Attacks that read what the learner does, not what it releases: other people's actions.

The canary's own *context* varies. Whatever it changes for others must have gone through a release:
the coins of people beside it in the same window, whose policy is fixed and whose coins are known
(`seed=`), and the actions of people after the release.
"""

from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.audit.attacks.bandits import E1, bandit, fill, windows
from discreet.audit.attacks.sums import summed_by
from discreet.audit.rows import Claim
from discreet.audit.views import Make
from discreet.bandits import LinearBandit, Model, SparseBandit
from discreet.bandits.baselines import ContinualLinUCB, LocalLinUCB, LocalSGDBandit
from discreet.links import LINKS
from discreet.privacy import SeededNoise
from discreet.privacy.noise import Noise

TWO = np.concatenate([E1, -E1])  # two actions: whoever is offered them shows a sign of theta
BESIDE = 6  # people who are offered two actions in the canary's window
LATER = 8  # people who are offered two actions after it


def _seen(learner: Any, neighbour: int, low: float) -> tuple[Array, Array, Array]:
    """Actions beside the canary, actions after the release, theta; rewards are `low` or 1.

    The canary's reward is the lowest: the Poisson link's mean is 1 at zero, and 1 would leave no
    residual. Others show the same feature with either reward, so that what is learned in so short a
    window is not held back for want of rows.
    """
    own = (2 * neighbour - 1) * E1
    for features, reward in ((E1, 1.0), (own, low), (E1, low), (E1, 1.0)):
        learner.learn(learner.decide(features), reward)  # half of local reports are of the moment
    beside = []
    for k in range(BESIDE):
        decision = learner.decide(TWO)
        learner.learn(decision, (1.0, low)[k % 2])
        beside.append(decision.action)
    while learner.rounds_until_release > 1:
        fill(learner, learner.rounds_until_release - 1)
    fill(learner, 2)  # the release
    later = learner.decide_many(np.tile(TWO, (LATER, 1, 1))).action
    return np.array(beside), later, np.asarray(getattr(learner, "theta", np.zeros(2)))


# `attainable`: no more than the signs and one entry of theta is read, where the whole sum would
# show all that was booked; a bound from above, not what was reached.
def _own_context(name: str, of: type, make: Make, *, low: float = -1.0, **row: Any) -> None:
    @bandit(f"{name}, own context", of, **row)
    def own_context(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """Features e1 or -e1 of one person: coins of people beside it, later actions, theta."""
        expected, _, _ = _seen(make(claim, SeededNoise(0)), 1, low)
        scores = []
        for _ in range(runs):
            beside, later, theta = _seen(make(claim, noise), neighbour, low)
            finite = np.nan_to_num(theta[0], nan=1e9, posinf=1e9, neginf=-1e9)
            scores.append((np.sum(beside == expected), later.sum(), -finite))
        return np.array(scores, dtype=np.float64)


def _linear(link: str) -> None:
    low = -1.0 if link == "identity" else 0.0

    def make(claim: Claim, noise: Noise) -> Any:
        return LinearBandit(
            2,
            epsilon=claim.epsilon,
            delta=claim.delta,
            policy="greedy",
            reward_range=(low, 1.0),
            seed=0,
            noise=noise,
            model=Model(link=link),
        )

    name = f"linear bandit {link}"
    row = {"kind": "gaussian", "fits": windows(link), "effort": 0.25}
    _own_context(name, LinearBandit, make, low=low, **row)


for _link in LINKS:
    _linear(_link)
_own_context(
    "continual linucb",
    ContinualLinUCB,
    lambda claim, noise: ContinualLinUCB(2, 100, claim.epsilon, claim.delta, seed=0, noise=noise),
    kind="gaussian",
    fits=summed_by("blt"),
    effort=0.1,
)
_own_context(
    "local linucb",
    LocalLinUCB,
    lambda claim, noise: LocalLinUCB(2, 10**5, claim.epsilon, seed=0, noise=noise),
    kind="pure",
    effort=0.05,
)
_own_context(
    "local sgd bandit",
    LocalSGDBandit,
    lambda claim, noise: LocalSGDBandit(2, 10**5, claim.epsilon, seed=0, noise=noise),
    kind="pure",
    attainable=0.471,  # half the gradient enters the channel
    effort=0.05,
)


@bandit("sparse bandit, own context", SparseBandit, kind="approximate", effort=0.1)
def sparse_context(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """A context of zeros, which all arms tie, or of ones; then people whose arms tie: their coins.

    Zeros tie whatever theta is, so the actions of people with such a context are coins, and
    whoever knows the seed knows them, unless somebody else's context moves the generator.
    """

    def coins(source: Noise, which: int) -> tuple[Array, float]:
        bandit = SparseBandit(2, 1, 40, claim.epsilon, claim.delta, forced=4, seed=0, noise=source)
        for _ in range(8):
            bandit.learn(bandit.decide([1.0]), 1.0)
        bandit.learn(bandit.decide([float(which)]), 1.0)
        tied = np.array([bandit.decide([0.0]).action for _ in range(16)])
        return tied, float(bandit.theta[0, 0])

    expected, _ = coins(SeededNoise(0), 1)
    scores = []
    for _ in range(runs):
        tied, theta = coins(noise, neighbour)
        scores.append((np.sum(tied == expected), theta))
    return np.array(scores, dtype=np.float64)
