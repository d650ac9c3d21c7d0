"""Five papers: how many rows of theirs are better, equal or worse with us; docs/papers.md.

python benchmarks/five_papers.py

The pages themselves are by `make papers`, which shares the finished cells.
"""

from pathlib import Path

import kit
from kit import CONSOLE, new_table, run

from papers.exhibit import VERDICTS, WORSE
from papers.pages import counted
from papers.run import PAPERS

kit.FOLDER = Path("out/papers/cells")


def main() -> None:
    worse = []
    table = new_table("Rows of five papers, the full set", ("paper", *VERDICTS))
    for paper in PAPERS.values():
        exhibits = paper.exhibits(run(paper.cells(False)), False)
        table.add_row(paper.name, *(str(counted(exhibits, verdict)) for verdict in VERDICTS))
        worse += [(paper.name, each.title, row.what, row.theirs, row.ours)
                  for each in exhibits for row in each.rows if row.verdict == WORSE]  # fmt: skip
    CONSOLE.print(table)
    named = new_table("Rows that are worse", ("paper", "exhibit", "row", "theirs", "ours"))
    for each in worse:
        named.add_row(*each)
    CONSOLE.print(named)


if __name__ == "__main__":
    main()
