import os
import subprocess
import sys

import pytest

import discreet
from discreet.cli import main


def test_cli__help_names_every_command(capsys):
    assert main([]) == 0
    text = capsys.readouterr().out
    for word in ("demo", "plan", "version", "discreet demo"):
        assert word in text
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0


def test_cli__version(capsys):
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"discreet {discreet.__version__}\n"


def test_cli__demo_prints_a_table_and_saves_a_figure(capsys, tmp_path):
    assert main(["demo", "--rounds", "2000", "--out", str(tmp_path / "new")]) == 0
    text = capsys.readouterr().out
    for word in ("truth", "binary tree", "buffered Toeplitz", "Not protected", "SIMULATION ONLY"):
        assert word in text
    picture = (tmp_path / "new" / "running-average.png").read_bytes()
    assert picture.startswith(b"\x89PNG")


def test_cli__plan_prints_a_table_and_saves_a_figure(capsys, tmp_path):
    arguments = ["plan", "--rows", "5000", "--dim", "3", "--epsilon", "0.5", "1"]
    assert main([*arguments, "--target", "0.01", "--out", str(tmp_path / "new")]) == 0
    text = capsys.readouterr().out
    for word in ("central", "0.5", "price", "limit", "ratio", "5,000 rows"):
        assert word in text
    assert (tmp_path / "new" / "plan.png").read_bytes().startswith(b"\x89PNG")


def test_cli__plan_reads_a_public_sample(capsys, tmp_path):
    sample = tmp_path / "public.csv"
    sample.write_text("age,height\n0.1,2\n0.3,-1\n2,0.2\n")
    arguments = ["plan", "--public-sample", str(sample), "--norm-bound", "3", "--epsilon", "1"]
    assert main([*arguments, "--trust", "local", "--out", str(tmp_path)]) == 0
    assert "2 features" in capsys.readouterr().out


def test_cli__plan_help_teaches(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["plan", "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for word in ("how to choose", "delta", "central", "local", "examples", "73%", "leak"):
        assert word in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--rounds", "5"], "rounds must be at least 100"),
        (["demo", "--epsilon", "0"], "epsilon must be positive"),
        (["demo", "--delta", "0"], "delta"),
        (["plan"], "give either --dim D or --public-sample FILE"),
        (["plan", "--dim", "0"], "d must be at least 1"),
        (["plan", "--dim", "3", "--rows", "1"], "rows must be at least 10"),
        (["plan", "--dim", "3", "--epsilon", "1", "-2"], "epsilon must be positive"),
        (["plan", "--dim", "3", "--delta", "0"], "delta"),
        (["plan", "--dim", "3", "--noise", "0"], "noise must be positive"),
        (["plan", "--dim", "3", "--target", "0"], "target must be positive"),
        (["plan", "--dim", "3", "--trust", "blind"], "trust must be one of"),
        (["plan", "--public-sample", "nowhere.csv"], "no public sample"),
    ],
)
def test_cli__mistakes_are_one_clear_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_cli__says_what_to_install_when_an_extra_is_missing(tmp_path):
    code = (
        "import sys; sys.modules['rich'] = None; sys.modules['rich.console'] = None\n"
        "from discreet.cli import main; main(['demo', '--rounds', '200', '--out', sys.argv[1]])"
    )
    done = subprocess.run([sys.executable, "-c", code, os.fspath(tmp_path)], capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == 1
    assert "pip install 'discreet[experiments]'" in done.stderr
    assert "Traceback" not in done.stderr
