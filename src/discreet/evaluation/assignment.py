"""Who gets which arm: a public function of a person's id, the same everywhere.

    u = first 4 bytes of SHA-256("<salt>:<id>"), as an unsigned number, / 2^32
    arm = the first one whose cumulative fraction is larger than u

In PostgreSQL and in a browser: docs/evaluation.md.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy

from discreet.arrays import Array
from discreet.privacy.people import person_text


def position(salt: str, person: Any) -> float:
    """Where a person stands in [0, 1).

    >>> position("colours", "ada") == position("colours", b"ada")
    True
    """
    hashed = hashlib.sha256(f"{salt}:{person_text(person)}".encode()).digest()
    return int.from_bytes(hashed[:4], "big") / 2**32


def arm_number(salt: str, person: Any, cumulative: Array) -> int:
    """Of a person; `cumulative` are the ends of the arms in [0, 1].

    >>> arms = [arm_number("colours", i, np.array([0.5, 1.0])) for i in range(1000)]
    >>> arms.count(0), arm_number("colours", 7, np.array([0.5, 1.0])) == arms[7]
    (471, True)
    """
    place = int(np.searchsorted(cumulative, position(salt, person), side="right"))
    return min(place, len(cumulative) - 1)


def sample_ratio_evidence(counts: Sequence[int], fractions: Array) -> float:
    """log of an e-process against the declared split, valid at every look: Dirichlet mixture.

    Multinomial counts under the split, against probabilities that are uniform on the simplex
    (Lindon and Malek 2022). Counts are public, so this costs nothing.

    >>> fair = np.array([0.5, 0.5])
    >>> sample_ratio_evidence([500, 500], fair) < 0 < sample_ratio_evidence([600, 400], fair)
    True
    """
    n = np.asarray(counts, dtype=float)
    arms = len(n)
    gammaln = scipy.special.gammaln
    mixture = gammaln(arms) - gammaln(n.sum() + arms) + gammaln(n + 1).sum()
    return float(mixture - n @ np.log(fractions))
