"""A Gram matrix whose noise is known: symmetric, std s on the diagonal and s / sqrt(2) beside it.

That is the noise of a release of `symmetric_to_vector`, which is isotropic in the Frobenius norm.
"""

import numpy as np

from discreet.privacy.checks import Array


def shrink(
    noisy: Array, noise_std: float, *, target: Array | None = None, floor: float = 0.0
) -> Array:
    """T + k (G - T) with k = 1 - E|noise|_F^2 / |G - T|_F^2, eigenvalues of at least `floor`.

    Ledoit and Wolf (2004) where the noise is known: E|noise|_F^2 = s^2 d (d + 1) / 2. The target T
    is the mean eigenvalue times the identity if none is given.

    >>> shrink(np.diag([3.0, 1.0]), noise_std=0.5).round(2)  # k = 1 - 0.75 / 2
    array([[2.62, 0.  ],
           [0.  , 1.38]])
    """
    d = len(noisy)
    if target is None:
        target = max(float(np.trace(noisy)) / d, 0.0) * np.eye(d)
    apart = noisy - target
    values, vectors = np.linalg.eigh(target + kept(apart, noise_std) * apart)
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)


def kept(apart: Array, noise_std: float) -> float:
    """1 - E|noise|_F^2 / |apart|_F^2, at least 0: the part that is not noise."""
    d = len(apart)
    noise = noise_std**2 * d * (d + 1) / 2
    return 1 - min(1.0, noise / max(float(np.sum(apart**2)), 1e-300))


def discounted_eigenvalues(values: Array, variances: Array | float, times: float) -> Array:
    """max(h - times var / h, 0): what noise alone could have made counts as nothing."""
    values = np.maximum(values, 1e-300)
    return np.asarray(np.maximum(values - times * variances / values, 0.0))


def gram_error_covariance(second_moment: Array, noise_std: float) -> Array:
    """Cov(Z w) = s^2 (E|w|^2 I + E[w w']) / 2, for w of this second moment and Z the noise."""
    d = len(second_moment)
    spread = float(np.trace(second_moment)) * np.eye(d) + second_moment
    return np.asarray(noise_std**2 / 2 * spread)
