"""Private least squares: what regression stages, GLM steps, bandit windows and servers share.

    whitening.py   x = M phi: coordinates in which rows are isotropic; powers of matrices
    clipping.py    weights of long rows, residuals clipped with the least expected error
    shrinkage.py   a noisy Gram matrix, drawn to a target by its known noise
    posterior.py   theta ~ N(mean, covariance) from noisy linear observations

Everything here is a public map of rows or post-processing of what was released; nothing here draws
noise or spends a budget.
"""

from discreet.least_squares.clipping import clipped_normal, least_error_clip
from discreet.least_squares.posterior import Posterior
from discreet.least_squares.shrinkage import (
    clean,
    discounted_eigenvalues,
    gram_error_covariance,
    kept,
    shrink,
)
from discreet.least_squares.whitening import Whitening, power, symmetrised

__all__ = [
    "Posterior",
    "Whitening",
    "clean",
    "clipped_normal",
    "discounted_eigenvalues",
    "gram_error_covariance",
    "kept",
    "least_error_clip",
    "power",
    "shrink",
    "symmetrised",
]
