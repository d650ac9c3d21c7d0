"""Features that never occur together: what of a Gram matrix is 0 in every row."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from discreet.arrays import Array

SHARED = -1  # label of features that may occur with those of any block


class Blocks:
    """Which features may occur in one row: those of one block, beside those that belong to none.

    labels   the block of each feature; SHARED for those of none

    Products of features of two blocks are 0 in every row, so an estimate of the Gram matrix needs
    neither their value nor their noise. Labels are public and what they do is post-processing: a
    row that touches two blocks after all is as private as any, and only makes the estimate worse.

    >>> Blocks([0, 0, 1, SHARED]).together
    array([[1., 1., 0., 1.],
           [1., 1., 0., 1.],
           [0., 0., 1., 1.],
           [1., 1., 1., 1.]])
    """

    def __init__(self, labels: Sequence[int]) -> None:
        self.labels = np.array(labels)

    @cached_property
    def together(self) -> Array:  # (d, d)
        """1 where two features may occur in one row, 0 elsewhere."""
        shared = self.labels == SHARED
        return np.asarray(np.maximum(self.within, (shared | shared[:, None]) * 1.0))

    @cached_property
    def within(self) -> Array:  # (d, d)
        """1 where two features have the same label, 0 elsewhere."""
        return np.asarray((self.labels[:, None] == self.labels) * 1.0)

    @cached_property
    def width(self) -> float:
        """w, such that a matrix of noise, where `together` is 1, has operator norm s sqrt(2 w).

        w is the largest number of features beside one (Bandeira and van Handel 2016), and d / 4
        for a single feature beside all: s sqrt(d / 2) is the length of its row.
        """
        d = len(self.labels)
        beside = self.together.sum(axis=1)[self.labels != SHARED]
        return float(max(beside.max(), d / 4)) if len(beside) else float(d)
