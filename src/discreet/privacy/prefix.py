"""Private running sums: one budget for a whole stream of prefix sums, adaptive inputs included."""

import os
import secrets
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreet.privacy.budget import Budget
from discreet.privacy.checks import Array, numbers, one_of, positive, public_bound, whole, within
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.ledger import Ledger
from discreet.privacy.mechanisms import NORMS, draw_k_norm
from discreet.privacy.noise import Noise, SeededNoise, Size, source, source_named, to_lattice
from discreet.privacy.plan import Task, best_plan
from discreet.privacy.state import expect, load_state, save_state
from discreet.privacy.toeplitz import FilteredSum
from discreet.privacy.tree import Tree, TreeSum


class PrefixSum:
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
    "auto" means a tree, whose Gaussian or Laplace noise is exact; filtered noise is float.

    A stolen state reveals noisy sums for a tree and everything for "blt" and "toeplitz". Sums
    published again from an old state spend the budget twice: never roll back.

    >>> from discreet.privacy import Budget, SeededNoise
    >>> sums = PrefixSum(1000, 2, Budget(1.0, 1e-6), sensitivity=2.0, noise=SeededNoise(0))
    >>> for _ in range(1000):
    ...     estimate = sums.add([0.6, -0.8])
    >>> bool(np.abs(estimate - [600, -800]).max() < 4 * sums.deviation(1000))
    True
    """

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
        self.horizon, self.dim, self.budget = whole("horizon", horizon), whole("dim", dim), budget
        self.sensitivity = positive("sensitivity", sensitivity)
        self.norm = one_of("norm", norm, NORMS)
        self.bound = public_bound("bound", self.sensitivity / 2 if bound is None else bound)
        if clip and self.bound > self.sensitivity / 2:
            raise ValueError(
                "clip=True shortens rows to the bound, which keeps them within `sensitivity` of "
                "each other only if bound <= sensitivity/2; subtract a public centre first"
            )
        self.clip = clip
        self.rounds = 0
        self._run = secrets.token_hex(8)
        self._asked, self._source = mechanism, source(noise)
        task = Task(horizon, dim, budget, self.sensitivity, norm, self.bound, self._source)
        self._plan = best_plan(task, mechanism)
        self._ledger = Ledger(budget, "pure" if self._plan.pure else None)
        self._ledger.spend(self._plan.release)
        self._estimate = np.zeros(self.dim)
        design = self._plan.design
        if isinstance(design, Tree):
            self._streams = self._source.spawn(design.depth + 1)
            self._sum: TreeSum | FilteredSum = TreeSum(design, self.horizon, dim, self._node_noise)
        else:
            self._streams = self._source.spawn(1)
            self._sum = FilteredSum(design, dim, self._plan.release.scale, self._white_noise)

    @property
    def mechanism(self) -> str:
        """The mechanism in use: "blt", "toeplitz" or "tree"."""
        return self._plan.mechanism

    @property
    def estimate(self) -> Array:
        """The last published sum; zero before the first round."""
        return self._estimate.copy()

    @property
    def guarantee(self) -> Guarantee:
        """The promise for the whole stream of sums."""
        return self._ledger.guarantee(
            unprotected=("the number of rounds", "arrival times", "the public bounds"),
            reference=self._plan.reference,
        )

    def add(self, x: ArrayLike) -> Array:
        """Take in one round; returns the private estimate of the sum so far."""
        self._room(1)
        row = self._checked([x] if isinstance(x, (int, float)) else x, (self.dim,))
        self._estimate = self._sum.add(row)
        self.rounds += 1
        return self._estimate.copy()

    def add_many(self, X: ArrayLike) -> Array:  # (n, dim) -> (n, dim)
        """Take in n rounds; returns the n estimates that n calls of `add` would have returned."""
        array = numbers("X", X)
        rows = self._checked(array, (*array.shape[:1], self.dim))
        self._room(len(rows))
        sums = self._sum.add_many(rows)
        self.rounds += len(rows)
        if len(rows):
            self._estimate = sums[-1].copy()
        return sums

    def deviation(self, t: ArrayLike) -> Any:
        """The standard deviation of the noise in each coordinate of the sum of t rounds."""
        rounds = np.asarray(t)
        if rounds.size and not (rounds.min() >= 1 and rounds.max() <= self.horizon):
            raise ValueError(f"rounds must lie in 1..{self.horizon}")
        growth = self._plan.growth(rounds)
        return growth * self._plan.unit if rounds.ndim else float(growth) * self._plan.unit

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on: private data for "blt" and "toeplitz", noisy sums for a tree.

        `rounds` never decreases. Noise already drawn is kept; the generator itself is saved only
        for SeededNoise, because it would reveal the noise to come.
        """
        streams = {f"stream{i}": stream.state() for i, stream in enumerate(self._streams)}
        sums = {f"sum.{name}": value for name, value in self._sum.state().items()}
        return {
            **self._config(),
            "run": self._run,
            "rounds": self.rounds,
            "estimate": self.estimate,
            **streams,
            **sums,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state; one that is older than this object is refused."""
        expect(state, **self._config())
        run, rounds = state.get("run"), state.get("rounds")
        if not isinstance(run, str) or not isinstance(rounds, int) or rounds > self.horizon:
            raise ValueError("this state is damaged: run or rounds are missing or do not fit")
        if self.rounds and run != self._run:
            raise ValueError("the state is of another stream; load it into a new PrefixSum")
        if rounds < self.rounds:
            raise ValueError(
                f"the state is at round {rounds}, this object at {self.rounds}: "
                "publishing those rounds again would spend the budget twice"
            )
        sums = {name[4:]: value for name, value in state.items() if name.startswith("sum.")}
        self._check(sums, state)
        streams = self._streams
        if isinstance(self._source, SeededNoise):
            streams = [SeededNoise.restored(state[f"stream{i}"]) for i in range(len(streams))]
        estimate = state["estimate"].copy()
        self._sum.restore(sums, rounds)  # the last step that can fail
        self._run, self.rounds = run, rounds
        self._estimate, self._streams = estimate, streams

    def _check(self, sums: dict[str, Any], state: dict[str, Any]) -> None:
        """Refuse a damaged state whole, before anything is changed."""
        expected = {"estimate": self._estimate, **self._sum.state()}
        for name, like in expected.items():
            found = np.asarray(state.get(name) if name == "estimate" else sums.get(name))
            grows = name.startswith(("ahead", "past"))  # noise drawn so far
            fits = found.shape[grows:] == like.shape[grows:] and found.ndim == like.ndim
            if found.dtype.kind != "f" or not fits or not np.isfinite(found).all():
                raise ValueError(f"this state is damaged: {name} is missing or does not fit")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file."""
        save_state(path, self.state_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "PrefixSum":
        """Go on from a file, with the same kind of noise."""
        state = load_state(path)
        expect(state, format=1, kind="PrefixSum")
        asked: str | Tree = state["mechanism"]
        if asked == "Tree":
            branching, levels = state["tree.branching"], state["tree.levels"]
            asked = Tree(
                branching or None, state["tree.balanced"], state["tree.padded"], levels or None
            )
        loaded = cls(
            state["horizon"],
            state["dim"],
            Budget(state["epsilon"], state["delta"], state["contributions"]),
            sensitivity=state["sensitivity"],
            norm=state["norm"],
            mechanism=asked,
            noise=source_named(state["source"]),
            bound=state["bound"],
            clip=state["clip"],
        )
        loaded.load_state_dict(state)
        return loaded

    def _config(self) -> dict[str, Any]:
        tree = self._asked if isinstance(self._asked, Tree) else None
        return {
            "format": 1,
            "kind": "PrefixSum",
            "horizon": self.horizon,
            "dim": self.dim,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "contributions": self.budget.contributions,
            "sensitivity": self.sensitivity,
            "norm": self.norm,
            "bound": self.bound,
            "clip": self.clip,
            "source": type(self._source).__name__,
            "mechanism": "Tree" if tree else self._asked,
            "tree.branching": (tree and tree.branching) or 0,
            "tree.levels": (tree and tree.levels) or 0,
            "tree.balanced": bool(tree and tree.balanced),
            "tree.padded": bool(tree and tree.padded),
            "scale": self._plan.release.scale,
        }

    def _room(self, count: int) -> None:
        if self.rounds + count > self.horizon:
            raise ValueError(
                f"the horizon is {self.horizon} rounds and {self.rounds} have been added; "
                "start a new PrefixSum with a larger horizon"
            )

    def _checked(self, x: ArrayLike, shape: tuple[int, ...]) -> Array:
        rows = numbers("x", x)
        if rows.shape != shape:
            raise ValueError(f"x must have shape {shape}, got {rows.shape}")
        rows = within("x", rows, self.bound, norm=self.norm, clip=self.clip)
        return to_lattice(rows, self._plan.spacing) if self._plan.spacing else rows

    def _node_noise(self, level: int, count: int) -> Array:
        plan, stream = self._plan, self._streams[level]
        if self.budget.off:
            return np.zeros((count, self.dim))
        scale = plan.release.scale
        if plan.pure:
            return draw_k_norm(plan.release.norm, scale, count, self.dim, stream, plan.spacing)
        return stream.gaussian(scale, (count, self.dim), plan.spacing)

    def _white_noise(self, size: Size) -> Array:
        return self._streams[0].normal(size)
