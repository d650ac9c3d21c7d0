"""One page for each paper, and one that says where we are better, equal or worse.

Each needs nothing from outside: style and pictures are inside.
"""

from collections.abc import Mapping, Sequence
from html import escape

from discreet.experiments.markup import figure, page, paragraph, table, versions
from papers.exhibit import (
    BETTER,
    EQUAL,
    VERDICTS,
    WRONG,
    Exhibit,
    Paper,
    Row,
    draw,
)

_COLOURS = {"better": "#009e73", "equal": "#8a8a8a", "worse": "#d55e00", WRONG: "#cc79a7"}
_RULE = (
    "Verdicts are computed from the numbers of this run. Less is better everywhere. Equal: means "
    "within 10%, or closer than two standard errors of the difference; exponents within 0.1. "
    "Paper wrong: a constant or a proof that does not give what it claims, with the "
    "counterexample beside it. ± is a 95% interval of the mean over seeds."
)


def paper_page(paper: Paper, exhibits: Sequence[Exhibit], made: str) -> str:
    """The page of one paper."""
    parts = [
        _STYLE,
        f"<h1>{escape(paper.title)}</h1>",
        f'<p class="soft">{escape(paper.reference)}. {escape(made)}</p>',
        f'<div class="answer">{paragraph(paper.about)}{_tally(exhibits)}</div>',
        f'<p class="note">{escape(_RULE)}</p>',
        *(_exhibit(exhibit) for exhibit in exhibits),
        "<h2>Made with</h2>" + table(("", ""), versions(), right=()),
    ]
    return page(paper.title, parts)


def summary_page(found: Mapping[Paper, Sequence[Exhibit]], made: str) -> str:
    """All papers on one page, with links to theirs."""
    rows = []
    for paper, exhibits in found.items():
        counts = (str(sum(each.count(verdict) for each in exhibits)) for verdict in VERDICTS)
        link = f'<a href="{escape(paper.name)}.html">{escape(paper.reference)}</a>'
        rows.append((True, _wrapped(paper.title) + f"<br>{link}", *counts))
    parts = [
        _STYLE,
        "<h1>Five papers, measured</h1>",
        f'<p class="soft">{escape(made)}</p>',
        f'<p class="note">{escape(_RULE)}</p>',
        table(("rows of all tables that are", *VERDICTS), rows, right=(1, 2, 3, 4)),
        *(_in_words(paper, exhibits) for paper, exhibits in found.items()),
        "<h2>Made with</h2>" + table(("", ""), versions(), right=()),
    ]
    return page("Five papers, measured", parts)


def _in_words(paper: Paper, exhibits: Sequence[Exhibit]) -> str:
    """Where we are better, equal and worse, and where the paper is wrong."""
    parts = [f"<h2>{escape(paper.title)}</h2>{paragraph(paper.about)}"]
    for verdict in VERDICTS:
        lines = []
        for exhibit in exhibits:
            rows = [row for row in exhibit.rows if row.verdict == verdict]
            if not rows:
                continue
            words = f"<b>{escape(exhibit.title)}</b>"
            if verdict in (BETTER, EQUAL):
                words += f": {len(rows)} of {sum(bool(row.verdict) for row in exhibit.rows)} rows"
            else:
                heads = exhibit.theirs, exhibit.ours
                words += "".join(f"<br>{_in_line(row, *heads)}" for row in rows)
            lines.append(f"<li>{words}</li>")
        if lines:
            parts.append(f"<h3>{_badge(verdict)}</h3><ul>{''.join(lines)}</ul>")
    return "\n".join(parts)


def _in_line(row: Row, theirs: str, ours: str) -> str:
    note = f" ({row.note})" if row.note else ""
    return escape(f"{row.what}: {theirs} {row.theirs}, {ours} {row.ours}{note}")


def _exhibit(exhibit: Exhibit) -> str:
    rows = [
        (False, _wrapped(row.what), escape(row.theirs), escape(row.ours), _badge(row.verdict),
         _wrapped(row.note))
        for row in exhibit.rows
    ]  # fmt: skip
    columns = ("", exhibit.theirs, exhibit.ours, "verdict", "")
    parts = [
        f"<h2>{escape(exhibit.title)}</h2>",
        f'<p class="soft">The paper: {escape(exhibit.claim)}</p>',
        paragraph(exhibit.words),
        table(columns, rows, right=(1, 2)),
    ]
    if exhibit.panels:
        parts.append(figure(draw(exhibit.panels), exhibit.caption))
    return "\n".join(parts)


_STYLE = (
    "<style>.badge{border-radius:4px;padding:.05em .5em;color:#fff;font-size:.85rem}"
    ".long{white-space:normal;display:inline-block;min-width:12rem}"
    "td{vertical-align:top}h3 .badge{font-weight:600}</style>"
)


def _wrapped(text: str) -> str:
    return f'<span class="long">{escape(text)}</span>' if text else ""


def _badge(verdict: str) -> str:
    if not verdict:
        return ""
    return f'<span class="badge" style="background:{_COLOURS[verdict]}">{verdict}</span>'


def _tally(exhibits: Sequence[Exhibit]) -> str:
    counts = {v: sum(each.count(v) for each in exhibits) for v in VERDICTS}
    words = ", ".join(f"{v}: {n}" for v, n in counts.items() if n)
    return paragraph(f"Rows of the tables below: {words}.")
