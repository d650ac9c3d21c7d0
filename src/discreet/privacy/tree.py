"""Running sums from a tree of noisy node sums (Dwork et al. 2010; Chan, Shi, Song 2011).

Level l cuts the rounds into nodes of b^l rounds; every node gets noise once. A prefix of t rounds
is written in base b, t = sum_l w_l b^l, and published as the sum of |w_l| nodes of each level.
With balanced digits, -(b-1)/2 <= w_l <= b/2, a prefix may run ahead to the end of a large node and
take small nodes away again, which halves the number of nodes (Andersson, Pagh, Torkamani 2024).

    position_l(t) = the end of the prefix written with levels >= l only, a multiple of b^l
    reached[l]    = noisy sum up to position_l, of the data that has arrived
    open[l]       = noisy sum of the node that starts at position_l, of the data that has arrived
    ahead[l]      = noise of nodes that were taken away and have not started

Privacy. The published sums are L (R x + z) with R x all node sums, z their noise: a round is in
one node of each level. A node that runs ahead of the data does no harm, nor do inputs chosen by
looking at earlier outputs: given all outputs, the inputs of both neighbouring streams are fixed,
and moving z by R (x - x') maps one run to the other; the density of z there changes by at most
e^epsilon (pure noise). For Gaussian noise L z is distributed as that of a lower triangular
mechanism whose columns are no longer than R's, which is an adaptive composition (Denisov et al.
2022).

Snapshot. The state is a function of the node sums with their noise: one stolen state, by itself,
is as private as the outputs. Together with later outputs it is not: they contain the same noise.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import Array, integer
from discreet.privacy.accumulator import RunningSum
from discreet.state import damaged, value


@value
@dataclass(frozen=True, slots=True)
class Tree:
    """The shape of a tree: `PrefixSum(..., mechanism=Tree(branching=2))`.

    branching=None chooses the branching with the least maximal variance for the horizon.
    balanced=False allows no subtraction. padded=True adds noise until every prefix carries that of
    the same number of nodes, so that its distribution does not depend on t (an analysis device of
    Agarwal and Singh 2017).

    >>> Tree(branching=2).fitted(2**10, pure=False)
    Tree(branching=2, balanced=True, padded=False, levels=11)
    """

    branching: int | None = None  # children of a node; None: the best
    balanced: bool = True  # allow subtraction
    padded: bool = False  # the same noise in every sum
    levels: int | None = None  # None: those with the least variance

    def __post_init__(self) -> None:
        if self.branching is not None:
            object.__setattr__(self, "branching", integer("branching", self.branching, least=2))
        if self.levels is not None:
            object.__setattr__(self, "levels", integer("levels", self.levels))
            if self.branching is None:
                raise ValueError("levels needs a branching; leave both out to choose the best")

    @property
    def base(self) -> int:
        """The branching of a fitted tree."""
        if self.branching is None:
            raise ValueError("this tree has no branching yet; call fitted(horizon) first")
        return self.branching

    @property
    def depth(self) -> int:
        """The levels of a fitted tree: in how many nodes a round is."""
        if self.levels is None:
            raise ValueError("this tree has no levels yet; call fitted(horizon) first")
        return self.levels

    @property
    def back(self) -> int:
        """How many nodes of a level may be taken away: the lowest digit is -back."""
        return (self.base - 1) // 2 if self.balanced else 0

    def fitted(self, horizon: int, *, pure: bool) -> "Tree":
        """This tree with branching and levels for a horizon; least maximal variance if open."""
        if self.levels is not None:
            return self
        if self.branching is not None:
            return replace(self, levels=_full_levels(self, horizon))
        return _best_tree(self, horizon, 2 if pure else 1)

    def position(self, t: Any, level: int) -> Any:
        """How many nodes of a level end before the prefix of t rounds, written from above."""
        size = self.base**level
        return (t + self.back * (size - 1) // (self.base - 1)) // size

    def nodes(self, t: Any) -> Any:
        """How many nodes are added or taken away to make the prefix of t rounds."""
        count = self.position(t, self.depth - 1)
        for level in range(self.depth - 1):
            count = count + abs(self.position(t, level) - self.base * self.position(t, level + 1))
        return count

    def most_nodes(self, horizon: int) -> int:
        """The largest `nodes(t)` for t up to the horizon."""
        base = self.base
        back = self.back
        digit = self.base - 1 - self.back

        @functools.cache
        def most(level: int, last: int) -> int:  # over positions 0..last of this level
            if level == self.depth - 1:
                return last
            parent = (last + back) // base
            here = max(min(back, parent * base), last - parent * base)
            best = alone(level + 1, parent) + here
            return max(best, most(level + 1, parent - 1) + max(back, digit)) if parent else best

        def alone(level: int, position: int) -> int:  # nodes of exactly this position
            if level == self.depth - 1:
                return position
            parent = (position + back) // base
            return abs(position - parent * base) + alone(level + 1, parent)

        return most(0, horizon)

    def sensitivity(self, contributions: int, *, pure: bool) -> float:
        """How far k rounds of one person move all node sums, for unit moves: l1 or l2 of the moves.

        Every round is in one node of each level. In l2 it matters how many share a node: packing
        them into the first k rounds fills nodes at all levels at once, and nothing packs closer.
        Where j < k rounds that fill their nodes move the sums by more than sqrt(j/k) of that, a
        little more is said, so that squares of costs are at most linear in the rounds (`Doubling`).
        """
        if pure:
            return float(self.depth * contributions)
        k = np.arange(1, contributions + 1)
        squares = np.zeros(contributions)
        for level in range(self.depth):
            size = self.base**level
            squares += (k // size) * float(size) ** 2 + (k % size) ** 2.0
        return math.sqrt(contributions * float(np.max(squares / k)))


class TreeSum(RunningSum):
    """The running sum itself. `draw(level, count)` returns that many rows of node noise.

    Each level draws from its own stream in the order of its nodes, so that many rounds at once
    and one round at a time see the same noise.

    draw      (level, count) -> rows of noise for the next nodes of a level
    """

    _state = ("rounds", "estimate", "_reached", "_open", "_ahead", "draw")

    def __init__(
        self, tree: Tree, horizon: int, dim: int, draw: Callable[[int, int], Array]
    ) -> None:
        super().__init__(horizon, dim)
        self.tree = tree
        self.draw = draw
        self._padding = tree.most_nodes(horizon) if tree.padded else 0
        self._reached = np.zeros((tree.depth, dim))
        self._open = np.concatenate([draw(level, 1) for level in range(tree.depth)])
        self._ahead = tuple(np.empty((0, dim)) for _ in range(tree.depth))

    def _advanced(self, x: Array) -> tuple[Array, dict[str, Any]]:
        tree = self.tree
        t = self.rounds + 1
        reached = self._reached.copy()
        open_ = self._open.copy()
        ahead = list(self._ahead)
        for level in range(tree.depth):
            covered = t <= tree.position(t - 1, level) * tree.base**level
            (reached if covered else open_)[level] += x
        top = 0
        while top + 1 < tree.depth and tree.position(t, top + 1) > tree.position(t - 1, top + 1):
            top += 1
        # The prefix passes one node of level `top`; below it is written anew from there.
        reached[top] += open_[top]
        open_[top], ahead[top] = self._next(top, ahead[top])
        for level in range(top - 1, -1, -1):
            passed = self.draw(level, tree.back) if tree.back else np.empty((0, self.dim))
            reached[level] = reached[level + 1] - passed.sum(axis=0)
            open_[level], ahead[level] = self._next(level, passed)
        estimate = self._padded(reached[:1].copy(), np.array([t]))[0]
        return estimate, {"_reached": reached, "_open": open_, "_ahead": tuple(ahead)}

    def _advanced_by(self, X: Array) -> tuple[Array, dict[str, Any]]:
        tree = self.tree
        before = self.rounds
        after = self.rounds + len(X)
        data = np.concatenate([np.zeros((1, self.dim)), np.cumsum(X, axis=0)])
        above = np.empty((0, self.dim))  # noisy sums at the positions of the level above
        above_first = 0
        reached = np.empty_like(self._reached)
        open_ = np.empty_like(self._open)
        ahead = list(self._ahead)
        for level in range(tree.depth - 1, -1, -1):
            first, last = tree.position(before, level), tree.position(after, level)
            noise = self._upcoming(level, last)  # of the nodes first + 1, first + 2, ...
            sums = np.concatenate([np.zeros((1, self.dim)), np.cumsum(noise, axis=0)])
            # Positions first..last. Those under the old parent go on from the state at hand ...
            old = last if level == tree.depth - 1 else min(last, self._last_under(level, before))
            here = np.empty((last - first + 1, self.dim))
            here[0] = self._reached[level]
            here[1 : old - first + 1] = (
                self._reached[level] + self._open[level] + sums[: old - first]
            )
            # ... the others are written from the position of the level above.
            if last > old:
                k = np.arange(old + 1, last + 1)
                parent = (k + tree.back) // tree.base
                steps = sums[k - first - 1] - sums[parent * tree.base - first - 1]
                here[old - first + 1 :] = above[parent - above_first] + steps
            end = np.clip(last * tree.base**level, before, after) - before
            reached[level] = here[-1] + data[end]
            start = self._open[level] if last == first else noise[last - first - 1]
            open_[level] = start + data[-1] - data[end]
            ahead[level] = noise[last - first :]
            above, above_first = here, first
        sums = self._padded(above[1:] + data[1:], np.arange(before + 1, after + 1))
        return sums, {"_reached": reached, "_open": open_, "_ahead": tuple(ahead)}

    def node_sums(self) -> dict[str, Array]:
        """What a thief of the state would find: noisy node sums, and noise drawn ahead."""
        ahead = {f"ahead{level}": rows.copy() for level, rows in enumerate(self._ahead)}
        return {"reached": self._reached.copy(), "open": self._open.copy(), **ahead}

    def _validate(self) -> None:
        super()._validate()
        shapes = [np.shape(rows)[1:] for rows in self._ahead]
        if shapes != [(self.dim,)] * self.tree.depth:
            raise damaged("ahead")

    def _next(self, level: int, ahead: Array) -> tuple[Array, Array]:
        """Noise of the next node of a level, drawn ahead or now, and what is left ahead."""
        return (ahead[0], ahead[1:]) if len(ahead) else (self.draw(level, 1)[0], ahead)

    def _upcoming(self, level: int, last: int) -> Array:
        """Noise of the nodes after the open one, up to the last that is open or ahead at `last`."""
        first = self.tree.position(self.rounds, level)
        needed = last
        if level < self.tree.depth - 1:  # nodes up to the parent's end are taken away: drawn too
            parent = (last + self.tree.back) // self.tree.base
            needed = max(last, parent * self.tree.base - 1)
        known = self._ahead[level]
        fresh = needed - first - len(known)
        return np.concatenate([known, self.draw(level, fresh)]) if fresh > 0 else known

    def _last_under(self, level: int, before: int) -> int:
        """The last position of a level that is written from the same parent as the present one."""
        parent = self.tree.position(before, level + 1)
        return int((parent + 1) * self.tree.base - self.tree.back - 1)

    def _padded(self, sums: Array, t: NDArray[np.int64]) -> Array:
        if not self._padding:
            return sums
        missing = self._padding - self.tree.nodes(t)
        extra = self.draw(self.tree.depth, int(missing.sum()))
        ends = np.concatenate([[0], np.cumsum(missing)])
        totals = np.concatenate([np.zeros((1, self.dim)), np.cumsum(extra, axis=0)])
        return np.asarray(sums + totals[ends[1:]] - totals[ends[:-1]])


def _full_levels(tree: Tree, horizon: int) -> int:
    """The fewest levels that write every t up to the horizon with digits in range."""
    digit = tree.base - 1 - tree.back
    levels = 1
    largest = digit
    while largest < horizon:
        largest += digit * tree.base**levels
        levels += 1
    return levels


@functools.lru_cache(maxsize=256)
def _best_tree(tree: Tree, horizon: int, power: int) -> Tree:
    """Least levels^power * most nodes; the top level may hold as many nodes as it likes."""
    shapes = [replace(tree, branching=2, levels=1)]
    for branching in range(2, 49):  # more never wins at any horizon where a tree has two levels
        levels = 2
        while branching ** (levels - 1) <= horizon:
            shapes.append(replace(tree, branching=branching, levels=levels))
            levels += 1
    return min(shapes, key=lambda s: (s.depth**power * s.most_nodes(horizon), s.depth, s.base))
