"""`make figures-check`: the numbers of README and docs against the results files; runs nothing.

Every table of measured numbers names its results on a line of its own above it,

    <!-- figures: regression.json, What an intercept costs -->

the file in docs/figures that a benchmark wrote, and the beginning of the title of a table in it
(with * at the end, of all tables that begin so; several are joined by " + "). Every row must then
have its numbers, rounded as they are, in one row of the results, whatever the columns are called;
with ", turned" at the end, anywhere in them. Numbers in a paragraph are checked if they are listed
above it:

    <!-- figures: prefix.json, Gaussian noise has 28.46, 26.16 -->

Results that no benchmark has kept yet are named by "figures to come:" in the same words. They are
listed, and compared from the day on which they are kept. "no figures: why" is for a table of
numbers that no benchmark prints. A table of numbers without any of these is a mistake.

Each kept table carries digests of the modules that its script uses, room by room, with their names.
Tables whose modules have changed since are listed as stale, with the rooms: `again.py` asks their
probes whether the numbers have changed too, and measures what is left.
"""

import ast
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[1]
MARK = re.compile(
    r"<!-- figures(?P<due> to come)?: (?P<file>[\w.-]+), (?P<title>.+?)(?P<turned>, turned)?"
    r"(?: has (?P<words>[\d., ]+))? -->"
)
EXCUSED = re.compile(r"<!-- no figures: .+ -->")
RULE = re.compile(r"\|[-|: ]+\|?$")
NUMBER = re.compile(r"(?<![\w.^])[-+]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e-?\d+)?")
SILENT = {  # run and show
    *(f"benchmarks.{each}" for each in ("kit", "probes", "figures_check")),
    *(f"discreet.experiments.{each}" for each in ("measure", "figures", "pages", "report")),
    "discreet.experiments.sheet",
    "discreet.words",
}
LOOKS_MEASURED = re.compile(r"\.\d|\d%|\d,\d{3}|\d ± \d")


@dataclass(frozen=True)
class Results:
    """Which tables of which file in docs/figures a document refers to."""

    file: str
    title: str  # beginnings, joined by " + "; with * at the end, of all that begin so
    turned: bool  # rows of the document are not rows of the results
    due: bool  # nothing may be kept yet

    @classmethod
    def named(cls, mark: re.Match[str]) -> Self:
        """Read a mark."""
        turned = mark["turned"] is not None or mark["words"] is not None
        return cls(mark["file"], mark["title"], turned, mark["due"] is not None)

    def rows(self) -> list[list[str]] | str:
        """The numbers of each row, or what is wrong with the name."""
        path = ROOT / "docs" / "figures" / self.file
        if not path.exists():
            return f"there is no docs/figures/{self.file}"
        kept = json.loads(path.read_text(encoding="utf-8"))
        titles = []
        for part in self.title.split(" + "):
            found = [each for each in kept if each.startswith(part.removesuffix("*"))]
            if not found or (len(found) > 1 and not part.endswith("*")):
                return (
                    f"{len(found)} tables in docs/figures/{self.file} begin with {part!r}; name one"
                )
            titles += found
        known = [numbers(row) for title in titles for row in kept[title]["rows"]]
        return [[each for row in known for each in row]] if self.turned else known


@dataclass(frozen=True)
class Claim:
    """Numbers of a document: where they stand, the results that they name, and the rows."""

    page: str
    line: int
    results: Results | None
    rows: list[list[str]]
    excused: bool = False
    missing: tuple[str, ...] = ()  # listed, but not in the paragraph

    @property
    def measured(self) -> bool:
        """Whether half of its cells beside the first column are numbers that look measured."""
        cells = [cell for row in self.rows for cell in row[1:]]
        found = sum(bool(LOOKS_MEASURED.search(cell)) for cell in cells)
        return 2 * found > len(cells)


def claims(page: Path) -> Iterator[Claim]:
    """The tables of a page, and the paragraphs whose numbers are listed."""
    lines = page.read_text(encoding="utf-8").splitlines()
    name = str(page.relative_to(ROOT))
    results = None
    excused = False
    at = 0
    while at < len(lines):
        line = lines[at].strip()
        excused |= EXCUSED.fullmatch(line) is not None
        if (mark := MARK.fullmatch(line)) and mark["words"]:
            listed = numbers([mark["words"]])
            said = numbers(paragraph(lines, at + 1))
            missing = tuple(each for each in listed if each not in said)
            yield Claim(name, at + 1, Results.named(mark), [listed], missing=missing)
        elif mark:
            results = Results.named(mark)
        elif RULE.fullmatch(line):
            end = at + 1
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            rows = [row.strip().strip("|").split("|") for row in lines[at + 1 : end]]
            yield Claim(name, at, results, rows, excused)
            results = None
            excused = False
            at = end
            continue
        at += 1


def paragraph(lines: list[str], start: int) -> list[str]:
    """The first lines from here on that are text, up to an empty one; marks are none."""
    text: list[str] = []
    for line in lines[start:]:
        if line.strip() and not line.startswith("<!--"):
            text.append(line)
        elif text:
            break
    return text


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


def mistakes(claim: Claim) -> Iterator[str]:
    """What a document says that its results do not."""
    if claim.results is None:
        if claim.measured and not claim.excused:
            yield "a table of numbers that names no results"
        return
    yield from (f"{each} is listed and not in the paragraph" for each in claim.missing)
    known = claim.results.rows()
    if isinstance(known, str):
        if not claim.results.due:
            yield known
        return
    for row in claim.rows:
        if not any(contains(numbers(row), each) for each in known):
            yield f"the results have no row with the numbers of: {' | '.join(map(str.strip, row))}"


