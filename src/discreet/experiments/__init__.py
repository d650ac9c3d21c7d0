"""Experiments, their runner, statistics, tables, figures and forecasts. Needs the `experiments` extra."""
