"""The numbers of README and docs are those of the results files."""

import importlib.util
import json
from pathlib import Path

import pytest

from discreet.experiments.measure import grid

ROOT = Path(__file__).parents[1]


@pytest.fixture
def check():
    spec = importlib.util.spec_from_file_location(
        "figures_check", ROOT / "benchmarks" / "figures_check.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_figures__documents_agree_with_results_files(check, capsys):
    assert check.main() == 0, capsys.readouterr().out


@pytest.fixture
def one_page(check, tmp_path, monkeypatch, capsys):
    """A function: what the check says about a README, beside results of one table."""
    monkeypatch.setattr(check, "ROOT", tmp_path)
    folder = tmp_path / "docs" / "figures"
    folder.mkdir(parents=True)
    results = {"Errors, 40 fits": {"columns": ["n", "e"], "rows": [["2,000", "1.50 ± 0.10"]]}}
    (folder / "one.json").write_text(json.dumps(results))

    def said(text):
        (tmp_path / "README.md").write_text(text)
        status = check.main()
        return status, capsys.readouterr().out

    return said


TABLE = "| n | error |\n|---|---|\n| 2000 | 1.50 |\n"
MARK = "<!-- figures: one.json, Errors -->\n\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (MARK + TABLE.replace("1.50", "1.49"), "no row with the numbers of"),
        (MARK.replace("one", "two") + TABLE, "there is no docs/figures/two.json"),
        (MARK.replace("Errors", "Other") + TABLE, "0 tables"),
        (MARK.replace("figures", "figures to come") + TABLE.replace("1.50", "1.49"), "no row"),
        (TABLE, "names no results"),
    ],
)
def test_figures__wrong_numbers_missing_results_and_bare_tables_are_mistakes(text, words, one_page):
    assert one_page(MARK + TABLE)[0] == 0
    status, out = one_page(text)
    assert status == 1
    assert words in out


def test_figures__results_to_come_are_listed_and_other_tables_may_be_excused(one_page):
    status, out = one_page(MARK.replace("figures: one", "figures to come: two") + TABLE)
    assert status == 0
    assert "1 wait for a benchmark" in out
    assert one_page("<!-- no figures: arithmetic -->\n\n" + TABLE)[0] == 0
    assert one_page("<!-- no figures: arithmetic -->\n\n" + TABLE + "\n" + TABLE)[0] == 1


def test_figures__numbers_listed_above_a_paragraph_are_in_it_and_in_the_results(one_page):
    mark = "<!-- figures: one.json, Errors has 1.5 -->\n\n"
    assert one_page(mark + "An error of 1.5.\n")[0] == 0
    assert "listed and not in the paragraph" in one_page(mark + "An error of 1.6.\n")[1]
    assert "no row" in one_page(mark.replace("1.5", "1.6") + "An error of 1.6.\n")[1]


@pytest.fixture
def written(check, tmp_path, monkeypatch):
    """A function: write a file below an empty repository, and forget what was read of it."""
    monkeypatch.setattr(check, "ROOT", tmp_path)

    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        for each in (check.digest, check._origin, check._named):
            each.cache_clear()

    return write


ROOM = "src/discreet/privacy/"


@pytest.fixture
def kept(check, written):
    """Results of a script that uses one of two modules, by way of its room."""
    written(ROOM + "__init__.py", "from discreet.privacy.noise import scale\nx = 1\n")
    written(ROOM + "noise.py", '"""Noise."""\nscale = 1\n')
    written(ROOM + "tree.py", "levels = 1\n")
    written("benchmarks/one.py", "from discreet.privacy import scale\nimport numpy\n")
    made = check.code(set(), "one")
    written("docs/figures/one.json", json.dumps({"Errors": {"rows": [], "code": made}}))
    return made


def test_figures__a_table_is_stale_when_a_module_that_its_script_uses_has_changed(
    check, written, kept
):
    assert {part: each.split()[1:] for part, each in kept.items()} == {
        "benchmarks": ["one"],
        "privacy": ["noise"],
    }
    assert not list(check.stale())
    written(ROOM + "tree.py", "levels = 2\n")
    written(ROOM + "noise.py", '"""Other\n\nwords."""\n# a comment\n\nscale = 1\n')
    assert not list(check.stale())
    written(ROOM + "noise.py", "scale = 2\n")
    assert list(check.stale()) == [("one.json", "privacy (1)")]
    written("docs/figures/old.json", json.dumps({"Errors": {"rows": []}}))
    assert ("old.json", "no code is named (1)") in list(check.stale())


