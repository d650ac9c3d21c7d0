"""Run what is not yet done for some papers, and write their pages."""

from collections.abc import Sequence
from pathlib import Path

from discreet.experiments.experiment import suggestion
from discreet.experiments.measure import Found, Watch, records
from discreet.experiments.writing import write_atomically
from papers import (
    information_weighted,
    online_learning,
    projection_free,
    reweighted,
    streaming,
)
from papers.exhibit import Exhibit, Paper
from papers.pages import paper_page, summary_page

PAPERS = {
    each.PAPER.name: each.PAPER
    for each in (online_learning, projection_free, streaming, reweighted, information_weighted)
}


def chosen(names: Sequence[str]) -> list[Paper]:
    """The papers by these names; all of them if there are none."""
    for name in names:
        if name not in PAPERS:
            raise ValueError(f"no paper {name!r}{suggestion(name, tuple(PAPERS))}")
    return [PAPERS[name] for name in names or PAPERS]


def reproduce(
    papers: Sequence[Paper],
    out: Path,
    *,
    quick: bool = False,
    workers: int | None = None,
    cluster: str | None = None,
    watch: Watch | None = None,
) -> dict[Paper, list[Exhibit]]:
    """Exhibits of every paper; pages are in `out`, or in `out`/quick.

    Finished cells are in `out`/cells and are not run again: neither by the same command, nor by
    the full set after the quick one where they are alike. `cluster` is the address of a Dask
    scheduler, whose workers take the place of processes here.
    """
    wanted = {paper: paper.cells(quick) for paper in papers}
    cells = [cell for some in wanted.values() for cell in some]
    done = records(cells, out / "cells", workers=workers, cluster=cluster, watch=watch)
    pages = out / "quick" if quick else out
    pages.mkdir(exist_ok=True)
    shown = {}
    for paper, some in wanted.items():
        found = Found((cell, done[cell.key]) for cell in some)
        shown[paper] = paper.exhibits(found, quick)
        write_atomically(
            pages / f"{paper.name}.html", paper_page(paper, shown[paper], _made(found, quick))
        )
    everything = Found((cell, done[cell.key]) for cell in cells)
    if len(shown) == len(PAPERS):
        write_atomically(pages / "index.html", summary_page(shown, _made(everything, quick)))
    return shown


def _made(found: Found, quick: bool) -> str:
    kind = "Quick set: short runs, few seeds" if quick else "Full set"
    return f"{kind}; {found.cells:,} runs, {found.seconds:,.0f} s of processor time"
