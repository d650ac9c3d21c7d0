"""Private optimisers to compare `StreamingFrankWolfe` with, calibrated from first principles.

    NoisySFW   variance-reduced Frank-Wolfe, one pass in batches (Bassily, Guzman, Nandi 2021,
               Algorithm 3): half the rows start the gradient, the others refine it
    NoisySGD   noisy projected gradient descent, several passes (Bassily et al. 2020, Algorithm 2)
    LocalMD    mirror descent under local privacy: every row is reported through `BallChannel`

The first two (batch.py) see the whole data set and release one theta; the third (local.py) learns
row by row.
"""

from discreet.optimization.baselines.batch import NoisySFW, NoisySGD
from discreet.optimization.baselines.local import LocalMD

__all__ = ["LocalMD", "NoisySFW", "NoisySGD"]
