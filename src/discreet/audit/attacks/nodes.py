"""Pure noise on running sums: the nodes that hold the canary, by the exact likelihood of each.

A learner of the registry lives for two rounds, the canary's and one of nobody. Its noise has the
density exp(-|z|/scale), so that of a node with the value v, which holds a0 or a1,

    log-likelihood ratio = (|v - a0| - |v - a1|) / scale

and a binary tree of two rounds shows both of its nodes, the leaf and the root, as its sums. What
a record adds is read from the same learner without noise. `attainable` is 1: where noise has
several dimensions the event that proves all of epsilon is rare, and is one.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from discreet.arrays import Array, norm_order
from discreet.audit.entries import Session
from discreet.audit.registry import REGISTRY
from discreet.audit.rows import Claim, attack
from discreet.audit.views import each, rounded
from discreet.privacy import Budget, Guarantee, PrefixSum, SeededNoise, Tree
from discreet.privacy.noise import Noise
from discreet.privacy.observation import observed, values

TWO = Tree(branching=2)


@dataclass
class Nodes:
    """A learner, the canary's two records, and a record of nobody."""

    entry: str  # of the registry
    norm: str  # of its noise
    pair: tuple[Any, Any]  # the canary's records
    nobody: Any  # a record that tells nothing
    tree: Tree = TWO  # of two rounds' sums
    changes: dict[str, Any] = field(default_factory=dict)  # of its arguments

    def released(self, epsilon: float, noise: Noise, neighbour: int) -> Array:  # (2, dim)
        """The two nodes of one life."""
        entry = REGISTRY[self.entry]
        of_sums = entry.of is PrefixSum
        cost = {"budget": Budget(epsilon)} if of_sums else {"epsilon": epsilon, "delta": 0.0}
        sizes = {"horizon": 2, "mechanism": self.tree, "noise": noise}
        session = Session(entry.make(**cost, **sizes, **self.changes))
        with observed("sum") as seen:
            for _, _, step in entry.steps([self.pair[neighbour], self.nobody]):
                step(session)
        assert math.isinf(epsilon) or all(each.release.norm == self.norm for each in seen)  # type: ignore[union-attr]
        return np.vstack(values(seen))

    @cached_property
    def centres(self) -> list[Array]:
        """The nodes without noise, in both neighbours."""
        return [self.released(math.inf, SeededNoise(0), neighbour) for neighbour in (0, 1)]

    def score(self, claim: Claim, neighbour: int, noise: SeededNoise) -> Array:
        """The leaf and the root that hold the canary's round, of a tree with pure noise."""
        seen = self.released(claim.epsilon, noise, neighbour)
        away, close = (
            np.linalg.norm(seen - centre, ord=norm_order(self.norm), axis=1)
            for centre in self.centres
        )
        ratios = away - close
        return rounded([ratios.sum(), *ratios])

    def fits(self, learner: Any, promise: Guarantee) -> bool:
        """Trees with this noise; running sums: of this shape."""
        (first, *_) = promise.releases
        design = learner.design if isinstance(learner, PrefixSum) else self.tree
        if not isinstance(design, Tree) or first.norm != self.norm:
            return False
        alike = (design.balanced, design.padded) == (self.tree.balanced, self.tree.padded)
        return "(tree" in first.what and alike


def _nodes(name: str, room: str, *about: Any, **more: Any) -> None:
    nodes = Nodes(*about, **more)
    of = REGISTRY[nodes.entry].of
    attack(name, of, room=room, kind="pure", fits=nodes.fits)(each(nodes.score))


E1, NOTHING = np.eye(3)[0], np.zeros(3)
ROW, ONES = np.array([1.0, 0.0]), np.ones(2)
SIGNS = (np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0]))  # in l-infinity 1 apart

for _norm, _pair in {"l1": (-ROW, ROW), "l2": (-ROW, ROW), "linf": (-ONES, ONES)}.items():
    _entry = f"PrefixSum tree pure {_norm}"
    _nodes(f"prefix sum pure tree {_norm}", "sums", _entry, _norm, _pair, 0 * ROW)
# Two rounds need no padding: more noise than this is of no use to an attacker.
for _shape in ("binary", "padded"):
    _tree = Tree(branching=2, balanced=False, padded=_shape == "padded")
    _entry = f"PrefixSum tree {_shape}"
    _nodes(f"prefix sum {_shape} tree", "sums", _entry, "l2", (-ROW, ROW), 0 * ROW, _tree)
for _of in ("FTRL", "FTPL"):
    _half = np.full(3, 0.5)
    _nodes(f"{_of.lower()} tree, simplex", "online", f"{_of} simplex", "linf", SIGNS, _half)
    _nodes(f"{_of.lower()} tree, cube", "online", f"{_of} cube, pure", "l1", (-E1, E1), NOTHING)
_nodes("ftrl tree, ball", "online", "FTRL ball", "l2", (-E1, E1), NOTHING)
_nodes(
    "continual linucb pure tree", "bandits", "ContinualLinUCB tree", "l2",
    ((-ROW[None], 1.0), (ROW[None], 1.0)), (0 * ROW[None], 0.0),
)  # fmt: skip
_nodes(
    "streaming frank-wolfe tree", "optimization", "StreamingFrankWolfe p = 2 tree", "l2",
    ((E1, -1.0), (E1, 1.0)), (NOTHING, 0.0), changes={"gradient_bound": 0.1},
)  # fmt: skip
