"""What `FTRL` and `FTPL` share: private running sums of losses, and a decision read from them.

paper   L~_t                          Y              TreeBasedAgg (Algorithm 2)
here    self._total (less b t/2 on    `loss_bound`   PrefixSum (the paper's own shape:
        the simplex)                                 mechanism=Tree(branching=2, padded=True))
"""

import dataclasses
import json
import os
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from discreet.domains import Domain, from_spec
from discreet.privacy import Budget, Guarantee, PrefixSum, Tree
from discreet.privacy.checks import Array, numbers, public_bound, whole, within
from discreet.privacy.noise import Noise, source, source_named
from discreet.privacy.state import expect, load_state, save_state

_BLOCK = 1 << 14  # rounds per block in `run`: all its arrays stay in the cache


class PrivateLeader(ABC):
    """decide, learn, run, save; a subclass says which point the sum of losses leads to."""

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
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        if not isinstance(domain, Domain):
            raise ValueError(f"domain must be a discreet.domains.Domain, got {domain!r}")
        self.domain, self.horizon = domain, whole("horizon", horizon)
        self.budget = Budget(epsilon, delta, contributions)
        self.loss_bound = public_bound("loss_bound", loss_bound)
        self.seed = None if seed is None else whole("seed", seed, least=0)
        self._mechanism, self._noise = mechanism, source(noise)
        b, box = self.loss_bound, domain.loss_set == "box"
        # Two losses in [0, b]^n differ by at most b in linf (so by b sqrt(n) in l2); two in a
        # ball of radius b by at most 2 b in its norm (l1 or l2, and |.|_2 <= |.|_1). Replace-one.
        self._sums = PrefixSum(
            self.horizon,
            domain.dim,
            self.budget,
            sensitivity=b if box else 2 * b,
            norm="linf" if box else domain.loss_set,
            mechanism=mechanism,
            noise=self._noise,
        )
        # A loss in [0, b]^n enters less b/2, in [-b/2, b/2]^n: to the simplex it is the same.
        self._centre = b / 2 if box else 0.0
        self._total = np.zeros(domain.dim)
        self._prepare()

    @abstractmethod
    def _prepare(self) -> None:
        """What the subclass computes once."""

    @abstractmethod
    def _leader(self, total: Array, t: Any) -> Array:  # (n,), int or (m, n), (m, 1)
        """The decision of round t = 1, 2, ... from the private sum of the rounds before it."""

    def _options(self) -> dict[str, Any]:
        """The subclass's own arguments, as plain values."""
        return {}

    @property
    def rounds(self) -> int:
        """Losses learned so far."""
        return self._sums.rounds

    @property
    def guarantee(self) -> Guarantee:
        """The promise for the whole sequence of decisions: post-processing of private sums."""
        promise = self._sums.guarantee
        return dataclasses.replace(promise, reference=f"{self._reference}; {promise.reference}")

    def deviation(self, t: ArrayLike) -> Any:
        """The deviation of the privacy noise in each coordinate of the sum of t losses."""
        return self._sums.deviation(t)

    def decide(self) -> Array:  # (n,)
        """The decision of the coming round; reads nothing but the private sum."""
        return self._leader(self._total, self._sums.rounds + 1)

    def learn(self, loss: ArrayLike) -> None:  # (n,)
        """Take the loss vector of one round. A bad one raises ValueError and changes nothing."""
        try:
            self._total = self._sums.add(np.asarray(loss, dtype=np.float64) - self._centre)
        except (TypeError, ValueError):
            self._room(1)
            self._checked(loss, 1)  # says what is wrong, in the words of this class
            raise

    def run(self, losses: ArrayLike) -> Array:  # (m, n) -> (m, n)
        """The decisions of m rounds whose losses are known: the same as m times decide, learn.

        One bad loss refuses them all, and nothing is learned: check people's rows one by one with
        `check` before, if a refusal must not touch others.
        """
        rows = self._checked(losses, 2)
        self._room(len(rows))
        decisions = np.empty_like(rows)
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            t = self._sums.rounds + 1 + np.arange(len(block))[:, None]
            sums = self._sums.add_many(block)
            before = np.concatenate([self._total[None], sums[:-1]])
            decisions[start : start + len(block)] = self._leader(before, t)
            self._total = sums[-1].copy()
        return decisions

    def check(self, losses: ArrayLike) -> None:  # (m, n)
        """Raise ValueError where `run` would refuse a loss."""
        self._checked(losses, 2)

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` goes on from: as secret as the state of `PrefixSum`."""
        sums = {f"sums.{name}": value for name, value in self._sums.state_dict().items()}
        return {"format": 1, "kind": type(self).__name__, "config": self._config(), **sums}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state; one that is older than this learner is refused."""
        expect(state, format=1, kind=type(self).__name__, config=self._config())
        self._sums.load_state_dict(
            {name[5:]: value for name, value in state.items() if name.startswith("sums.")}
        )
        self._total = self._sums.estimate

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file, for the owner's eyes only. A state may go on once."""
        save_state(path, self.state_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Go on from a file, with the same kind of noise."""
        state = load_state(path)
        expect(state, format=1, kind=cls.__name__)
        config = json.loads(state["config"])
        shape = config["mechanism"]
        arguments = {
            **config,
            "domain": from_spec(config["domain"]),
            "mechanism": Tree(**shape) if isinstance(shape, dict) else shape,
            "noise": source_named(config["noise"]),
        }
        learner = cls(**arguments)
        learner.load_state_dict(state)
        return learner

    def _config(self) -> str:
        shape = self._mechanism
        config = {
            "domain": self.domain.spec(),
            "horizon": self.horizon,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "contributions": self.budget.contributions,
            "loss_bound": self.loss_bound,
            "mechanism": dataclasses.asdict(shape) if isinstance(shape, Tree) else shape,
            "seed": self.seed,
            "noise": type(self._noise).__name__,
            **self._options(),
        }
        return json.dumps(config)

    def _checked(self, losses: ArrayLike, ndim: int) -> Array:
        rows, n = numbers("losses", losses), self.domain.dim
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

    def _room(self, count: int) -> None:
        if self._sums.rounds + count > self.horizon:
            raise ValueError(
                f"the horizon is {self.horizon} rounds and {self._sums.rounds} have been learned; "
                "make a learner with a larger horizon, or use Doubling"
            )
