"""The numbers of README and docs are those of the results files."""

import importlib.util
import json
from pathlib import Path

import pytest

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


def test_figures__a_table_whose_rooms_have_changed_since_is_stale(check, tmp_path, monkeypatch):
    monkeypatch.setattr(check, "ROOT", tmp_path)
    room = tmp_path / "src" / "discreet" / "privacy"
    results = tmp_path / "docs" / "figures"
    for folder in (room, results):
        folder.mkdir(parents=True)
    (room / "noise.py").write_text("scale = 1\n")
    made = check.code(["discreet.privacy.noise", "discreet.service.app", "numpy"], "one")
    assert set(made) == {"privacy", "benchmarks/one"}
    (results / "one.json").write_text(json.dumps({"Errors": {"rows": [], "code": made}}))
    (room / "noise.py").write_text("# a comment\n\nscale = 1\n")
    check.digest.cache_clear()
    assert not list(check.stale())
    (room / "noise.py").write_text("scale = 2\n")
    check.digest.cache_clear()
    assert list(check.stale()) == [("one.json", "privacy (1)")]
    (results / "old.json").write_text(json.dumps({"Errors": {"rows": []}}))
    assert ("old.json", "1 of 1 tables name no code") in list(check.stale())
