"""Private running sums: one budget for a whole stream of prefix sums, adaptive inputs included.

A mechanism is calibrated before the first round: those that are allowed, and the best of them.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.arrays import (
    Array,
    integer,
    norm_order,
    norms_in_bounds,
    numbers,
    one_of,
    positive,
    public_bound,
    rows_or_nan,
    shortened,
    within,
)
from discreet.privacy.accumulator import RunningSum
from discreet.privacy.guarantee import STREAM, Guarantee
from discreet.privacy.ledger import Ledger
from discreet.privacy.mechanisms import (
    NORMS,
    draw_generalized,
    draw_k_norm,
    k_norm_name,
    k_norm_std,
)
from discreet.privacy.noise import Noise, source, to_lattice
from discreet.privacy.release import Budget, Release, observe
from discreet.privacy.toeplitz import Buffered, FilteredSum, LatticeSum, SquareRoot, rounding
from discreet.privacy.tree import Tree, TreeSum
from discreet.state import Stateful, damaged, encode

# The nodes of a tree hold their noise; the buffers of a filter give it away.
STOLEN_NODES = "more than one stolen state, or one beside sums that are published later"
STOLEN_FILTER = "anything, against whoever sees a stolen state"

GENERALIZED = "generalized-gaussian"


class PrefixSum(Stateful):
    """The running sum of a stream of vectors, published after every round.

    Requires   one replaced round moves x by at most `sensitivity` in `norm`. Rows are checked
               against norm <= sensitivity/2, which implies it; with `bound=` they are checked
               against that instead, and the caller vouches that any two rows are within
               `sensitivity` (losses in [0, 1]^n: norm="linf", sensitivity=1, bound=1).
    Guarantee  all `horizon` sums together are (epsilon, delta)-DP, for inputs that may depend on
               earlier outputs; with contributions=k, for a person who takes part in k rounds.

    mechanism="auto" takes the least maximal variance: buffered Toeplitz ("blt") for delta > 0, a
    tree with K-norm noise for delta = 0 or very short streams. "toeplitz" is the square root
    (memory grows with the horizon), "tree" or `Tree(branching=..., ...)` a tree. With SecureNoise
    all of them are exact but "toeplitz", whose noise is float, as its guarantee says.
    "generalized-gaussian", to compare with, is the binary tree with l_r noise of Han et al. (2022):
    rows in any l_q, q >= 1, and far more noise than "blt".

    A stolen state reveals noisy sums for a tree and everything for "blt" and "toeplitz". Sums
    published again from an old state spend the budget twice: a state may be resumed only once. The
    generator is in the state only for SeededNoise, because it would reveal the noise to come.

    Several threads may share one object: each round is taken in whole, in some order.

    horizon       the most rounds; public
    dim           length of a row
    budget        what all sums together may cost
    sensitivity   largest distance of any two rows, in `norm`
    norm          "l1", "l2" or "linf"; for "generalized-gaussian" any "l<q>", such as "l3"
    mechanism     "auto", "blt", "toeplitz", "tree", a `Tree` or "generalized-gaussian"
    noise         source of the noise; None draws floats from the operating system's entropy
    bound         largest norm of a row; sensitivity/2 by default
    clip          shorten rows beyond the bound instead of refusing them

    >>> from discreet.privacy import Budget, SeededNoise
    >>> sums = PrefixSum(1000, 2, Budget(1.0, 1e-6), sensitivity=2.0, noise=SeededNoise(0))
    >>> for _ in range(1000):
    ...     estimate = sums.add([0.6, -0.8])
    >>> bool(np.abs(estimate - [600, -800]).max() < 4 * sums.std(1000))
    True
    """

    _state = ("_sum", "_ledger")

    def __init__(
        self,
        horizon: int,
        dim: int,
        budget: Budget,
        *,
        sensitivity: float,
        norm: str = "l2",
        mechanism: str | Tree = "auto",
        noise: Noise | None = None,
        bound: float | None = None,
        clip: bool = False,
    ) -> None:
        self.horizon = integer("horizon", horizon)
        self.dim = integer("dim", dim)
        self.budget = budget
        self.sensitivity = positive("sensitivity", sensitivity)
        self.norm = norm if mechanism == GENERALIZED else one_of("norm", norm, NORMS)
        self.bound = public_bound("bound", self.sensitivity / 2 if bound is None else bound)
        if clip and self.bound > self.sensitivity / 2:
            raise ValueError(
                "clip=True shortens rows to the bound, which keeps them within `sensitivity` of "
                "each other only if bound <= sensitivity/2; subtract a public centre first"
            )
        self.clip = bool(clip)
        self.noise = source(noise)
        self._asked = mechanism
        self._calibration = best_calibration(self, mechanism)
        self._ledger = Ledger(budget, self._calibration.accounting)
        self._ledger.spend(self._calibration.release)
        self._sum = self._begin()

    def _begin(self) -> RunningSum:
        plan = self._calibration
        design = plan.design
        if isinstance(design, Tree):
            return TreeSum(design, self.horizon, self.dim, NodeNoise(plan, self.dim, self.noise))
        scale = plan.release.scale
        (stream,) = self.noise.spawn(1)
        if isinstance(design, Buffered) and plan.spacing:
            return LatticeSum(design, self.dim, scale, plan.spacing, stream)
        return FilteredSum(design, self.dim, scale, stream)

    @property
    def rounds(self) -> int:
        """Rounds taken in so far."""
        return self._sum.rounds

    @property
    def mechanism(self) -> str:
        """The mechanism in use: "blt", "toeplitz", "tree" or "generalized-gaussian"."""
        return self._calibration.mechanism

    @property
    def design(self) -> Any:
        """What the mechanism is built of, such as its `Tree`."""
        return self._calibration.design

    @property
    def estimate(self) -> Array:
        """The last published sum; zero before the first round."""
        return self._sum.estimate.copy()

    @property
    def guarantee(self) -> Guarantee:
        """The promise for the whole stream of sums."""
        return self._ledger.guarantee(
            unprotected=(
                *STREAM,
                STOLEN_NODES if isinstance(self._calibration.design, Tree) else STOLEN_FILTER,
            ),
            reference=self._calibration.reference,
        )

    def add(self, x: ArrayLike) -> Array:
        """Take in one round; returns the private estimate of the sum so far."""
        row = self._checked([x] if isinstance(x, (int, float)) else x)
        with self._live:
            self._room(1)
            estimate = self._sum.add(row).copy()
            observe("sum", estimate, self._calibration.release)
            return estimate

    def add_many(self, X: ArrayLike) -> Array:  # (n, dim) -> (n, dim)
        """Take in n rounds; returns the n estimates that n calls of `add` would have returned.

        A row that `add` would refuse counts as a row of zeros, alone: its round passes, nothing is
        added, and the others are as they would be without it. `accepts` tells which rows those are.
        Where bound > sensitivity a row of zeros may be farther from the others than `sensitivity`:
        there one bad row refuses them all, so check people's rows one by one before.
        """
        rows = rows_or_nan("X", X, self.dim)
        fine = self._fine(rows)
        # Zeros in place of a row x move the sum by |x| <= bound: covered if bound <= sensitivity.
        if self.bound > self.sensitivity and not fine.all():
            raise ValueError(
                f"x must have {self.norm} norm at most {self.bound:g} and no NaN; with bound > "
                "sensitivity no row can stand in for a bad one: use `accepts` first"
            )
        rows = shortened(np.where(fine[:, None], rows, 0.0), self.bound, self.norm)
        with self._live:
            self._room(len(rows))
            estimates = self._sum.add_many(to_lattice(rows, self._calibration.spacing))
            observe("sum", estimates, self._calibration.release)
            return estimates

    def accepts(self, X: ArrayLike) -> NDArray[np.bool_]:  # (n, dim) -> (n,)
        """Which rows `add` would take, and `add_many` does not count as zeros; changes nothing.

        It looks at private rows: tell each person about their own row only.
        """
        return self._fine(rows_or_nan("X", X, self.dim))

    def std(self, t: ArrayLike) -> Any:
        """The standard deviation of the noise in each coordinate of the sum of t rounds."""
        rounds = np.asarray(t)
        if rounds.size and not (rounds.min() >= 1 and rounds.max() <= self.horizon):
            raise ValueError(f"rounds must lie in 1..{self.horizon}")
        growth = self._calibration.growth(rounds)
        return (
            growth * self._calibration.unit
            if rounds.ndim
            else float(growth) * self._calibration.unit
        )

    def _config(self) -> dict[str, Any]:
        return {**super()._config(), "mechanism": encode(self._asked)}

    def _validate(self) -> None:
        if self._ledger.releases != (self._calibration.release,):
            raise damaged("the calibration")

    def _room(self, count: int) -> None:
        if self.rounds + count > self.horizon:
            raise ValueError(
                f"the horizon is {self.horizon} rounds and {self.rounds} have been added; "
                "start a new PrefixSum with a larger horizon"
            )

    def _checked(self, x: ArrayLike) -> Array:
        row = numbers("x", x)
        if row.shape != (self.dim,):
            raise ValueError(f"x must have shape {(self.dim,)}, got {row.shape}")
        row = within("x", row, self.bound, norm=self.norm, clip=self.clip)
        return to_lattice(row, self._calibration.spacing)

    def _fine(self, rows: Array) -> NDArray[np.bool_]:
        if self.clip:
            return np.asarray(np.isfinite(rows).all(axis=1))
        # Longer by rounding only: shortened in any case, as in `add`.
        return np.asarray(norms_in_bounds(rows, self.bound, self.norm) <= 1 + 1e-9)


@dataclass(frozen=True)
class Calibration:
    """A mechanism calibrated for one running sum."""

    mechanism: str  # "tree", "toeplitz", "blt" or "generalized-gaussian"
    design: Tree | SquareRoot | Buffered  # how noise is shared between the sums
    release: Release  # what all sums cost together
    accounting: str  # currency of its cost: "pure", "gaussian" or "zcdp"
    unit: float  # std of one coordinate of one draw of noise
    largest: float  # growth at the worst round
    spacing: float  # of the lattice of exact noise; 0 for float noise
    reference: str  # where the mechanism comes from

    def growth(self, t: Any) -> Array:
        """Std of the sum of t rounds, in units of one draw."""
        if not isinstance(self.design, Tree):
            return self.design.std(t)
        return np.sqrt(
            np.full(np.shape(t), self.largest**2) if self.design.padded else self.design.nodes(t)
        )


class NodeNoise(Stateful):
    """The noise of a tree's nodes: a stream for each level, and one for padding."""

    _state = ("_streams",)

    def __init__(self, calibration: Calibration, dim: int, noise: Noise) -> None:
        assert isinstance(calibration.design, Tree)
        self._calibration = calibration
        self._dim = dim
        self._streams = tuple(noise.spawn(calibration.design.depth + 1))

    def __call__(self, level: int, count: int) -> Array:  # (count, dim)
        """Noise for the next nodes of a level."""
        release = self._calibration.release
        scale = release.scale
        spacing = self._calibration.spacing
        stream = self._streams[level]
        dim = self._dim
        if scale == 0:
            return np.zeros((count, dim))
        if self._calibration.accounting == "zcdp":
            return draw_generalized(norm_order(release.norm), scale, count, dim, stream)
        if self._calibration.accounting == "pure":
            return draw_k_norm(release.norm, scale, count, dim, stream, spacing)
        return stream.gaussian(scale, (count, dim), spacing)


