"""Real data for regression, X in [-1, 1]^d and y in [-1, 1], by public bounds stated here."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from discreet.arrays import Array, one_of
from discreet.environments.packages import flights_frame, package, randhie_columns

Rows = tuple[Array, Array]  # (n, d), (n,)


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


def regression_data(name: str) -> Rows:
    """X and y by name: diabetes, fair, randhie, flights, diamonds.

    >>> X, y = regression_data("diabetes")
    >>> X.shape, bool(abs(X).max() <= 1), bool(abs(y).max() <= 1)
    ((442, 10), True, True)
    """
    return DATA[one_of("name", name, tuple(DATA))]()


def _scaled(columns: Any, bounds: Mapping[str, tuple[float, float]]) -> Array:
    """Columns scaled to [-1, 1] by their public bounds."""
    low, high = np.array(list(bounds.values())).T
    raw = np.column_stack([np.asarray(columns[name], dtype=float) for name in bounds])
    return np.asarray(np.clip((2 * raw - low - high) / (high - low), -1, 1))
