"""Sums of reports: all that a server keeps of them."""

from typing import Self

import numpy as np

from discreet.privacy.checks import Array


class Tally:
    """The number of reports, their sum and the sum of their squares: O(d^2) numbers."""

    def __init__(self) -> None:
        self.count, self.total, self.squares = 0, np.zeros(()), np.zeros(())

    def add(self, values: Array) -> None:
        """Add reports, one in each row."""
        self.count += len(values)
        self.total = self.total + values.sum(axis=0)
        products = values.T @ values if values.ndim == 2 else np.sum(values * values)
        self.squares = self.squares + products

    def merge(self, other: Self) -> None:
        """Add the reports that another tally has added up."""
        self.count += other.count
        self.total = self.total + other.total
        self.squares = self.squares + other.squares

    @property
    def mean(self) -> Array:
        """The mean report."""
        return np.asarray(self.total / self.count)

    @property
    def variance(self) -> Array:
        """Of the mean: a matrix for vectors, the sum over all entries otherwise."""
        mean = self.mean
        square = np.outer(mean, mean) if mean.ndim == 1 else np.sum(mean * mean)
        return np.asarray((self.squares / self.count - square) / max(self.count - 1, 1))