def best_calibration(sums: PrefixSum, mechanism: str | Tree) -> Calibration:
    """The calibration with the least maximal std among those the caller allows."""
    if isinstance(mechanism, Tree):
        family = "tree"
        tree = mechanism
    else:
        known = ("auto", "blt", "toeplitz", "tree", GENERALIZED)
        family = one_of("mechanism", mechanism, known)
        tree = Tree()
    if family == GENERALIZED:
        return _generalized(sums)
    approximate = not sums.budget.pure or sums.budget.off
    found = []
    if family in ("auto", "tree"):
        found.append(_tree(sums, tree, pure=True))
        if approximate:
            found.append(_tree(sums, tree, pure=False))
    if family == "toeplitz":
        found.append(_filter(sums, "toeplitz", SquareRoot(sums.horizon)))
    if family == "blt" or (family == "auto" and approximate):
        found.append(_filter(sums, "blt", Buffered.fitted(sums.horizon)))
    return min(found, key=lambda each: each.unit * each.largest)


def _tree(sums: PrefixSum, tree: Tree, *, pure: bool) -> Calibration:
    budget = sums.budget
    noise = sums.noise
    dim = sums.dim
    design = tree.fitted(sums.horizon, pure=pure)
    nodes = design.most_nodes(sums.horizon)
    # An exact source draws Laplace noise, for the l1 ball around the given one.
    norm = ("l1" if noise.exact else sums.norm) if pure else "l2"
    name = k_norm_name(norm) if pure else "gaussian"
    one_round = sums.sensitivity * stretch(sums.norm, norm, dim)
    of_design = design.sensitivity(budget.contributions, pure=pure)
    unit_budget = budget.epsilon if pure else budget.mu
    scale = one_round * of_design / unit_budget
    # Exact as long as no sum needs more than 53 bits: the data, the nodes of one prefix, and the
    # running totals of node noise from which `add_many` takes differences.
    noisiest = 64 * scale * (nodes + math.sqrt(sums.horizon * nodes))
    spacing = noise.spacing(name, scale, sums.horizon * sums.bound + noisiest)
    # Rounding two rows to the lattice can move each coordinate apart by one spacing more.
    one_round += spacing * (dim if norm == "l1" else math.sqrt(dim))
    shape = f"tree, branching {design.base}, {design.depth} levels"
    about: dict[str, Any] = {
        "what": f"{sums.horizon} running sums ({shape})",
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
        "pure" if pure else "gaussian",
        unit,
        math.sqrt(nodes),
        spacing,
        "Dwork et al. (2010); Andersson, Pagh and Torkamani (2024)",
    )


