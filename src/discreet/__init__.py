"""discreet: differentially private online learning, regression and bandits.

Learns from people's feedback and decides for them, such that nobody can tell from its
decisions what any one person did.
"""

import sys

__version__ = "0.2.0.dev0"

if sys.version_info < (3, 11):  # noqa: UP036 - from a clone, nobody else checks
    raise ImportError(
        f"discreet needs Python 3.11 or newer, and this is {sys.version.split()[0]}; "
        "make an environment with a newer one: python3.12 -m venv .venv"
    )
