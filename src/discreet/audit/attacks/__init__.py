"""All attacks by name, one module for each room or part of one. Importing it imports every learner.

mechanisms   sums   local (channels, devices), shuffled   regression, regression_local
bandits, bandits_context, bandits_people, bandits_sparse
online, online_projection_free   optimization
snapshot     one stolen state
"""

from discreet.audit.attack import ATTACKS
from discreet.audit.attacks import (
    bandits,
    bandits_context,
    bandits_people,
    bandits_sparse,
    local,
    mechanisms,
    online,
    online_projection_free,
    optimization,
    regression,
    regression_local,
    shuffled,
    snapshot,
    sums,
)

MODULES = (
    bandits,
    bandits_context,
    bandits_people,
    bandits_sparse,
    local,
    mechanisms,
    online,
    online_projection_free,
    optimization,
    regression,
    regression_local,
    shuffled,
    snapshot,
    sums,
)  # each has put its attacks into ATTACKS

__all__ = ["ATTACKS", "MODULES"]