def _filter(sums: PrefixSum, mechanism: str, design: SquareRoot | Buffered) -> Calibration:
    budget = sums.budget
    # k rounds of one person move C x by at most the sum of k columns, each of length one_round.
    one_round = sums.sensitivity * stretch(sums.norm, "l2", sums.dim)
    of_design = design.sensitivity(budget.contributions)
    spacing = 0.0
    sampler = sums.noise.sampler("filtered gaussian")
    if isinstance(design, Buffered) and "gaussian" in sums.noise.exact and not budget.off:
        design = design.dyadic()
        of_design = design.sensitivity(budget.contributions)
        spacing = sums.noise.spacing("gaussian", one_round * of_design / budget.mu)
        sampler = sums.noise.sampler("gaussian")
    # Each row is rounded to the lattice, and so is each published number; k rounds are in at most
    # k streams, whose squares add up.
    own = (one_round + spacing * math.sqrt(sums.dim)) * of_design
    streams = math.sqrt(budget.contributions)
    sensitivity = own + spacing * rounding(sums.horizon, sums.dim) * streams
    release = Release.gaussian(
        what=f"{sums.horizon} running sums ({mechanism})",
        sensitivity=sensitivity,
        scale=sensitivity / budget.mu,
        sampler=sampler,
    )
    largest = float(design.std(np.asarray(sums.horizon)))
    reference = (
        "Fichtenberger, Henzinger and Upadhyay (2023)"
        if mechanism == "toeplitz"
        else "McMahan, Xiao, Pillutla et al. (2024)"
    )
    return Calibration(
        mechanism, design, release, "gaussian", release.scale, largest, spacing, reference
    )


