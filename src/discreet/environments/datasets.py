"""Real data from packages as worlds. Bounds are public: stated here, never read off the data.

digits    1,797 images of hand-written digits: name the digit
flights   327,346 flights from New York: say nothing, warn, or rebook, when the doors close

Both know the right answer, so regret is exact. `randhie.py` has a real experiment.
"""

from functools import cache

import numpy as np

from discreet.environments.packages import flights_frame, package
from discreet.environments.tables import FeatureTable, TableWorld
from discreet.features import Category, FeatureMap, Number

FLIGHT_ACTIONS = ("nothing", "warn", "rebook")
# What an action is worth when the flight arrives less than 15 minutes late, less than an hour
# late, later: a needless warning is a nuisance, a needless rebooking costs a seat, and a missed
# connection without either is the worst.
FLIGHT_REWARDS = np.array([[1.0, 0.6, 0.2], [0.4, 1.0, 0.5], [0.0, 0.5, 1.0]])
_DELAYS = (15.0, 60.0)


@cache
def digits_world() -> TableWorld:
    """Name a hand-written digit: ten actions, reward 1 for the right one, 0 otherwise.

    Features are the means of the sixteen 2 x 2 squares of the 8 x 8 image (grey levels 0 to 16).

    >>> digits = digits_world()
    >>> digits.n_actions, digits.dim
    (10, 170)
    """
    data = package("sklearn.datasets").load_digits()
    squares = data.images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
    columns = {f"square {i}": squares[:, i] for i in range(16)}
    phi = FeatureMap({name: Number(0, 16) for name in columns}, [str(i) for i in range(10)])
    return TableWorld("digits", FeatureTable(phi, columns), np.eye(10)[data.target])


@cache
def flights_world() -> TableWorld:
    """When the doors close: say nothing to passengers with a connection, warn, or rebook them.

    The departure delay is known, the arrival delay is not. The table of rewards is
    `FLIGHT_REWARDS`; flights that were cancelled or diverted are left out. Features: how late
    the departure is (as three classes), hour, distance, airport.
    """
    frame = flights_frame().dropna(subset=["arr_delay", "dep_delay"])
    late = np.digitize(frame["dep_delay"].to_numpy(dtype=float), _DELAYS)
    columns = {
        "departure": late,
        "hour": frame["hour"].to_numpy(dtype=float),
        "distance": frame["distance"].to_numpy(dtype=float),
        "origin": frame["origin"].to_numpy(dtype=object),
    }
    context: dict[str, Number | Category] = {
        "departure": Category(0, 1, 2),
        "hour": Number(0, 24),
        "distance": Number(0, 5000),
        "origin": Category("EWR", "JFK", "LGA"),
    }
    phi = FeatureMap(context, FLIGHT_ACTIONS, intercept=False)
    outcome = np.digitize(frame["arr_delay"].to_numpy(dtype=float), _DELAYS)
    return TableWorld("flights", FeatureTable(phi, columns), FLIGHT_REWARDS[outcome])
