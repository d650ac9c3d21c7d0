"""One page for each paper, and one that says where we are better, equal or worse.

Each needs nothing from outside: style and pictures are inside.
"""

from collections.abc import Mapping, Sequence

from discreet.experiments.pages import render
from papers.exhibit import VERDICTS, Exhibit, Paper, draw


def paper_page(paper: Paper, exhibits: Sequence[Exhibit], made: str) -> str:
    """The page of one paper."""
    counts = {verdict: counted(exhibits, verdict) for verdict in VERDICTS}
    return render(
        "paper.html",
        package="papers",
        title=paper.title,
        paper=paper,
        exhibits=exhibits,
        made=made,
        tally=", ".join(f"{verdict}: {n}" for verdict, n in counts.items() if n),
        draw=draw,
    )


def summary_page(found: Mapping[Paper, Sequence[Exhibit]], made: str) -> str:
    """All papers on one page, with links to theirs."""
    return render(
        "summary.html",
        package="papers",
        title="Five papers, measured",
        found=found,
        made=made,
        verdicts=VERDICTS,
        counted=counted,
    )


def counted(exhibits: Sequence[Exhibit], verdict: str) -> int:
    """Rows of all exhibits with this verdict."""
    return sum(each.count(verdict) for each in exhibits)