def _generalized(sums: PrefixSum) -> Calibration:
    """The paper's TreeBasedAgg (Han et al. 2022, Algorithm 4), binary and without subtraction.

    A sum is published from finished nodes only, a round is in one node of each level, so all
    outputs are an adaptive composition of as many releases. Noise of density exp(-|z|_r^2/(2 s^2)),
    r = max(2, min(q, ln d)), costs rho = (r-1) D^2/(2 s^2) for a move of D in l_r; the paper's
    constants do not belong to this norm and are not used.
    """
    budget = sums.budget
    r = max(2.0, min(norm_order(sums.norm), math.log(sums.dim)))
    norm = f"l{r}".removesuffix(".0")
    design = Tree(branching=2, balanced=False).fitted(sums.horizon, pure=False)
    one_round = sums.sensitivity * stretch(sums.norm, norm, sums.dim)
    # Over the levels rho adds up: sum of squared moves = (one_round * sensitivity)^2.
    moved = one_round * design.sensitivity(budget.contributions, pure=False)
    scale = moved * math.sqrt((r - 1) / (2 * budget.rho))
    release = Release.concentrated(
        mechanism="generalized gaussian",
        norm=norm,
        rho=budget.rho,
        sensitivity=moved,
        scale=scale,
        what=f"{sums.horizon} running sums (tree, {design.depth} levels)",
        sampler=sums.noise.sampler("generalized gaussian"),
    )
    unit = scale * sums.dim ** (0.5 - 1 / r)  # about: E|z|_r^2 = d s^2
    largest = math.sqrt(design.most_nodes(sums.horizon))
    reference = "Bassily, Guzman and Nandi (2021)"
    return Calibration(GENERALIZED, design, release, "zcdp", unit, largest, 0.0, reference)


def stretch(norm: str, other: str, dim: int) -> float:
    """The largest `other` norm of a vector whose `norm` is one."""
    return math.pow(dim, max(0.0, 1 / norm_order(other) - 1 / norm_order(norm)))
