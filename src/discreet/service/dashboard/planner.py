"""The library's forecast in a process of its own: JSON on standard input, JSON on standard output.

Simulating takes seconds of a processor; in the server it would hold up decisions.
"""

import json
import math
import os
import sys
from typing import Any

import numpy as np

from discreet.experiments.bandit_forecast import Forecast, Stream, forecast

RUNS = 5
SOON = 50  # people before the first mark
LOWER = 10  # niceness: decisions come first


def planned(question: dict[str, Any]) -> dict[str, Any]:
    """The learning curve to expect, with this epsilon and without privacy."""
    stream = Stream(
        features=question["features"],
        rounds=question["rounds"],
        actions=question["actions"],
        delta=question["delta"],
        clicks=question["clicks"],
    )
    private = forecast(stream, question["epsilon"], runs=RUNS)
    plain = forecast(stream, math.inf, runs=RUNS)
    after = private.better_after
    return {
        "people": private.rounds[_marks(private)][1:].tolist(),
        "private": _gained(private),
        "plain": _gained(plain),
        "fraction": 1 - private.fraction,
        "plain_fraction": 1 - plain.fraction,
        "better_after": after if math.isfinite(after) else None,
    }


def _marks(made: Forecast) -> list[int]:
    """Every third mark from the last, and the start: the first few rounds are all luck."""
    late = [i for i in range(len(made.rounds) - 1, 0, -3) if made.rounds[i] >= SOON]
    return [0, *reversed(late)]


def _gained(made: Forecast) -> list[float]:
    """Between two marks: the part of the best possible gain over a blind choice that is reached."""
    marks = _marks(made)
    per_round = np.diff(made.regret.mean(axis=0)[marks]) / np.diff(made.rounds[marks])
    return [float(each) for each in 1 - per_round / made.uniform]


if __name__ == "__main__":
    os.nice(LOWER)
    try:
        print(json.dumps(planned(json.load(sys.stdin))))
    except ValueError as error:
        print(json.dumps({"error": str(error)}))
