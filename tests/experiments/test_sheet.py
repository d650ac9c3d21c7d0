"""A forecast as a page and as numbers: whole, from nowhere else, never written over."""

import json
import re

import pytest

from discreet.cli import main
from discreet.words import rough

REGRESSION = ["--rows", "2000", "--dim", "3", "--epsilon", "1", "--target", "0.01"]
BANDIT = ["--rounds", "300", "--dim", "3", "--epsilon", "1"]


@pytest.mark.parametrize("asked", [REGRESSION, BANDIT], ids=["rows", "rounds"])
def test_forecast__page_and_numbers_say_what_the_terminal_says(
    asked, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("discreet.experiments.bandit_forecast.SECONDS", 0.1)
    monkeypatch.setattr("discreet.experiments.regression_forecast.MOST_RUNS", 8)
    monkeypatch.setenv("COLUMNS", "120")  # no cell on two lines
    page, numbers = tmp_path / "new" / "plan.html", tmp_path / "plan.json"
    files = ["--html", str(page), "--json", str(numbers), "--out", str(tmp_path)]
    assert main(["forecast", *asked, *files]) == 0
    out = capsys.readouterr().out
    assert f"Page: {page}" in out.replace("\n", "")
    text = page.read_text(encoding="utf-8")
    assert "data:image/png;base64," in text
    assert not re.search(r'(src|href)="(?!data:)|@import|url\(', text)
    record = json.loads(numbers.read_text())
    assert record["answers"][0]["epsilon"] == "inf"
    (private,) = record["answers"][1:]
    assert private["epsilon"] == 1.0
    if asked is REGRESSION:
        shown = f"{private['error']:.2g}", f"{private['low']:.2g}-{private['high']:.2g}"
    else:
        ends = private["low"], private["high"]
        assert ends[0] < private["regret"] < ends[1]
        shown = private["trust"], "-".join(map(rough, ends))
    for word in shown:
        assert f">{word}</td>" in text
        assert word in out
    before = page.read_bytes(), numbers.read_bytes()
    for once_more in (files[:2], files[2:4]):  # each by itself is refused, before anything is run
        with pytest.raises(SystemExit) as stop:
            main(["forecast", *asked, *once_more, "--out", str(tmp_path / "other")])
        assert stop.value.code == 2
        assert "never overwritten" in capsys.readouterr().err
    assert (page.read_bytes(), numbers.read_bytes()) == before
    assert not (tmp_path / "other").exists()
