"""The headline tables and figures of five papers, ours beside theirs; not part of the wheel.

`make papers` runs them (`make papers QUICK=1` in two minutes). docs/papers.md says how to read what
they write, docs/errata.md where a paper's constant is not enough.
"""

NAMES = (
    "online-2017",
    "projection-free-2021",
    "streaming-2022",
    "reweighted-2025",
    "information-weighted-2025",
)
