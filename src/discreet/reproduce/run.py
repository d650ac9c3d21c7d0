"""Run what is not yet done for some papers, and write their pages."""

from collections.abc import Callable, Sequence
from pathlib import Path

from discreet.experiments.cells import write_whole
from discreet.experiments.plan import suggestion
from discreet.experiments.runner import finished
from discreet.reproduce import (
    information_weighted,
    online_learning,
    projection_free,
    reweighted,
    streaming,
)
from discreet.reproduce.cell import Cell, Found, run_cell
from discreet.reproduce.exhibit import Exhibit, Paper
from discreet.reproduce.pages import paper_page, summary_page

PAPERS = {
    each.PAPER.name: each.PAPER
    for each in (online_learning, projection_free, streaming, reweighted, information_weighted)
}
Watch = Callable[[int, int], object]  # cells done, cells in all


def chosen(name: str) -> list[Paper]:
    """The papers that a name stands for."""
    if name == "all":
        return list(PAPERS.values())
    if name not in PAPERS:
        raise ValueError(f"no paper {name!r}{suggestion(name, ('all', *PAPERS))}")
    return [PAPERS[name]]


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
    folder = out / "cells"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {paper: paper.cells(quick) for paper in papers}
    cells: dict[str, Cell] = {each.key: each for some in wanted.values() for each in some}
    records = {}
    waiting = finished(list(cells.values()), folder, run_cell, workers=workers, cluster=cluster)
    for cell, record in waiting:
        records[cell.key] = record
        if watch:
            watch(len(records), len(cells))
    pages = out / "quick" if quick else out
    pages.mkdir(exist_ok=True)
    shown = {}
    for paper, some in wanted.items():
        found = Found((cell, records[cell.key]) for cell in some)
        shown[paper] = paper.exhibits(found, quick)
        write_whole(
            pages / f"{paper.name}.html", paper_page(paper, shown[paper], _made(found, quick))
        )
    everything = Found((cell, records[key]) for key, cell in cells.items())
    if len(shown) == len(PAPERS):
        write_whole(pages / "index.html", summary_page(shown, _made(everything, quick)))
    return shown


def _made(found: Found, quick: bool) -> str:
    kind = "Quick set: short runs, few seeds" if quick else "Full set"
    return f"{kind}; {found.cells:,} runs, {found.seconds:,.0f} s of processor time"
