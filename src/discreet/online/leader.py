"""What `FTRL` and `FTPL` share: private running sums of losses, and a decision read from them.

paper   L~_t                          Y              TreeBasedAgg (Algorithm 2)
here    self._sums (less b t/2 on     `loss_bound`   PrefixSum (the paper's own shape:
        the simplex)                                 mechanism=Tree(branching=2, padded=True))
"""

import dataclasses
import hmac
import secrets
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import (
    Array,
    integer,
    numbers,
    public_bound,
    rows_or_nan,
    within,
)
from discreet.domains import Domain
from discreet.domains.base import as_domain
from discreet.privacy import Budget, Guarantee, PrefixSum, Tree
from discreet.privacy.noise import Noise, source
from discreet.state import Stateful, damaged

_BLOCK = 1 << 14  # rounds per block in `run`: all its arrays stay in the cache


@dataclass
class Run:
    """A call of `run` that may fail in the domain: what was released in it. Never in a state."""

    key: bytes  # of the digest
    digest: bytes  # of its losses, under the key
    first: int  # rounds before it
    totals: list[Array]  # released sums before each round, a block at a time

    @classmethod
    def begin(cls, rows: Array, first: int) -> "Run":
        key = secrets.token_bytes(32)
        return cls(key, hmac.digest(key, rows.tobytes(), "sha256"), first, [])

    def resumes(self, rows: Array, rounds: int) -> bool:
        """Whether these are the losses of this run, and nothing has come since."""
        counted = min(len(rows), len(self.totals) * _BLOCK)
        same = hmac.digest(self.key, rows.tobytes(), "sha256") == self.digest
        return same and rounds == self.first + counted


class PrivateLeader(Stateful, ABC):
    """decide, learn, run; a subclass says which point the sum of losses leads to."""

    _state: ClassVar[tuple[str, ...]] = ("_sums",)
    _reference: str

    def __init__(
        self,
        domain: Domain,
        horizon: int,
        epsilon: float,
        delta: float = 0.0,
        *,
        loss_bound: float = 1.0,
        mechanism: str | Tree = "auto",
        contributions: int = 1,
        noise: Noise | None = None,
    ) -> None:
        self.domain = as_domain(domain)
        self.horizon = integer("horizon", horizon)
        self.budget = Budget(epsilon, delta, contributions)
        self.epsilon = self.budget.epsilon
        self.delta = self.budget.delta
        self.contributions = self.budget.contributions
        self.loss_bound = public_bound("loss_bound", loss_bound)
        self.mechanism = mechanism
        self.noise = source(noise)
        b = self.loss_bound
        box = domain.loss_set == "box"
        # Two losses in [0, b]^n differ by at most b in linf (so by b sqrt(n) in l2); two in a
        # ball of radius b by at most 2 b in its norm (l1 or l2, and |.|_2 <= |.|_1). Replace-one.
        self._sums = PrefixSum(
            self.horizon,
            domain.dim,
            self.budget,
            sensitivity=b if box else 2 * b,
            norm="linf" if box else domain.loss_set,
            mechanism=mechanism,
            noise=self.noise,
        )
        # A loss in [0, b]^n enters less b/2, in [-b/2, b/2]^n: to the simplex it is the same.
        self._centre = b / 2 if box else 0.0
        self._unfinished: Run | None = None
        self._prepare()

    @abstractmethod
    def _prepare(self) -> None:
        """What the subclass computes once."""

    @abstractmethod
    def _leader(self, total: Array, t: Any) -> Array:  # (n,), int or (m, n), (m, 1)
        """The decision of round t = 1, 2, ... from the private sum of the rounds before it."""

    @property
    def rounds(self) -> int:
        """Losses learned so far."""
        return self._sums.rounds

    @property
    def learning(self) -> bool:
        """Whether a loss still counts; past the horizon the last decision stays."""
        return self._sums.rounds < self.horizon

    @property
    def guarantee(self) -> Guarantee:
        """The promise for the whole sequence of decisions: post-processing of private sums."""
        promise = self._sums.guarantee
        return dataclasses.replace(promise, reference=f"{self._reference}; {promise.reference}")

    def std(self, t: ArrayLike) -> Any:
        """The standard deviation of the privacy noise in each coordinate of the sum of t losses."""
        return self._sums.std(t)

    def decide(self) -> Array:  # (n,)
        """The decision of the coming round; reads nothing but the private sum."""
        with self._live:
            return self._decide()

    def _decide(self) -> Array:
        return self._leader(self._sums.estimate, self._sums.rounds + 1)

    def learn(self, loss: ArrayLike) -> bool:  # (n,)
        """Take the loss vector of one round; whether it counted, that is within the horizon.

        A bad one raises ValueError and changes nothing. A loss has counted if and only if `rounds`
        has grown, also if a call was interrupted.
        """
        with self._live:
            if not self.learning:
                self._checked(loss, 1)
                return False
            try:
                self._sums.add(numbers("losses", loss) - self._centre)
            except ValueError:
                self._checked(loss, 1)  # says what is wrong, in the words of this class
                raise
            return True

    def run(self, losses: ArrayLike) -> Array:  # (m, n) -> (m, n)
        """The decisions of m rounds whose losses are known: the same as m times decide, learn.

        A loss that `learn` would refuse counts as a loss that says nothing, alone: its round
        passes, and the others are as they would be without it. If the domain fails, run the same
        losses again: those that have counted are not counted, and nothing is drawn, again.
        """
        # The sums count what is out of bounds as zeros, alone; so they do NaN.
        rows = rows_or_nan("losses", losses, self.domain.dim) - self._centre
        decisions = np.empty_like(rows)
        with self._live:
            run = self._unfinished
            if run is None or not run.resumes(rows, self._sums.rounds):
                run = Run.begin(rows, self._sums.rounds)
            self._unfinished = run
            end = min(len(rows), self.horizon - run.first)
            for start in range(0, end, _BLOCK):
                block = rows[start : min(start + _BLOCK, end)]
                if start == len(run.totals) * _BLOCK:
                    before = self._sums.estimate
                    sums = self._sums.add_many(block)
                    run.totals.append(np.concatenate([before[None], sums[:-1]]))
                t = run.first + start + 1 + np.arange(len(block))[:, None]
                decisions[start : start + len(block)] = self._leader(run.totals[start // _BLOCK], t)
            if end < len(rows):  # past the horizon
                decisions[end:] = self._decide()
            self._unfinished = None
        return decisions

    def _validate(self) -> None:
        if not isinstance(self._sums, PrefixSum):
            raise damaged("sums")

    def _checked(self, losses: ArrayLike, ndim: int) -> Array:
        rows = numbers("losses", losses)
        n = self.domain.dim
        if rows.ndim != ndim or rows.shape[-1] != n:
            shape = f"({n},)" if ndim == 1 else f"(rounds, {n})"
            raise ValueError(f"expected losses of shape {shape}, got {rows.shape}")
        if self._centre:
            try:
                return within("losses", rows - self._centre, self._centre, norm="linf", clip=False)
            except ValueError:
                raise ValueError(
                    f"losses must lie in [0, {self.loss_bound:g}] on the simplex, and not be NaN; "
                    "shift and rescale them, or raise loss_bound"
                ) from None
        return within("losses", rows, self.loss_bound, norm=self.domain.loss_set, clip=False)
