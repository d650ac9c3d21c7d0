"""The worked examples run, small, and print what they promise."""

import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SMALL = {
    "spanning_tree": ["4000"],
    "routing": ["4000"],
    "low_rank": ["1500"],
    "sparse_regression": ["1500", "300"],
}


def table(name, capsys, monkeypatch):
    """The first number of each line, by the words before it."""
    monkeypatch.setattr(sys, "argv", [name, *SMALL[name]])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    out = capsys.readouterr().out
    lines = re.findall(r"^(\w[^\n]*?) {2,}([\d.]+)(?: .*)?$", out, re.MULTILINE)
    return {words: float(number) for words, number in lines}


@pytest.mark.parametrize(
    ("name", "private", "worst"),
    [
        ("spanning_tree", "private, sees every link", "any tree, at random"),
        ("spanning_tree", "private, sees the total only", "any tree, at random"),
        ("routing", "private, epsilon = 2", "any route, at random"),
        ("low_rank", "private, epsilon = 16", "no guess at all"),
        ("sparse_regression", "private, epsilon = 10", "no guess at all"),
    ],
)
def test_example__learns_in_private(name, private, worst, capsys, monkeypatch):
    figures = table(name, capsys, monkeypatch)
    assert len(figures) >= 4
    assert figures[private] < 0.9 * figures[worst]


@pytest.mark.parametrize("name", SMALL)
def test_example__says_how_to_run_it_and_is_short(name):
    text = (EXAMPLES / f"{name}.py").read_text()
    assert f"python examples/{name}.py" in text
    assert len(text.splitlines()) < 80