@dataclass(frozen=True)
class Module:
    """A module of the library, of papers or of benchmarks."""

    name: str

    @property
    def path(self) -> Path:
        """Its file; that of a package is its __init__.py."""
        home = ROOT / "src" if self.name.startswith("discreet.") else ROOT
        path = home / self.name.replace(".", "/")
        return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8") if self.path.exists() else ""

    def imports(self, loaded: Container[str]) -> Iterator["Module"]:
        """Modules of ours that it takes names from; in a function, if they have been loaded."""
        tree = _parsed(self.text)
        top = set(tree.body)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                found = [_origin(node.module or "", alias.name) for alias in node.names]
            elif isinstance(node, ast.Import):
                found = [_named(alias.name) for alias in node.names]
            else:
                continue
            yield from (each for each in found if each and (node in top or each.name in loaded))
        if self.path.name == "__init__.py":  # its own names are used: they may stand for all of it
            for path in sorted(self.path.parent.glob("*.py")):
                if path.name != "__init__.py" and f"{self.name}.{path.stem}" in loaded:
                    yield Module(f"{self.name}.{path.stem}")


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def _deciding(text: str) -> str:
    """The lines of a module without empty ones, comments and docstrings."""
    described: set[int] = set()
    for node in ast.walk(_parsed(text)):
        documented = isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        )
        if documented and ast.get_docstring(node, clean=False) is not None:
            described.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = (line.strip() for at, line in enumerate(text.splitlines(), 1) if at not in described)
    return "\n".join(line for line in lines if line and not line.startswith("#"))


@cache
def _named(name: str) -> Module | None:
    """The module of ours with this name, as scripts import it."""
    for each in (Module(name), Module(f"benchmarks.{name}")):
        if each.name.startswith(("discreet.", "papers.", "benchmarks.")) and each.path.exists():
            return None if each.name in SILENT else each
    return None


@cache
def _origin(module: str, name: str) -> Module | None:
    """Where a name comes from that is imported from a module: packages pass names on."""
    home = _named(module)
    if home and home.path.name == "__init__.py":
        if below := _named(f"{module}.{name}"):
            return below
        for node in ast.walk(_parsed(home.text)):
            if isinstance(node, ast.ImportFrom) and name in {each.name for each in node.names}:
                return _origin(node.module or "", name)
    return home


@cache
def digest(part: str, names: tuple[str, ...]) -> str:
    """Of the modules of a room, or of the one module that is the room."""
    sha = hashlib.sha256()
    for name in names or ("",):
        sha.update(f"{name}\n{_deciding(_within(part, name).text)}\n".encode())
    return sha.hexdigest()[:8]


def _within(part: str, name: str) -> Module:
    home = part if part in {"benchmarks", "papers"} else f"discreet.{part}"
    return Module(f"{home}.{name}".rstrip("."))


def code(loaded: Container[str], script: str) -> dict[str, str]:
    """What decides the numbers of a script: room -> digest and names of the modules that it uses.

    They are those that it imports, and so on; `loaded` says which imports of functions took place.
    """
    waiting = [Module(f"benchmarks.{script}")]
    used = set(waiting)
    while waiting:
        new = set(waiting.pop().imports(loaded)) - used
        used |= new
        waiting += new
    parts: dict[str, list[str]] = {}
    for each in sorted(used, key=lambda each: each.name):
        room, _, name = each.name.removeprefix("discreet.").partition(".")
        parts.setdefault(room, []).extend([name] if name else [])
    return {
        room: " ".join([digest(room, tuple(names)), *names])
        for room, names in sorted(parts.items())
    }


def is_stale(part: str, known: str) -> bool:
    """Whether modules have changed since this was kept."""
    before, *names = known.split(" ")
    return digest(part, tuple(names)) != before


def changed(table: Mapping[str, Any]) -> list[str]:
    """The rooms with modules that have changed since this table was kept."""
    if "code" not in table:
        return ["no code is named"]
    return [part for part, known in table["code"].items() if is_stale(part, known)]


def stale() -> Iterator[tuple[str, str]]:
    """(results file, why) of kept tables that other code made."""
    for path in sorted((ROOT / "docs" / "figures").glob("*.json")):
        kept = json.loads(path.read_text(encoding="utf-8"))
        counts = Counter(part for table in kept.values() for part in changed(table))
        if counts:
            yield path.name, ", ".join(f"{part} ({n})" for part, n in sorted(counts.items()))


def is_due(claim: Claim) -> bool:
    """Whether its results are still to come."""
    return claim.results is not None and claim.results.due and isinstance(claim.results.rows(), str)


def main() -> int:
    """Print what differs, what is still to come and what is stale; 1 if anything differs."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
    found = [claim for page in pages for claim in claims(page)]
    wrong = 0
    for claim in found:
        for mistake in mistakes(claim):
            print(f"{claim.page}:{claim.line}: {mistake}")
            wrong += 1
    due = [claim for claim in found if is_due(claim)]
    checked = sum(claim.results is not None for claim in found) - len(due)
    print(
        f"{wrong} mistakes"
        if wrong
        else f"{checked} tables and paragraphs agree with their results"
    )
    if due:
        print(f"{len(due)} wait for a benchmark to keep its results:")
        print("\n".join(f"  {each.page}:{each.line}  {each.results.file}" for each in due))
    if older := list(stale()):
        print(f"{len(older)} results files are older than the code (rooms; tables that they made):")
        print("\n".join(f"  {name}: {why}" for name, why in older))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
