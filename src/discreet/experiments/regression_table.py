"""A table of yours as regression rows, inside public bounds that you state."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from discreet.arrays import Array, finite_range
from discreet.environments.tables import read_table
from discreet.experiments.experiment import suggestion


def regression_table(
    path: str, label: str, label_range: Any, features: Any, clip: bool = False
) -> tuple[Array, Array]:  # (n, d) in the unit ball, (n,) in [-1, 1]
    """Columns of a .csv or .parquet file, scaled by their public bounds to [-1, 1].

    `features` maps a column to its bounds [low, high]. Values outside the bounds are refused, or
    with `clip` moved to them. Messages name columns, never what is in them.
    """
    if not os.path.isfile(path):
        raise ValueError(f"path: no file {path!r}; paths are relative to where you are")
    frame = read_table(path)
    if not isinstance(features, Mapping) or not features:
        raise ValueError("features: give each column its public bounds: { age = [0, 100] }")
    columns = []
    for column, bounds in {**features, label: label_range}.items():
        key = "label" if column == label else f"features.{column}"
        if column not in frame.columns:
            known = tuple(str(each) for each in frame.columns)
            raise ValueError(f"{key}: {path} has no column {column!r}{suggestion(column, known)}")
        columns.append(_scaled(key, column, frame[column], bounds, clip))
    *inside, y = columns
    return np.column_stack(inside) / np.sqrt(len(inside)), y


def _scaled(key: str, column: str, series: Any, bounds: Any, clip: bool) -> Array:
    key = "label_range" if key == "label" else key
    low, high = finite_range(f"{key}: the public range of {column!r}", bounds)
    try:
        values = series.to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{key}: {column!r} is not a column of numbers; encode it first") from None
    if np.isnan(values).any():
        raise ValueError(f"{key}: {column!r} has missing values; drop or fill them first")
    if not clip and ((values < low) | (values > high)).any():
        raise ValueError(
            f"{key}: {column!r} has values outside its public bounds [{low:g}, {high:g}]; widen "
            "them by what is publicly known, or set clip = true"
        )
    return np.asarray(np.clip((2 * values - low - high) / (high - low), -1.0, 1.0))
