"""Private convex optimisation in one pass: Frank-Wolfe on running sums.

frank_wolfe.py   StreamingFrankWolfe (Han et al. 2022, Algorithms 1 and 2)
problem.py       domain, losses and public bounds
windows.py       Newton steps at the ends of windows;  sparse_windows.py  a few entries at a time
directions.py    private directions
"""

from discreet.optimization.frank_wolfe import StreamingFrankWolfe
from discreet.optimization.problem import Loss

__all__ = ["Loss", "StreamingFrankWolfe"]
