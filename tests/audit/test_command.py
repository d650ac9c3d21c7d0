"""`discreet audit`: a table, a figure, and a status that a script can read."""

import pytest

from discreet.audit import run
from discreet.cli import main


def test_command__attacks_what_is_named_and_saves_a_figure(tmp_path, capsys):
    assert (
        main(["audit", "interval", "--runs", "400", "--workers", "1", "--out", str(tmp_path)]) == 0
    )
    shown = capsys.readouterr().out
    assert "interval channel" in shown
    assert "not refuted (p =" in " ".join(shown.split())
    assert (tmp_path / "audit.svg").stat().st_size > 1000


def test_command__leaves_with_an_error_when_a_claim_is_refuted(tmp_path, capsys, monkeypatch):
    whole = run._report
    monkeypatch.setattr(run, "_report", lambda attack, *rest: whole(attack.at(0.01), *rest))
    with pytest.raises(SystemExit) as stop:
        main(["audit", "laplace", "--runs", "400", "--workers", "1", "--out", str(tmp_path)])
    assert stop.value.code == 1
    assert "BROKEN" in capsys.readouterr().out


def test_command__an_unknown_name_is_told_with_all_names(capsys):
    with pytest.raises(SystemExit):
        main(["audit", "nothing of the kind"])
    assert "prefix sum blt, first round" in capsys.readouterr().err
