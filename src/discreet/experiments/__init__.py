"""Plans, runs, tables and figures. Needs the `experiments` extra."""
