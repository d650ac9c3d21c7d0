"""discreet: differentially private online learning, regression and bandits.

Learns from people's feedback and decides for them, such that nobody can tell from its
decisions what any one person did.
"""

__version__ = "0.2.0.dev0"
