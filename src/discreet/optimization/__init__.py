"""Private convex optimisation in one pass: Frank-Wolfe on running sums, and its baselines.

frank_wolfe.py   StreamingFrankWolfe (Han et al. 2022, Algorithms 1 and 2)
problem.py       domain, loss and public bounds;  losses.py  the losses
windows.py       Newton steps at the ends of windows;  sparse_windows.py  a few entries at a time
directions.py    private directions;  generalized.py  the paper's own noise
baselines.py     NoisySFW, NoisySGD, LocalMD
"""

from discreet.optimization import baselines
from discreet.optimization.frank_wolfe import StreamingFrankWolfe
from discreet.optimization.losses import Loss

__all__ = ["Loss", "StreamingFrankWolfe", "baselines"]
