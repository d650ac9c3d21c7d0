"""Learners that publish running sums: the likelihood of all sums of a short life.

A learner of the registry lives for a few rounds. In some of them the canary is one of two records,
in all others nobody says anything; what a record adds to the sums is read from the same learner
without noise. So a row is a learner, a pair of records, and when they come. The score is

    Gaussian noise     (c_1 - c_0)' (B B')^-1 s,  s = c + B z: the sums, their centres, the noise
    density e^-|z|     sum over nodes of |v - c_0| - |v - c_1|; a binary tree of two rounds shows
                       both of its nodes, the leaf and the root, as its sums

and what the learner shows at the end stands beside it. `attainable` is |B^-1 (c_1 - c_0)| over the
most that any rounds cost. Where pure noise has several dimensions the event that proves all of
epsilon is rare, and is one: 1.
"""

import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from discreet.arrays import Array, norm_order
from discreet.audit.entries import Entry, Session
from discreet.audit.families import Leader
from discreet.audit.registry import REGISTRY
from discreet.audit.rows import Claim, attack
from discreet.audit.views import best_weights, each, mixed, rounded, summed
from discreet.domains import Ball, Cube, Simplex
from discreet.privacy import Guarantee, SeededNoise, Tree
from discreet.privacy.noise import Noise
from discreet.privacy.release import Observed, observed, values


@dataclass
class Life:
    """A learner's rounds, and the canary's two records in some of them."""

    entry: Entry  # of the registry
    pair: tuple[Any, Any]  # the canary's records
    nobody: Any  # a record that tells nothing
    rounds: int  # of its life
    canary: tuple[int, ...]  # the canary's rounds
    mechanism: str | Tree  # of the sums
    changes: dict[str, Any]  # of the entry's arguments

    def made(self, claim: Claim, noise: Noise) -> Any:
        return self.entry.claiming(claim, noise, mechanism=self.mechanism, **self.changes)

    def lived(self, claim: Claim, noise: Noise, neighbour: int) -> tuple[Any, list[Observed]]:
        """The learner at the end, and the sums that it published."""
        session = Session(self.made(claim, noise))
        data = [self.nobody] * self.rounds
        for place in self.canary:
            data[place] = self.pair[neighbour]
        with observed("sum") as seen:
            for _, _, step in self.entry.steps(data):
                step(session)
        return session.subject, seen

    @cached_property
    def centres(self) -> Array:  # (2, rounds, dim)
        """The sums without noise, in both neighbours."""
        off = Claim(math.inf, contributions=len(self.canary))
        sides = [self.lived(off, SeededNoise(0), side)[1] for side in (0, 1)]
        return np.array([np.vstack(values(side)) for side in sides])

    def score(self, claim: Claim, neighbour: int, noise: SeededNoise) -> Array:
        """The likelihood of all sums, some sums by themselves, and what is shown at the end."""
        learner, seen = self.lived(claim, noise, neighbour)
        sums = np.vstack(values(seen))
        assert seen[0].release is not None
        scores = (
            self._nodes(sums, seen[0].release.norm) if claim.delta == 0 else self._whitened(sums)
        )
        end = learner.decide() if isinstance(self.entry.family, Leader) else ()
        return rounded([*scores, *np.ravel(getattr(learner, "theta", end))])

    def _nodes(self, sums: Array, norm: str) -> Array:
        """Of a tree with pure noise: all nodes, and each by itself."""
        away, near = (np.linalg.norm(sums - each, ord=norm_order(norm), axis=1)
                      for each in self.centres)  # fmt: skip
        return np.append(np.sum(away - near), away - near)

    def _whitened(self, sums: Array) -> Array:
        """Of Gaussian noise, along the way in which a record moves the sums."""
        apart = self.centres[1] - self.centres[0]
        along = apart[-1] / np.linalg.norm(apart[-1])
        weights = best_weights(mixed(self.mechanism, self.rounds), apart @ along)
        return np.asarray(summed((sums @ along)[:, None], weights, self.canary[0])[0])

    def fits(self, learner: Any, promise: Guarantee) -> bool:
        """Learners whose first release is such a sum."""
        kind = "gaussian" if promise.delta else "pure"
        claim = Claim(1.0, promise.delta, kind, len(self.canary))
        own = self.made(claim, SeededNoise(0))
        return _kind(own.guarantee) == _kind(promise)


def _kind(promise: Guarantee) -> list[tuple[str, str, str]]:
    """Noise and kind of the first sum: "8 running sums (tree, 4 levels)" is a tree."""
    return [
        (release.mechanism, release.norm, kind)
        for release in promise.releases[:1]
        for kind in re.findall(r"running sums \((\w+)", release.what)
    ]


