"""What is promised and how the noise is made; one-shot releases are in `mechanisms`."""

from discreet.privacy.budget import Budget, ContributionLimiter
from discreet.privacy.crowd import Crowd
from discreet.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu, gaussian_std
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.ledger import BudgetSpent, Ledger
from discreet.privacy.local import BallChannel, BinaryChannel, IntervalChannel, SymmetricChannel
from discreet.privacy.noise import Noise, SecureNoise, SeededNoise, SystemNoise
from discreet.privacy.prefix import PrefixSum
from discreet.privacy.release import Release
from discreet.privacy.tree import Tree

__all__ = [
    "BallChannel",
    "BinaryChannel",
    "Budget",
    "BudgetSpent",
    "ContributionLimiter",
    "Crowd",
    "Guarantee",
    "IntervalChannel",
    "Ledger",
    "Noise",
    "PrefixSum",
    "Release",
    "SecureNoise",
    "SeededNoise",
    "SymmetricChannel",
    "SystemNoise",
    "Tree",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "gaussian_std",
]
