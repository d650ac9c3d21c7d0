"""The noisy totals of an experiment: released batch by batch, or as running sums.

    batches    each batch is a sum of its own, which holds its noise from the start. People are in
               one batch each, so every batch has the whole budget
    running    all batches so far, after each batch: noise that hangs together, and that grows with
               the logarithm of the number of looks where that of batches grows with their root

A person's term has length 1 at most, and any two terms of one person (in the same batch and arm)
are at most 1 apart: `abtest.py` has the proof.

A look closes a batch and opens the next: `closed` has what the look shows and the totals that go
on; asked again, it is the same value. `is_out`: the batch was released, in a look that was
interrupted, so nothing may enter. `std` is that of the noise in each number of the next look.
"""

import numpy as np

from discreet.arrays import Array
from discreet.privacy import Budget, Ledger, PrefixSum
from discreet.privacy.accumulator import NoisySum
from discreet.privacy.noise import Noise
from discreet.state import Stateful

SENSITIVITY = 1.0  # l2, of the sum of a batch; by the two terms above
MOST = 2**26  # people, so that exact noise stays exact


class BatchTotals(Stateful):
    """Independent batches.

    dim      of a term
    budget   of one person
    noise    source of the noise
    """

    _state = ("_batch", "_ledger", "_open")

    def __init__(self, dim: int, budget: Budget, noise: Noise) -> None:
        self.dim = dim
        self.budget = budget
        self.noise = noise
        self._begin(1, Ledger(budget, "gaussian"))

    def _begin(self, batch: int, ledger: Ledger) -> None:
        self._batch = batch
        self._open = NoisySum(
            self.dim,
            sensitivity=SENSITIVITY,
            mu=self.budget.mu,
            noise=self.noise,
            what="sums of metrics and of their spreads, by arm",
            scope=f"batch {batch}",
        )
        self._ledger = ledger._including(self._open.release)

    @property
    def ledger(self) -> Ledger:
        """With a release for each batch, the open one too."""
        return self._ledger

    @property
    def is_out(self) -> bool:
        return self._open._published

    @property
    def std(self) -> float:
        return self._open.release.scale

    def add(self, term: Array) -> None:
        """Into the open batch, beside its noise."""
        self._open.add(term)

    def closed(self) -> tuple[Array, "BatchTotals"]:
        following = BatchTotals.__new__(BatchTotals)
        following.dim, following.budget, following.noise = self.dim, self.budget, self.noise
        following._begin(self._batch + 1, self._ledger)  # draws first: the batch is out last
        return self._open.publish(), following


class RunningTotals(Stateful):
    """Running sums.

    dim      of a term
    budget   of one person
    looks    at most
    noise    source of the noise
    """

    _state = ("_sums", "_batch", "_looks")

    def __init__(self, dim: int, budget: Budget, looks: int, noise: Noise) -> None:
        # One replaced person moves one batch, one round of the running sum, by SENSITIVITY. Rows
        # are sums over people, as long as there are people.
        # Gaussian in any case: the intervals count on it.
        self._sums = PrefixSum(
            looks, dim, budget, sensitivity=SENSITIVITY, bound=float(MOST), mechanism="blt",
            noise=noise,
        )  # fmt: skip
        self._batch = np.zeros(dim)
        self._looks = 0

    @property
    def ledger(self) -> Ledger:
        """With one release, which covers all looks."""
        return self._sums._ledger

    @property
    def is_out(self) -> bool:
        return self._sums.rounds > self._looks

    @property
    def std(self) -> float:
        return float(self._sums.std(min(self._looks + 1, self._sums.horizon)))

    def add(self, term: Array) -> None:
        """Into the open batch, in the clear until the next look."""
        with self._live:
            self._commit(_batch=self._batch + term)

    def closed(self) -> tuple[Array, "RunningTotals"]:
        if not self.is_out:
            self._sums.add(self._batch)
        following = RunningTotals.__new__(RunningTotals)
        following._sums = self._sums
        following._batch = np.zeros_like(self._batch)
        following._looks = self._looks + 1
        return self._sums.estimate, following


ExperimentTotals = BatchTotals | RunningTotals
