"""The site's parts, without building it: `make docs` builds and checks the whole."""

import importlib
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import typer

from discreet.cli.app import app
from docs._site import check, commands, docstrings, gallery, reference

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.M | re.S)


def listed(page):
    """The pages that a page has below it."""
    for tree in TOCTREE.findall(page.read_text(encoding="utf-8")):
        for line in tree.splitlines():
            if line and not line.startswith(":"):
                yield re.sub(r".*<(.*)>", r"\1", line)


def test_site__every_page_is_in_exactly_one_table_of_contents():
    pages = {str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.glob("**/*.md")}
    found = [name for path in DOCS.glob("**/*.md") for name in listed(path)]
    assert sorted(found) == sorted(pages - {"index"})


@cache
def pages():
    return reference.written()


@pytest.mark.parametrize("room", reference.packages())
def test_reference__has_every_name_that_a_package_lists(room):
    module = importlib.import_module(room)
    for name in module.__all__:
        value = getattr(module, name)
        path = f"{value.__name__ if isinstance(value, ModuleType) else f'{room}/{name}'}.rst"
        assert f"\n{name}\n===" in f"\n{pages()[path]}" or isinstance(value, ModuleType)
        assert f":doc:`{name} <{path.removesuffix('.rst')}>`" in pages()[f"{room}.rst"]


def test_reference__a_name_is_a_link_where_one_room_has_it():
    names = reference.full_names()
    assert names["PrefixSum"] == "discreet.privacy.PrefixSum"
    assert "Shuffled" not in names  # of bandits, and of privacy


def test_commands__every_command_has_its_arguments_and_options():
    page = commands.page()
    for name in set(typer.main.get_command(app).commands) - {"abtest", "keys"}:
        assert f"\ndiscreet {name}\n---" in page
    assert "\ndiscreet keys create\n" in page
    assert "\ndiscreet abtest run\n" in page
    assert "``EXPERIMENT``" in page
    assert "``--open, --no-open``" in page


def test_docstrings__tables_are_definitions_drawings_stay_and_nothing_else_is_markup():
    text = """A sum of |x| * 2, never `coef_` alone.

    paper   x_t     eta
    here    point   rate

    Parameters
        low, high   ends of the interval;
                    both are in it
        noise       of its own

    - one_
    - two
      and more

    >>> 1 + 1
    2
    """
    lines = [line.removeprefix("    ") for line in text.splitlines()]
    assert docstrings.rewritten(lines) == [
        "A sum of \\|x\\| \\* 2, never ``coef_`` alone.", "",
        "::", "", "    paper   x_t     eta", "    here    point   rate", "",
        ".. rubric:: Parameters", "",
        "``low``, ``high``", "    ends of the interval; both are in it",
        "``noise``", "    of its own", "",
        "- one\\_", "- two", "  and more", "",
        ">>> 1 + 1", "2", "",
    ]  # fmt: skip


def test_gallery__figures_are_the_lines_that_a_program_prints():
    path = ROOT / "examples" / "spanning_tree.py"
    output = (
        "20 hours\n          latency, at the end\nprivate, one  1,250.5  more\nnone  3\nend: 2\n"
    )
    shown = gallery.example(path, output, ROOT)
    assert shown.title.endswith("?")
    assert "python examples" not in shown.text
    assert shown.figures == [("private, one", 1250.5), ("none", 3.0)]
    assert shown.caption == "latency, at the end"
    assert "<svg" in shown.picture
    assert "private, one" in gallery.page(shown)


def test_gallery__an_example_runs_once_and_a_failure_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(gallery, "ROOT", tmp_path)
    program = tmp_path / "one.py"
    program.write_text('"""One."""\nprint("words  1")\n')
    kept = tmp_path / "kept"
    assert gallery.printed(program, kept) == "words  1\n"
    (only,) = kept.iterdir()
    only.write_text("as kept")
    assert gallery.printed(program, kept) == "as kept"
    program.write_text("raise SystemExit(3)")
    with pytest.raises(RuntimeError, match=r"one\.py failed"):
        gallery.printed(program, kept)


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ('<a href="two.html#here">x</a>', None),
        ('<a href="https://elsewhere.org">x</a>', None),
        ('<a href="three.html">x</a>', "leads to three.html, which is not there"),
        ('<a href="two.html#there">x</a>', "has no such place"),
        ('<script src="https://elsewhere.org/x.js"></script>', "loads https://elsewhere.org/x.js"),
        ('<link rel="stylesheet" href="https://elsewhere.org/x.css">', "loads https"),
    ],
)
def test_check__finds_links_to_nowhere_and_what_is_loaded_from_elsewhere(body, wrong, tmp_path):
    (tmp_path / "one.html").write_text(body)
    (tmp_path / "two.html").write_text('<p id="here"><p id="discreet.Name">')
    found = list(check.mistakes(tmp_path, {"discreet.Name"}))
    assert len(found) == (wrong is not None)
    assert wrong is None or wrong in found[0]
    assert "discreet.Other is public" in list(check.mistakes(tmp_path, {"discreet.Other"}))[-1]
