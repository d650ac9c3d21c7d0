"""The package as a whole: light to import, typed, and its documents agree with the code."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import discreet
from discreet.experiments import source

ROOT = Path(__file__).parents[1]


def modules_after(statement):
    code = f"{statement}; import sys; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import__is_light():
    bare = modules_after("import numpy, scipy.special")
    ours = modules_after("import discreet, discreet.privacy, discreet.audit")
    slow = {"scipy.stats", "scipy.optimize", "scipy.signal", "dp_accounting", "opendp",
            "matplotlib", "pandas", "rich"}  # fmt: skip
    assert not slow & ours
    assert len(ours - bare) < 60
    assert not slow & modules_after("import discreet.bandits")
    assert len(modules_after("import discreet")) < 120  # nothing but the version


def test_package__is_typed_and_versioned():
    assert (Path(discreet.__file__).parent / "py.typed").exists()
    assert f"## {discreet.__version__.removesuffix('.dev0')}" in (ROOT / "CHANGELOG.md").read_text()


def test_digest__changes_with_a_learner_and_not_with_a_report(tmp_path, monkeypatch):
    copy = tmp_path / "discreet"
    shutil.copytree(Path(discreet.__file__).parent, copy)
    monkeypatch.setattr(source, "__file__", str(copy / "experiments" / "source.py"))
    plain = source.digest.__wrapped__
    assert plain() == source.digest()
    with (copy / "experiments" / "report.py").open("a") as file:
        file.write("# shown otherwise")
    assert plain() == source.digest()
    with (copy / "privacy" / "tree.py").open("a") as file:
        file.write("# computed otherwise")
    assert plain() != source.digest()


def test_extras__all_is_everything_but_what_builds_and_documents():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    named = set(re.findall(r"\w+", extras["all"][0])) - {"discreet"}
    assert named == set(extras) - {"all", "demo", "dev", "docs"} - {"spark"}  # needs Java


def test_readme__its_example_runs(capsys):
    text = (ROOT / "README.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert examples
    for example in examples:
        exec(compile(example, "README.md", "exec"), {})
    assert "epsilon" in capsys.readouterr().out
    for command in ("make demo", "make test"):
        assert command in text


@pytest.mark.parametrize("page", sorted(p.name for p in (ROOT / "docs").glob("*.md")))
def test_docs__links_and_pictures_exist(page):
    text = (ROOT / "docs" / page).read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if "://" not in target:
            assert (ROOT / "docs" / target).exists(), target


def test_repository__speaks_of_no_machine():
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    private = re.compile("/" + r"(work|root|home|tmp)/\w")
    for name in filter(None, tracked):
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ""} and path.is_file() and name != "LICENSE":
            assert not private.search(path.read_text()), name


def test_import__an_old_python_is_refused_in_a_sentence():
    code = "import sys; sys.version_info = (3, 10, 13); import discreet"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "discreet needs Python 3.11 or newer" in done.stderr.splitlines()[-1]


def test_make__an_old_python_is_refused_before_anything_is_installed(tmp_path):
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    old = tmp_path / "python3.10"
    code = "import sys; sys.version_info = (3, 10, 13); exec(sys.argv[1])"
    old.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}' \"$2\"\n")
    old.chmod(0o755)
    command = ["make", "-f", ROOT / "Makefile", "demo", f"PYTHON={old}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "discreet needs Python 3.11 or newer" in done.stderr
    assert not (tmp_path / ".venv").exists()
