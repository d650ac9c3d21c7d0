"""`make figures-check`: the numbers of tables in README and docs against the results files.

A table of the documents names its results above it,

    <!-- figures: regression.json, What an intercept costs -->

the file in docs/figures that a benchmark wrote, and the beginning of the title of a table in it.
Every row must then have its numbers, rounded as they are, in one row of the results, whatever the
columns are called; with ", turned" at the end of the mark, anywhere in the table.
Tables of numbers that name no results are listed: a benchmark that runs again keeps them, and then
they can be marked. Nothing is run; it takes no time.
"""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
MARK = re.compile(r"<!-- figures: (?P<file>[\w.-]+), (?P<title>.+?)(?P<turned>, turned)? -->")
RULE = re.compile(r"\|[-|: ]+\|?$")
NUMBER = re.compile(r"(?<![\w.^])[-+]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")


@dataclass(frozen=True)
class Table:
    """A table of a document: where it stands, the results that it names, and its rows."""

    page: str
    line: int
    results: tuple[str, str] | None
    turned: bool  # rows of the document are not rows of the results
    rows: list[list[str]]

    @property
    def measured(self) -> bool:
        """Whether half of its cells beside the first column are numbers with a decimal point."""
        cells = [cell for row in self.rows for cell in row[1:]]
        found = sum(bool(re.search(r"\d\.\d|\d%|\d,\d{3}", cell)) for cell in cells)
        return 2 * found > len(cells)


def tables(page: Path) -> Iterator[Table]:
    """The tables of a page."""
    lines = page.read_text(encoding="utf-8").splitlines()
    results = None
    turned = False
    at = 0
    while at < len(lines):
        if mark := MARK.fullmatch(lines[at].strip()):
            results = mark["file"], mark["title"]
            turned = mark["turned"] is not None
        elif RULE.fullmatch(lines[at].strip()):
            end = at + 1
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            rows = [line.strip().strip("|").split("|") for line in lines[at + 1 : end]]
            yield Table(str(page.relative_to(ROOT)), at, results, turned, rows)
            results = None
            at = end
            continue
        at += 1


def numbers(cells: list[str]) -> list[str]:
    """The numbers in a row, without signs and thousands separators."""
    text = " ".join(cells).replace("\\", "")
    return [found.lstrip("+-").replace(",", "") for found in NUMBER.findall(text)]


def contains(row: list[str], known: list[str]) -> bool:
    """Whether all numbers of a row are among known ones, up to the digits that they show."""
    left = [float(each) for each in known]
    for each in row:
        mantissa, _, exponent = each.partition("e")
        digits = len(mantissa.partition(".")[2]) - int(exponent or 0)
        unit = 10.0**-digits
        near = [value for value in left if abs(value - float(each)) <= 0.5001 * unit]
        if not near:
            return False
        left.remove(min(near, key=lambda value: abs(value - float(each))))
    return True


def mistakes(table: Table) -> Iterator[str]:
    """What a table says that its results do not."""
    if table.results is None:
        return
    name, title = table.results
    path = ROOT / "docs" / "figures" / name
    if not path.exists():
        yield f"there is no docs/figures/{name}"
        return
    kept = json.loads(path.read_text(encoding="utf-8"))
    titles = [each for each in kept if each.startswith(title)]
    if len(titles) != 1:
        yield f"{len(titles)} tables in docs/figures/{name} begin with {title!r}; name one"
        return
    known = [numbers(row) for row in kept[titles[0]]["rows"]]
    if table.turned:
        known = [[number for row in known for number in row]]
    for row in table.rows:
        if not any(contains(numbers(row), each) for each in known):
            yield f"the results have no row with the numbers of: {' | '.join(map(str.strip, row))}"


def main() -> int:
    """Print what differs; 1 if anything does."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    found = [table for page in pages for table in tables(page)]
    wrong = 0
    for table in found:
        for mistake in mistakes(table):
            print(f"{table.page}:{table.line}: {mistake}")
            wrong += 1
    checked = sum(table.results is not None for table in found)
    bare = [table for table in found if table.results is None and table.measured]
    print(f"{checked} tables agree with docs/figures" if not wrong else f"{wrong} rows differ")
    if bare:
        print(f"{len(bare)} tables of numbers name no results yet:")
        print("\n".join(f"  {table.page}:{table.line}" for table in bare))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
