"""What is promised and how the noise is made; one-shot releases are in `mechanisms`."""

from discreet.privacy.channels import IntervalChannel
from discreet.privacy.gaussian import gaussian_mu, gaussian_std
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.ledger import BudgetSpent, Ledger
from discreet.privacy.noise import SecureNoise, SeededNoise
from discreet.privacy.people import ContributionLimiter
from discreet.privacy.prefix import PrefixSum
from discreet.privacy.release import Budget
from discreet.privacy.shuffle import Shuffled
from discreet.privacy.sphere import BallChannel
from discreet.privacy.tree import Tree

__all__ = [
    "BallChannel",
    "Budget",
    "BudgetSpent",
    "ContributionLimiter",
    "Guarantee",
    "IntervalChannel",
    "Ledger",
    "PrefixSum",
    "SecureNoise",
    "SeededNoise",
    "Shuffled",
    "Tree",
    "gaussian_mu",
    "gaussian_std",
]
