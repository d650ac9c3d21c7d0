"""Online learning with losses, less is better: full information, adversarial and convex bandits."""

from discreet.online.adversarial import AdversarialBandit
from discreet.online.barrier import BarrierBandit
from discreet.online.doubling import Doubling
from discreet.online.ftpl import FTPL
from discreet.online.ftrl import FTRL
from discreet.online.projection_free import ProjectionFreeBandit
from discreet.online.reduction import PrivateReduction

__all__ = [
    "FTPL",
    "FTRL",
    "AdversarialBandit",
    "BarrierBandit",
    "Doubling",
    "PrivateReduction",
    "ProjectionFreeBandit",
]
