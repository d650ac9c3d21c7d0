"""What an attack is: two neighbouring inputs, and a score that tells them apart.

    neighbour 0, 1   the same stream but for one person's rounds, at their worst
    score            large where the attacker believes in neighbour 1
    claim            what the learner promises: the attack must not prove more

An attack runs the library's public code. It reads what is published: return values, public
attributes, and releases as they happen (`privacy.release.observed`). To begin in the middle of a
learner's life it edits a saved state (`staged.py`); a thief reads one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from discreet.arrays import Array, integer, one_of
from discreet.privacy import Budget, Guarantee, SeededNoise, gaussian_mu
from discreet.privacy.gaussian import gaussian_epsilon, zcdp_epsilon, zcdp_rho

KINDS = ("pure", "gaussian", "zcdp", "approximate")
ROOMS = (
    "mechanisms", "sums", "local", "regression", "bandits", "online", "optimization", "evaluation"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Claim:
    """What is promised: (epsilon, delta), and through which calculus.

    pure         epsilon-DP
    gaussian     mu-GDP, mu the largest that implies (epsilon, delta)
    zcdp         rho-zCDP, rho the largest that implies (epsilon, delta)
    approximate  (epsilon, delta)-DP and nothing finer

    >>> round(Claim(1.0, 1e-6, "gaussian").mu, 4)
    0.2367
    """

    epsilon: float  # promised
    delta: float = 0.0  # promised
    kind: str = "pure"  # one of those above
    contributions: int = 1  # rounds, rows or reports of one person that it covers

    def __post_init__(self) -> None:
        one_of("kind", self.kind, KINDS)
        Budget(self.epsilon, self.delta, self.contributions)
        if (self.kind == "pure") != (self.delta == 0):
            raise ValueError("a pure claim has delta = 0, every other claim has delta > 0")

    @property
    def mu(self) -> float:
        """The promise as Gaussian privacy; infinite if it is not."""
        return gaussian_mu(self.epsilon, self.delta) if self.kind == "gaussian" else math.inf

    @property
    def method(self) -> str:
        """The bound of `audit_scores` that is valid against this claim."""
        return {"gaussian": "gdp", "zcdp": "zcdp"}.get(self.kind, "clopper-pearson")


Draw = Callable[[Claim, int, int, SeededNoise], Array]
Fits = Callable[[Any, Guarantee], bool]


def always(learner: Any, promise: Guarantee) -> bool:
    return True  # whatever the configuration


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack on one mechanism or learner.

    `draw(claim, runs, neighbour, noise)` runs the learner `runs` times on one of two neighbouring
    inputs (0 or 1) with privacy noise from `noise`, and returns one score for each run, or several
    views of it as columns (the audit chooses between them on runs that it does not count).
    `attainable` is the fraction of the claim (of mu if it is Gaussian, of epsilon else) that the
    best attacker can reach here with infinitely many runs; 0 where only a mistake would show
    anything. Where that is too little to notice half the noise, `lost` says what is: our analysis
    (more is booked than anything moves), the attack (others see more), or budget left unused.
    `effort` is the fraction of the runs asked for that a slow learner makes. `of` are the classes
    whose promise is attacked, where `fits(learner, promise)` says yes; an attack that holds a part
    to a price of its own names none.
    """

    name: str  # in ATTACKS
    room: str  # whose learner it attacks
    claim: Claim  # what the learner promises
    description: str  # what it does, in words
    draw: Draw  # makes the scores
    attainable: float = 1.0  # fraction of the claim
    effort: float = 1.0  # fraction of the runs
    lost: str = ""  # why half the noise may not show
    of: tuple[type, ...] = ()  # whose promise it attacks
    fits: Fits = always  # which configurations of these

    def __post_init__(self) -> None:
        one_of("room", self.room, ROOMS)

    def at(
        self, epsilon: float, delta: float | None = None, contributions: int | None = None
    ) -> "Attack":
        """The same attack on the same learner with another promise.

        A delta of 0 stays one, and another number of contributions is for attacks by a person with
        more than one: what they do depends on it.
        """
        claim = self.claim
        delta = claim.delta if delta is None else delta
        contributions = claim.contributions if contributions is None else contributions
        if (contributions > 1) != (claim.contributions > 1):
            raise ValueError(
                f"{self.name!r} is an attack on {claim.contributions} contribution(s) of one "
                f"person, and {contributions} are promised; take another"
            )
        return replace(self, claim=Claim(epsilon, delta, claim.kind, contributions))

    def concerns(self, kind: type, learner: Any, promise: Guarantee) -> bool:
        """Whether it attacks the promise of a learner of this class and configuration."""
        return (
            kind in self.of
            and (self.claim.delta == 0) == (promise.delta == 0)
            and (self.claim.contributions > 1) == (promise.contributions > 1)
            and self.fits(learner, promise)
        )

    def halved(self) -> "Attack":
        """The same attack on a learner that has half the noise it needs: the bug to be caught.

        Twice mu, four times rho, or twice epsilon where noise has no finer price.
        """
        claim = self.claim
        if claim.kind == "gaussian":
            return self.at(gaussian_epsilon(2 * claim.mu, claim.delta))
        if claim.kind == "zcdp":
            return self.at(zcdp_epsilon(4 * zcdp_rho(claim.epsilon, claim.delta), claim.delta))
        return self.at(2 * claim.epsilon)

    def scores(self, runs: int, neighbour: int, seed: int) -> Array:  # (runs,) or (runs, views)
        """The scores of `runs` independent runs in one neighbour; the same for the same seed."""
        integer("runs", runs)
        one_of("neighbour", str(neighbour), ("0", "1"))
        out = self.draw(self.claim, runs, neighbour, noise_of(seed, neighbour))
        scores = np.asarray(out, dtype=np.float64)
        if scores.shape[:1] != (runs,) or scores.ndim > 2:
            raise ValueError(f"{self.name}: expected {runs} scores, got shape {scores.shape}")
        return scores


def noise_of(seed: int, neighbour: int) -> SeededNoise:
    """Privacy noise for one block of runs: independent between neighbours and seeds."""
    words = np.random.SeedSequence([integer("seed", seed, least=0), neighbour]).generate_state(4)
    return SeededNoise(sum(int(word) << (32 * i) for i, word in enumerate(words)))


ATTACKS: dict[str, Attack] = {}


def attack(
    name: str,
    *of: type,
    room: str,
    kind: str,
    delta: float = 1e-6,
    contributions: int = 1,
    **about: Any,  # of `Attack`
) -> Callable[[Draw], Draw]:
    """Register `draw(claim, runs, neighbour, noise)`; its docstring is the description."""

    def register(draw: Draw) -> Draw:
        if name in ATTACKS:
            raise ValueError(f"there is an attack {name!r} already")
        claim = Claim(1.0, 0.0 if kind == "pure" else delta, kind, contributions)
        words = " ".join((draw.__doc__ or "").split())
        ATTACKS[name] = Attack(name, room, claim, words, draw, of=of, **about)
        return draw

    return register
