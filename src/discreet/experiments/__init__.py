"""Experiments: runner, statistics, tables, figures, forecasts. Needs the `experiments` extra.

`expected_regret` plays one learner in one world.
"""

from discreet.experiments.regret import Regret, expected_regret

__all__ = ["Regret", "expected_regret"]
