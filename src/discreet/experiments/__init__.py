"""Experiments: runner, statistics, tables, figures, forecasts. Needs the `experiments` extra."""
