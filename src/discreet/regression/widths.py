"""What is not known of theta beside the noise of releases."""

import numpy as np

from discreet.arrays import Array
from discreet.least_squares import Whitening, power


def unseen(gram: Array, noise: float, whitening: Whitening) -> Array:
    """The prior's variance for directions whose rows do not stand out of the Gram matrix's noise.

    Shrinking lends them information that they do not have: the estimate may use it, the width not.
    """
    values, vectors = np.linalg.eigh(gram)
    hidden = whitening.transform(vectors[:, values < 2 * noise].T)
    hidden = hidden / np.maximum(np.linalg.norm(hidden, axis=1, keepdims=True), 1e-300)
    return np.asarray(hidden.T @ hidden / len(gram))


def inverse(information: Array) -> Array:
    """The covariance, no variance above 1: directions without information are the prior's."""
    return power(information, -1.0, floor=1.0)
