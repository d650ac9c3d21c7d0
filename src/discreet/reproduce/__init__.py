"""The headline tables and figures of five papers, ours beside theirs.

Needs the `experiments` extra. `discreet reproduce all --quick` is the way in; docs/reproduce.md
says how to read what it writes, docs/errata.md where a paper's constant is not enough.
"""

NAMES = (
    "online-2017",
    "projection-free-2021",
    "streaming-2022",
    "reweighted-2025",
    "information-weighted-2025",
)
