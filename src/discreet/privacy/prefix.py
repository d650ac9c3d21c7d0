"""Private running sums: one budget for a whole stream of prefix sums, adaptive inputs included."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.arrays import (
    Array,
    integer,
    norms_in_bounds,
    numbers,
    one_of,
    positive,
    public_bound,
    rows_or_nan,
    shortened,
    within,
)
from discreet.privacy.budget import Budget
from discreet.privacy.calibration import Calibration, Task, best_calibration
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.lattice import LatticeSum
from discreet.privacy.ledger import Ledger
from discreet.privacy.mechanisms import NORMS, draw_k_norm
from discreet.privacy.noise import Noise, source, to_lattice
from discreet.privacy.observation import observe
from discreet.privacy.toeplitz import Buffered, FilteredSum
from discreet.privacy.tree import Tree, TreeSum
from discreet.state import Stateful, damaged, encode

# The nodes of a tree hold their noise; the buffers of a filter give it away.
STOLEN_NODES = "more than one stolen state, or one beside sums that are published later"
STOLEN_FILTER = "anything, against whoever sees a stolen state"


class NodeNoise(Stateful):
    """The noise of a tree's nodes: a stream for each level, and one for padding.

    calibration   of the running sum
    dim           length of a row
    noise         source of the noise
    """

    _state = ("_streams",)

    def __init__(self, calibration: Calibration, dim: int, noise: Noise) -> None:
        self._calibration = calibration
        self._dim = dim
        self._streams = tuple(noise.spawn(calibration.depth + 1))

    def __call__(self, level: int, count: int) -> Array:  # (count, dim)
        """Noise for the next nodes of a level."""
        release = self._calibration.release
        spacing = self._calibration.spacing
        stream = self._streams[level]
        dim = self._dim
        if release.scale == 0:
            return np.zeros((count, dim))
        if self._calibration.pure:
            return draw_k_norm(release.norm, release.scale, count, dim, stream, spacing)
        return stream.gaussian(release.scale, (count, dim), spacing)


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

    A stolen state reveals noisy sums for a tree and everything for "blt" and "toeplitz". Sums
    published again from an old state spend the budget twice: a state may be resumed only once. The
    generator is in the state only for SeededNoise, because it would reveal the noise to come.

    Several threads may share one object: each round is taken in whole, in some order.

    horizon       the most rounds; public
    dim           length of a row
    budget        what all sums together may cost
    sensitivity   largest distance of any two rows, in `norm`
    norm          "l1", "l2" or "linf"
    mechanism     "auto", "blt", "toeplitz", "tree" or a `Tree`
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
        self.norm = one_of("norm", norm, NORMS)
        self.bound = public_bound("bound", self.sensitivity / 2 if bound is None else bound)
        if clip and self.bound > self.sensitivity / 2:
            raise ValueError(
                "clip=True shortens rows to the bound, which keeps them within `sensitivity` of "
                "each other only if bound <= sensitivity/2; subtract a public centre first"
            )
        self.clip = bool(clip)
        self.noise = source(noise)
        self._asked = mechanism
        task = Task(horizon, dim, budget, self.sensitivity, norm, self.bound, self.noise)
        self._calibration = best_calibration(task, mechanism)
        self._ledger = Ledger(budget, "pure" if self._calibration.pure else None)
        self._ledger.spend(self._calibration.release)
        self._sum = self._begin()

    def _begin(self) -> TreeSum | FilteredSum | LatticeSum:
        plan = self._calibration
        design = self._calibration.design
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
        """The mechanism in use: "blt", "toeplitz" or "tree"."""
        return self._calibration.mechanism

    @property
    def estimate(self) -> Array:
        """The last published sum; zero before the first round."""
        return self._sum.estimate.copy()

    @property
    def guarantee(self) -> Guarantee:
        """The promise for the whole stream of sums."""
        return self._ledger.guarantee(
            unprotected=(
                "the number of rounds",
                "arrival times",
                "the public bounds",
                STOLEN_NODES if self.mechanism == "tree" else STOLEN_FILTER,
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
