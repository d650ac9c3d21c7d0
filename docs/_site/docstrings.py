"""Docstrings of the house in reStructuredText, which is what autodoc reads.

The house writes plain text: names in single backticks, and tables of two columns,

    horizon   the most rounds; public
    noise     source of the noise; None draws floats from
              the operating system's entropy

Such tables become definitions, deeper text stays as it is drawn, and nothing else is markup: a
`coef_`, an |x| or a 2 * x is just text.
"""

import re
from collections.abc import Iterator, Sequence

ROW = re.compile(r"(?P<term>\S+(?: \S+)*?) {2,}(?P<text>\S.*)")
BULLET = re.compile(r"(- |\d+\. )")
COLUMNS = re.compile(r"\S {3,}\S")


def inline(text: str) -> str:
    """Text in which only backticks mean something.

    >>> inline("`coef_` is a |x|, of X_ * y")
    '``coef_`` is a \\\\|x\\\\|, of X\\\\_ \\\\* y'
    """
    parts = re.split(r"`+([^`]+)`+", text)
    return "".join(
        f"``{part}``" if place % 2 else re.sub(r"([\\*|_`])", r"\\\1", part)
        for place, part in enumerate(parts)
    )


def blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """The parts between empty lines."""
    part: list[str] = []
    for line in (*lines, ""):
        if line.strip():
            part.append(line.rstrip())
        elif part:
            yield part
            part = []


def indent(line: str) -> int:
    """How far a line is set in."""
    return len(line) - len(line.lstrip())


def dedent(part: Sequence[str]) -> list[str]:
    """A part at the left margin."""
    least = min(indent(line) for line in part)
    return [line[least:] for line in part]


def rows(part: Sequence[str]) -> list[tuple[str, str]] | None:
    """Terms and what they mean, if a part is a table of two columns."""
    found: list[tuple[str, str]] = []
    start = 0
    for line in dedent(part):
        match = ROW.fullmatch(line)
        if match and not COLUMNS.search(match["text"]):
            found.append((match["term"], match["text"]))
            start = match.start("text")
        elif found and indent(line) > 0 and abs(indent(line) - start) <= 3:
            term, text = found[-1]
            found[-1] = term, f"{text} {line.strip()}"
        else:
            return None
    return found


def definitions(table: Sequence[tuple[str, str]]) -> Iterator[str]:
    """A definition list; terms that are names are code."""
    for term, text in table:
        named = re.fullmatch(r"[a-z_*]\w*(, [a-z_*]\w*)*", term)
        yield ", ".join(f"``{each}``" for each in term.split(", ")) if named else inline(term)
        yield f"    {inline(text)}"
    yield ""


def items(part: Sequence[str]) -> Iterator[str]:
    """A list; lines that go on are set in below their bullet."""
    for line in part:
        match = BULLET.match(line.lstrip())
        yield f"- {inline(line.lstrip()[match.end() :])}" if match else f"  {inline(line.strip())}"
    yield ""


def rewritten(lines: Sequence[str]) -> list[str]:
    """A docstring, dedented as autodoc hands it over, in reStructuredText."""
    out: list[str] = []
    for part in blocks(lines):
        head = part[0].strip()
        if head.startswith(">>>"):
            out += [*dedent(part), ""]
        elif head in ("Parameters", "Attributes") and len(part) > 1:
            out += [f".. rubric:: {head}", ""]
            out += definitions(rows(part[1:]) or [(head, " ".join(part[1:]))])
        elif (table := rows(part)) is not None:
            out += definitions(table)
        elif BULLET.match(head):
            out += items(part)
        elif indent(part[0]) >= 4 or any(COLUMNS.search(line) for line in part):
            out += ["::", "", *("    " + line for line in dedent(part)), ""]
        else:
            out += [*(inline(line.strip()) for line in part), ""]
    return out