def test_figures__what_a_module_uses_counts_and_in_a_function_once_it_is_loaded(
    check, written, kept
):
    written(ROOM + "noise.py", "def draw():\n    from discreet.privacy import tree\n")
    assert "tree" not in check.code(set(), "one")["privacy"]
    assert check.code({"discreet.privacy.tree"}, "one")["privacy"].split()[1:] == ["noise", "tree"]
    written(ROOM + "noise.py", "import discreet.privacy.tree\n")
    assert check.code(set(), "one")["privacy"].split()[1:] == ["noise", "tree"]


@pytest.fixture
def tools(monkeypatch):
    """The modules of benchmarks that keep tables, and measure them again."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("probes"), importlib.import_module("kit")


def lengths(*, side, scale, seed):
    """A measurement: what it finds depends on the code, its seconds on the machine."""
    return {"value": [side * scale, seed], "seconds": 0.1}


def test_probe__has_the_cheapest_run_of_every_value_and_names_those_that_cost_too_much(tools):
    probes, _ = tools
    cells = grid(lengths, seeds=(1,), side=(1, 2), scale=(3, 100))
    costs = {(1, 3): 1.0, (2, 3): 2.0, (1, 100): 10.0, (2, 100): 12.0}
    runs = []
    for cell in cells:
        about = dict(cell.parameters)
        seconds = costs[about["side"], about["scale"]]
        runs.append((cell, {"values": lengths(**about, seed=1), "seconds": seconds}))
    kept = probes.probe(runs)
    assert [each["parameters"] for each in kept["runs"]] == [
        {"scale": 3, "side": 1}, {"scale": 3, "side": 2}, {"scale": 100, "side": 1}
    ]  # fmt: skip
    assert (kept["seconds"], kept["left"]) == (13.0, [])
    dear = probes.probe([(cell, {**each, "seconds": 99.0}) for cell, each in runs])
    assert (len(dear["runs"]), len(dear["left"])) == (0, 4)


def test_probe__agrees_with_rewritten_code_and_not_with_code_that_finds_something_else(
    tools, monkeypatch
):
    probes, _ = tools
    (cell,) = grid(lengths, seeds=(1,), side=((1, 2),), scale=(3,))
    kept = probes.probe([(cell, {"values": {"value": [1, 2, 1, 2, 1, 2, 1]}, "seconds": 1.0})])
    kept = json.loads(json.dumps(kept))  # as it stands in a file
    name = kept["runs"][0]["measure"].partition(":")[0]
    assert importlib.import_module(name).lengths is lengths

    def measured(found):
        monkeypatch.setattr(importlib.import_module(name), "lengths", found)
        return probes.agrees(kept)

    assert measured(lambda *, side, scale, seed: {"value": [*side * scale, seed + 1e-9]})
    assert not measured(lambda *, side, scale, seed: {"value": [*side * scale, seed + 1e-3]})
    assert not measured(lambda *, side, scale, seed: {"value": [*side * scale]})
    assert not measured(lambda *, side, scale, seed: {"other": 1})
    assert not measured(lambda *, side, scale: {})
    assert not probes.agrees({"runs": []})


def test_kept_table__has_the_runs_that_were_asked_for_since_the_one_before(
    tools, tmp_path, monkeypatch
):
    _, kit = tools
    monkeypatch.setattr(kit, "FOLDER", tmp_path / "out")
    monkeypatch.setattr(kit, "FIGURES", tmp_path)
    monkeypatch.setattr(kit.sys, "argv", ["benchmarks/one.py"])
    found = kit.run(grid(lengths, seeds=(1, 2), side=(1, 2), scale=(3,)))
    console = kit.KeepingConsole(quiet=True)
    for side in (1, 2):
        assert found.over(lengths, side=side, scale=3).shape == (2, 2)
        console.print(kit.new_table(f"Side {side}", ["a"]))
    console.print(kit.new_table("Again", ["a"]))  # the same numbers in another way
    kept = json.loads((tmp_path / "one.json").read_text())
    sides = {title: [run["parameters"]["side"] for run in table["probe"]["runs"]]
             for title, table in kept.items()}  # fmt: skip
    assert sides == {"Side 1": [1], "Side 2": [2], "Again": [2]}
    assert all(table["seconds"] >= 0 for table in kept.values())
