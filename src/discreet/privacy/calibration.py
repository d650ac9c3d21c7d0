"""How a running sum is calibrated: every mechanism that is allowed, and the best of them."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.arrays import Array, one_of
from discreet.privacy.budget import Budget
from discreet.privacy.lattice import rounding
from discreet.privacy.mechanisms import k_norm_name, k_norm_std
from discreet.privacy.noise import Noise
from discreet.privacy.release import Release
from discreet.privacy.toeplitz import Buffered, SquareRoot
from discreet.privacy.tree import Tree


@dataclass(frozen=True)
class Task:
    """The running sum that is asked for: `PrefixSum`'s public arguments."""

    horizon: int  # rounds
    dim: int  # length of a row
    budget: Budget  # of all sums together
    sensitivity: float  # largest distance of two rows, in `norm`
    norm: str  # "l1", "l2" or "linf"
    bound: float  # largest norm of a row
    noise: Noise  # source of the noise


@dataclass(frozen=True)
class Calibration:
    """A mechanism calibrated for one running sum."""

    mechanism: str  # "tree", "toeplitz" or "blt"
    design: Tree | SquareRoot | Buffered  # how noise is shared between the sums
    release: Release  # what all sums cost together
    pure: bool  # whether delta is 0
    unit: float  # std of one coordinate of one draw of noise
    largest: float  # growth at the worst round
    spacing: float  # of the lattice of exact noise; 0 for float noise
    reference: str  # where the mechanism comes from

    @property
    def depth(self) -> int:
        """How many levels have noise of their own: those of a tree, or one."""
        return self.design.depth if isinstance(self.design, Tree) else 1

    def growth(self, t: Any) -> Array:
        """Std of the sum of t rounds, in units of one draw."""
        if not isinstance(self.design, Tree):
            return self.design.std(t)
        return np.sqrt(
            np.full(np.shape(t), self.largest**2) if self.design.padded else self.design.nodes(t)
        )


def best_calibration(task: Task, mechanism: str | Tree) -> Calibration:
    """The calibration with the least maximal std among those the caller allows."""
    if isinstance(mechanism, Tree):
        family = "tree"
        tree = mechanism
    else:
        family = one_of("mechanism", mechanism, ("auto", "blt", "toeplitz", "tree"))
        tree = Tree()
    approximate = not task.budget.pure or task.budget.off
    found = []
    if family in ("auto", "tree"):
        found.append(_tree(task, tree, pure=True))
        if approximate:
            found.append(_tree(task, tree, pure=False))
    if family == "toeplitz":
        found.append(_filter(task, "toeplitz", SquareRoot(task.horizon)))
    if family == "blt" or (family == "auto" and approximate):
        found.append(_filter(task, "blt", Buffered.fitted(task.horizon)))
    return min(found, key=lambda each: each.unit * each.largest)


def _tree(task: Task, tree: Tree, *, pure: bool) -> Calibration:
    budget = task.budget
    noise = task.noise
    dim = task.dim
    design = tree.fitted(task.horizon, pure=pure)
    nodes = design.most_nodes(task.horizon)
    # An exact source draws Laplace noise, for the l1 ball around the given one.
    norm = ("l1" if noise.exact else task.norm) if pure else "l2"
    name = k_norm_name(norm) if pure else "gaussian"
    one_round = task.sensitivity * stretch(task.norm, norm, dim)
    of_design = design.sensitivity(budget.contributions, pure=pure)
    unit_budget = budget.epsilon if pure else budget.mu
    scale = one_round * of_design / unit_budget
    # Exact as long as no sum needs more than 53 bits: the data, the nodes of one prefix, and the
    # running totals of node noise from which `add_many` takes differences.
    noisiest = 64 * scale * (nodes + math.sqrt(task.horizon * nodes))
    spacing = noise.spacing(name, scale, task.horizon * task.bound + noisiest)
    # Rounding two rows to the lattice can move each coordinate apart by one spacing more.
    one_round += spacing * (dim if norm == "l1" else math.sqrt(dim))
    shape = f"tree, branching {design.base}, {design.depth} levels"
    about: dict[str, Any] = {
        "what": f"{task.horizon} running sums ({shape})",
        "sensitivity": one_round * of_design,
        "scale": one_round * of_design / unit_budget,
        "sampler": noise.sampler(name),
    }
    release = (
        Release.pure(mechanism=name, norm=norm, **about) if pure else Release.gaussian(**about)
    )
    unit = k_norm_std(norm, release.scale, dim) if pure else release.scale
    return Calibration(
        "tree",
        design,
        release,
        pure,
        unit,
        math.sqrt(nodes),
        spacing,
        "Dwork et al. (2010); Andersson, Pagh and Torkamani (2024)",
    )


def _filter(task: Task, mechanism: str, design: SquareRoot | Buffered) -> Calibration:
    budget = task.budget
    # k rounds of one person move C x by at most the sum of k columns, each of length one_round.
    one_round = task.sensitivity * stretch(task.norm, "l2", task.dim)
    of_design = design.sensitivity(budget.contributions)
    spacing = 0.0
    sampler = task.noise.sampler("filtered gaussian")
    if isinstance(design, Buffered) and "gaussian" in task.noise.exact and not budget.off:
        design = design.dyadic()
        of_design = design.sensitivity(budget.contributions)
        spacing = task.noise.spacing("gaussian", one_round * of_design / budget.mu)
        sampler = task.noise.sampler("gaussian")
    # Each row is rounded to the lattice, and so is each published number; k rounds are in at most
    # k streams, whose squares add up.
    own = (one_round + spacing * math.sqrt(task.dim)) * of_design
    streams = math.sqrt(budget.contributions)
    sensitivity = own + spacing * rounding(task.horizon, task.dim) * streams
    release = Release.gaussian(
        what=f"{task.horizon} running sums ({mechanism})",
        sensitivity=sensitivity,
        scale=sensitivity / budget.mu,
        sampler=sampler,
    )
    largest = float(design.std(np.asarray(task.horizon)))
    reference = (
        "Fichtenberger, Henzinger and Upadhyay (2023)"
        if mechanism == "toeplitz"
        else "McMahan, Xiao, Pillutla et al. (2024)"
    )
    return Calibration(
        mechanism, design, release, False, release.scale, largest, spacing, reference
    )


def stretch(norm: str, other: str, dim: int) -> float:
    """The largest `other` norm of a vector whose `norm` is one."""
    order = {"l1": 1.0, "l2": 2.0, "linf": math.inf}
    return math.pow(dim, max(0.0, 1 / order[other] - 1 / order[norm]))
