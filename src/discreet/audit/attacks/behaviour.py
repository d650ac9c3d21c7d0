"""Attacks that read what the learner does, not what it releases: other people's actions.

The canary's own *context* varies. Whatever it changes for others must have gone through a release:
the coins of people beside it in the same window, whose policy is fixed and whose coins are known
(`seed=`), and the actions of people after the release. Beside them, for a LinearBandit, the sum
that is released along the way in which the canary moves it: the likelihood of all that is shown.
Where only signs and one entry of theta are read, half the noise may not show; attacks on the sums
and reports of the same learners see it.
"""

from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.audit.attacks.bandits import E1, canary_term, fill, windows
from discreet.audit.registry import REGISTRY
from discreet.audit.rows import Claim, attack
from discreet.bandits import LinearBandit, Model, SparseBandit
from discreet.links import LINKS
from discreet.privacy import SeededNoise
from discreet.privacy.noise import Noise
from discreet.privacy.release import observed

TWO = np.concatenate([E1, -E1])  # two actions: whoever is offered them shows a sign of theta
BESIDE = 6  # people who are offered two actions in the canary's window
LATER = 8  # people who are offered two actions after it


def _seen(learner: Any, neighbour: int, low: float) -> tuple[Array, float, float, float]:
    """Coins beside the canary; later actions, theta, and the first release of a LinearBandit.

    The canary's reward is the lowest: the Poisson link's mean is 1 at zero, and 1 would leave no
    residual. Others show the same feature with either reward, so that what is learned in so short a
    window is not held back for want of rows.
    """
    with observed("release") as seen:
        begun = learner.decide(E1)
        window = learner.window if isinstance(learner, LinearBandit) else None
        view = None if window is None else window.transform
        learner.learn(begun, 1.0)
        for features, reward in (((2 * neighbour - 1) * E1, low), (E1, low), (E1, 1.0)):
            learner.learn(learner.decide(features), reward)  # half of local reports are of moments
        beside = []
        for k in range(BESIDE):
            decision = learner.decide(TWO)
            learner.learn(decision, (1.0, low)[k % 2])
            beside.append(decision.action)
        while learner.rounds_until_release > 1:
            fill(learner, learner.rounds_until_release - 1)
        fill(learner, 2)  # the release
    later = learner.decide_many(np.tile(TWO, (LATER, 1, 1))).action
    theta = np.asarray(getattr(learner, "theta", np.zeros(2)))
    finite = float(np.nan_to_num(theta[0], nan=1e9, posinf=1e9, neginf=-1e9))
    along = 0.0
    if view is not None:
        move = canary_term(view, low, row=E1) - canary_term(view, low, row=-E1)
        along = float(np.asarray(seen[0].value) @ move)
    return np.array(beside), float(later.sum()), -finite, along


def _own_context(
    name: str, entry: str, changes: dict[str, Any], low: float = -1.0, **row: Any
) -> None:
    known = REGISTRY[entry]

    @attack(f"{name}, own context", known.of, room="bandits", **row)
    def own_context(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """Features e1 or -e1 of one person: coins of people beside it, later actions, theta."""
        options = {"seed": 0, **changes}
        expected, *_ = _seen(known.claiming(claim, SeededNoise(0), **options), 1, low)
        scores = []
        for _ in range(runs):
            beside, *after, along = _seen(known.claiming(claim, noise, **options), neighbour, low)
            scores.append((np.sum(beside == expected), along, *after))
        return np.array(scores, dtype=np.float64)


for _link in LINKS:
    _low = -1.0 if _link == "identity" else 0.0
    _changes = {"reward_range": (_low, 1.0), "model": Model(link=_link)}
    # Of v v' all but the squares; the intercept is the same in both neighbours.
    _own_context(f"linear bandit {_link}", "LinearBandit greedy", _changes, _low, kind="gaussian",
                 fits=windows(_link), attainable=0.95)  # fmt: skip
_SIGNS = "the attack: signs of actions and of theta alone; reports and sums are attacked elsewhere"
_own_context("continual linucb", "ContinualLinUCB blt", {}, kind="gaussian",
             fits=lambda learner, promise: "(blt)" in promise.releases[0].what, effort=0.1,
             lost=_SIGNS)  # fmt: skip
LONG = {"horizon": 10**5}
_own_context("local linucb", "LocalLinUCB", LONG, kind="pure", effort=0.2, lost=_SIGNS)
# Half the gradient enters the channel.
_own_context("local sgd bandit", "LocalSGDBandit", LONG, kind="pure", effort=0.2, attainable=0.471,
             lost=_SIGNS)  # fmt: skip


@attack("sparse bandit, own context", SparseBandit, room="bandits", kind="approximate", lost=_SIGNS)
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
