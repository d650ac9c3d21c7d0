"""A gallery: all of examples/, run when the site is built, with what it prints and a picture.

A program prints its figures as lines of words and a number,

    private, sees every link          0.290

and its picture is made of these: a bar for each line, so that picture and program agree. That of an
experiment is the report's, regret or error against the budget. Pages are written into docs/gallery;
what has not changed, on a library that has not, is not run again.
"""

import hashlib
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache, cached_property
from html import escape
from pathlib import Path
from typing import Any

from .docstrings import inline, rewritten

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "gallery"
LINE = re.compile(r"^(\w[^\n]*?) {2,}(-?[\d.,]*\d)\b(.*)$", re.M)
CAPTION = re.compile(r"^ {3,}(\S.*)$", re.M)
LIMIT = 900  # seconds for one program, on a machine that is busy


@dataclass(frozen=True)
class Example:
    """A program or an experiment, with what it says of itself, prints and draws.

    path     of the file
    title    its first line
    text     what follows, without how to run it
    output   what it printed
    out      where an experiment kept its results
    """

    path: Path
    title: str
    text: str
    output: str
    out: Path | None = None

    @property
    def name(self) -> str:
        """A short one, for lists."""
        return self.path.stem.replace("_", " ").capitalize()

    @property
    def figures(self) -> list[tuple[str, float]]:
        """Words and the first number of each line that has both."""
        found = LINE.findall(self.output)
        return [(words, float(number.replace(",", ""))) for words, number, _ in found]

    @property
    def caption(self) -> str:
        """What the first number of each line is."""
        found = CAPTION.search(self.output)
        return re.split(r" {2,}", found[1])[0] if found else ""

    @cached_property
    def picture(self) -> str:
        """An SVG whose ink follows the page; empty if nothing was measured."""
        if self.out is not None:
            from discreet.experiments.figures import against_epsilon
            from discreet.experiments.own import look_in
            from discreet.experiments.runner import load

            look_in(self.path.parent)  # for learners and worlds that stand beside it
            return against_epsilon(load(self.out))
        return bars(self) if self.figures else ""


def examples() -> list[Path]:
    """All that run."""
    return sorted(path for path in ROOT.glob("examples/*") if path.suffix in (".py", ".toml"))


@cache
def digest_of_library() -> str:
    """Of the package's source."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src" / "discreet").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def printed(path: Path, folder: Path) -> str:
    """What an example prints at its own sizes; remembered below a folder."""
    source = path.read_bytes() + digest_of_library().encode()
    kept = folder / f"{path.stem}-{hashlib.sha256(source).hexdigest()[:16]}.txt"
    if kept.exists():
        return kept.read_text(encoding="utf-8")
    command = [sys.executable, str(path.relative_to(ROOT))]
    if path.suffix == ".toml":
        command[1:] = [
            "-c",
            "from discreet.cli import main; main()",
            "run",
            str(path.relative_to(ROOT)),
        ]
        command += ["--no-open", "--out", os.path.relpath(folder / path.stem, ROOT)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100"},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{path.name} failed:\n{done.stderr}")
    folder.mkdir(parents=True, exist_ok=True)
    kept.write_text(done.stdout, encoding="utf-8")
    return done.stdout


def example(path: Path, output: str, folder: Path) -> Example:
    """Read what an example says of itself: a docstring, or the comments on top."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        lines = [line.removeprefix("#").strip() for line in source.split("\n\n")[0].splitlines()]
        title, _, rest = " ".join(lines[1:]).strip().partition("? ")  # the first is the command
        return Example(path, f"{title}?", rest, output, folder / path.stem)
    title, _, rest = re.match(r'"""(.*?)"""', source, re.S)[1].partition("\n")
    rest = re.sub(r"^ +python examples/.*\n(?: +.*\n)*", "", rest, flags=re.M)
    return Example(path, title.rstrip("."), rest.strip(), output)


def bars(shown: Example) -> str:
    """The figures of a program, private ones in colour."""
    from discreet.experiments.figures import COLOURS, GREY, panels, svg

    figures = shown.figures
    with panels(1) as (figure, (axis,)):
        figure.set_size_inches(6.4, 0.36 * len(figures) + 0.9)
        names = [words for words, _ in figures]
        values = [value for _, value in figures]
        private = ["private," in f"{words}," and not words.startswith("not") for words in names]
        colours = [COLOURS[0] if each else GREY for each in private]
        drawn = axis.barh(range(len(names)), values, color=colours, height=0.62)
        axis.bar_label(drawn, labels=[f"{value:g}" for value in values], padding=4)
        axis.set_yticks(range(len(names)), names)
        axis.invert_yaxis()
        axis.margins(x=0.12)
        axis.grid(visible=False)
        axis.spines[["left", "bottom"]].set_visible(False)
        axis.tick_params(length=0)
        axis.set_xticks([])
        if shown.caption:
            axis.set_title(shown.caption, loc="left")
        return svg(figure)


def spoken(shown: Example) -> str:
    """Its picture with a name for those who hear the page."""
    return shown.picture.replace("<svg ", f'<svg role="img" aria-label="{escape(shown.title)}" ', 1)


def page(shown: Example) -> str:
    """The page of an example."""
    name = shown.path.name
    title = inline(shown.title)
    lines = [title, "=" * len(title), "", *rewritten(shown.text.splitlines())]
    if shown.picture:
        lines += [".. raw:: html", f"    :file: {shown.path.stem}.svg", ""]
    lines += ["What it prints", "-" * 14, "", ".. code-block:: text", ""]
    lines += [f"    {line}" for line in shown.output.splitlines()]
    lines += ["", "The file", "-" * 8, "", f":download:`{name} <../../examples/{name}>`", ""]
    lines += [f".. literalinclude:: ../../examples/{name}"]
    lines += [f"    :language: {shown.path.suffix[1:]}", ""]
    return "\n".join(lines)


def cards(shown: list[Example]) -> str:
    """What docs/gallery.md includes: a card for each example, and where its page is."""
    lines = ["::::{grid} 1 1 2 2", ":gutter: 3", ""]
    for each in shown:
        lines += [f":::{{grid-item-card}} {each.title}", f":link: gallery/{each.path.stem}"]
        lines += [":link-type: doc", ""]
        if each.picture:
            lines += ["```{raw} html", f":file: gallery/{each.path.stem}.svg", "```", ""]
        lines += [":::", ""]
    lines += ["::::", "", "```{toctree}", ":hidden:"]
    lines += [f"{each.name} <gallery/{each.path.stem}>" for each in shown]
    return "\n".join([*lines, "```", ""])


def write(app: Any) -> None:
    """Run what changed and write all pages."""
    kept = Path(app.doctreedir).parent / "examples"
    shown = [example(path, printed(path, kept), kept) for path in examples()]
    pages = {PAGES / f"{each.path.stem}.rst": page(each) for each in shown}
    pages |= {PAGES / f"{each.path.stem}.svg": spoken(each) for each in shown if each.picture}
    pages[PAGES / "index.txt"] = cards(shown)
    PAGES.mkdir(exist_ok=True)
    for old in PAGES.iterdir():
        if old not in pages:
            old.unlink()
    for path, text in pages.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
