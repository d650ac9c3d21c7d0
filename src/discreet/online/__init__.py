"""Online learning: full information, adversarial and convex bandits, streaming optimisation.

Losses, less is better.
"""

from discreet.online.adversarial import AdversarialBandit
from discreet.online.barrier import BarrierBandit
from discreet.online.doubling import Doubling
from discreet.online.ftpl import FTPL
from discreet.online.ftrl import FTRL
from discreet.online.projection_free import ProjectionFreeBandit
from discreet.online.reduction import PrivateReduction
from discreet.online.sparse import SparseBandit
from discreet.online.streaming import StreamingFrankWolfe

__all__ = [
    "FTPL",
    "FTRL",
    "AdversarialBandit",
    "BarrierBandit",
    "Doubling",
    "PrivateReduction",
    "ProjectionFreeBandit",
    "SparseBandit",
    "StreamingFrankWolfe",
]
