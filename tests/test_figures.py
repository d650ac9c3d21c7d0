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


def test_figures__a_wrong_number_and_a_missing_file_are_found_and_bare_tables_listed(
    check, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(check, "ROOT", tmp_path)
    folder = tmp_path / "docs" / "figures"
    folder.mkdir(parents=True)
    results = {"Errors, 40 fits": {"columns": ["n", "e"], "rows": [["2,000", "1.50 ± 0.10"]]}}
    (folder / "one.json").write_text(json.dumps(results))
    page = tmp_path / "README.md"
    table = "| n | error |\n|---|---|\n| 2000 | 1.50 |\n"
    mark = "<!-- figures: one.json, Errors -->\n\n"
    page.write_text(mark + table)
    assert check.main() == 0
    for text, words in (
        (mark + table.replace("1.50", "1.49"), "no row with the numbers of"),
        (mark.replace("one", "two") + table, "there is no docs/figures/two.json"),
        (mark.replace("Errors", "Other") + table, "0 tables"),
    ):
        page.write_text(text)
        assert check.main() == 1
        assert words in capsys.readouterr().out
    page.write_text(table)
    assert check.main() == 0
    assert "1 tables of numbers name no results" in capsys.readouterr().out