def lives(
    name: str,
    entry: str,  # of the registry
    pair: tuple[Any, Any],
    nobody: Any,
    mechanism: str | Tree,
    *,
    rounds: int = 2,
    canary: tuple[int, ...] = (0,),
    attainable: float = 1.0,
    delta: float | None = None,  # by default 0 for trees
    **changes: Any,  # of the entry's arguments
) -> None:
    of = REGISTRY[entry].of
    changes = {"horizon": rounds, **changes}
    life = Life(REGISTRY[entry], pair, nobody, rounds, canary, mechanism, changes)
    about: dict[str, Any] = {"fits": life.fits, "attainable": attainable}
    pure = delta is None and isinstance(mechanism, Tree)
    room = of.__module__.split(".")[1].replace("privacy", "sums")
    row = attack(
        name, of, room=room, kind="pure" if pure else "gaussian", contributions=len(canary), **about
    )
    row(each(life.score))


TWO, WIDE = Tree(2), Tree(2, balanced=False)
PADDED = Tree(2, balanced=False, padded=True)
E1, ROW = np.eye(3)[0], np.eye(2)[0]
EXPERTS = (np.array([0.0, 1.0]), np.array([1.0, 0.0]))  # a loss (1, 0) is the whole move apart
FOUR = (np.tile(EXPERTS[0], 2), np.tile(EXPERTS[1], 2))
BOTH: dict[str, str | Tree] = {"": "blt", " pure": TWO}
PAIRS = {"l1": (-ROW, ROW), "l2": (-ROW, ROW), "linf": (-np.ones(2), np.ones(2))}

for _norm, _pair in PAIRS.items():
    lives(f"prefix sum pure tree {_norm}", f"PrefixSum tree pure {_norm}", _pair, 0 * ROW, TWO)
# Two rounds need no padding: more noise than this is of no use to an attacker.
for _shape, _tree in {"binary": WIDE, "padded": PADDED}.items():
    lives(f"prefix sum {_shape} tree", f"PrefixSum tree {_shape}", PAIRS["l2"], 0 * ROW, _tree)

# A last round is in one sum only.
for _when, _own, _attainable in (
    ("", (0,), 1.0), (", last round", (5,), 0.76), (", three rounds of one user", (0, 1, 2), 1.0)
):  # fmt: skip
    lives(f"ftrl{_when}", "FTRL simplex", FOUR, np.full(4, 0.5), "blt", rounds=6, canary=_own,
          attainable=_attainable, domain=Simplex(4))  # fmt: skip
lives("ftrl on the ball", "FTRL ball", (-ROW, ROW), 0 * ROW, "blt", domain=Ball(2))
lives("ftpl", "FTPL simplex", EXPERTS, np.full(2, 0.5), "blt", domain=Simplex(2))
lives("ftrl pure", "FTRL simplex", EXPERTS, np.full(2, 0.5), TWO, domain=Simplex(2))
lives("ftrl tree, ball", "FTRL ball", (-E1, E1), 0 * E1, TWO)
for _of in ("FTRL", "FTPL"):
    lives(f"{_of.lower()} tree, simplex", f"{_of} simplex", (1 - E1, E1), np.full(3, 0.5), TWO)
    lives(f"{_of.lower()} tree, cube", f"{_of} cube, pure", (-E1, E1), 0 * E1, TWO)
# The canary's round is the last before a restart.
for _name, _mechanism in BOTH.items():
    lives(f"doubling{_name}", "Doubling FTRL", EXPERTS, np.full(2, 0.5), _mechanism, rounds=1,
          domain=Simplex(2))  # fmt: skip

# Six features: with fewer, pure noise is the smaller at a large epsilon. [e1; 1] and [-e1; 1].
SIX = np.eye(6)[:1]
FILTERS: dict[str, str | Tree] = {"blt": "blt", "toeplitz": "toeplitz", "tree": TWO}
for _name, _mechanism in FILTERS.items():
    lives(f"continual linucb {_name}", f"ContinualLinUCB {_name}", ((-SIX, 1.0), (SIX, 1.0)),
          (0 * SIX, 0.0), _mechanism, rounds=4, dim=6, delta=1e-6)  # fmt: skip
lives("continual linucb pure tree", "ContinualLinUCB tree", ((-ROW[None], 1.0), (ROW[None], 1.0)),
      (0 * ROW[None], 0.0), TWO)  # fmt: skip

# One row changes its moment from end to end; a second one's label lies so far out that its moment
# is at the same end, whatever the first step.
LABELS = (([1.0], -1.0), ([1.0], 1.0))
FAR = (([1.0], 4.0), ([1.0], -4.0))
for _name, _entry in {"blt": "p = 2 sums", "toeplitz": "p = inf"}.items():
    lives(f"streaming frank-wolfe {_name}", f"StreamingFrankWolfe {_entry}", LABELS, ([0.0], 0.0),
          _name, domain=Cube(1), gradient_bound=0.1)  # fmt: skip
lives("streaming frank-wolfe blt, two rows of one user", "StreamingFrankWolfe p = 2 sums", FAR,
      ([0.0], 0.0), "blt", rounds=4, canary=(0, 1), domain=Cube(1), gradient_bound=0.01,
      label_bound=4.0)  # fmt: skip
lives("streaming frank-wolfe tree", "StreamingFrankWolfe p = 2 tree", ((E1, -1.0), (E1, 1.0)),
      (0 * E1, 0.0), TWO, gradient_bound=0.1)  # fmt: skip
