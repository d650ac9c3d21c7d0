"""All attacks by name. Importing it imports every learner."""

from discreet.audit import (
    attacks_bandits,
    attacks_context,
    attacks_convex,
    attacks_hostile,
    attacks_local,
    attacks_mechanisms,
    attacks_online,
    attacks_regression,
    attacks_regression_local,
    attacks_snapshot,
    attacks_sparse,
    attacks_streaming,
    attacks_sums,
)
from discreet.audit.attack import ATTACKS

ROOMS = (
    attacks_bandits,
    attacks_context,
    attacks_convex,
    attacks_hostile,
    attacks_local,
    attacks_mechanisms,
    attacks_online,
    attacks_regression,
    attacks_regression_local,
    attacks_snapshot,
    attacks_sparse,
    attacks_streaming,
    attacks_sums,
)  # each has put its attacks into ATTACKS

__all__ = ["ATTACKS", "ROOMS"]
