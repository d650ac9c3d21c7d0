"""All attacks by name, one module for each room or part of one. Importing it imports every learner.

mechanisms   sums   local (channels, devices), shuffled   regression, regression_local
bandits, bandits_context, bandits_people, bandits_sparse
online, online_projection_free   optimization
snapshot     one stolen state
"""

import importlib
import pkgutil

from discreet.audit.attack import ATTACKS

__all__ = ["ATTACKS"]

for _module in pkgutil.iter_modules(__path__):  # each puts its attacks into ATTACKS
    importlib.import_module(f"{__name__}.{_module.name}")
