"""What the documents name exists: files, modules, classes, commands, targets, and the walks."""

import builtins
import doctest
import importlib
import re
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import typer

from discreet.bandits import LinearBandit
from discreet.cli.app import app
from discreet.online import AdversarialBandit
from discreet.privacy import SeededNoise
from discreet.regression import PrivateLinearRegression
from discreet.service.definitions import learner, parsed

ROOT = Path(__file__).parents[1]
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md")),
)
PLACES = (
    ".",
    "docs",
    "docs/figures",
    "src",
    "src/discreet",
    "src/discreet/privacy",
    "src/discreet/audit",
)
WRITTEN = {
    "build/site/index.html",
    "dossier.html",
    "experiment.json",
    "index.html",
    "page.html",
    "plan.html",
    "plan.json",
    "report.html",
    "results.parquet",
}  # by commands, into their folders
FILE = r"[\w./*<>-]+\.(?:py|md|png|svg|toml|html|parquet|json)"

SKLEARN = {"FunctionTransformer", "GridSearchCV", "OneHotEncoder", "StandardScaler"}

documents = pytest.mark.parametrize("name", DOCUMENTS)


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def code(name):
    """What stands in backticks within a line, without fenced blocks."""
    prose = re.sub(r"^```.*?^```", "", text(name), flags=re.M | re.S)
    return re.findall(r"`([^`\n]+)`", prose)


@cache
def rooms():
    """Every module of the package, by its name without `discreet.`"""
    root = ROOT / "src" / "discreet"
    paths = (path.relative_to(root).with_suffix("") for path in root.rglob("*.py"))
    return {".".join(path.parts).removesuffix(".__init__") for path in paths}


@cache
def classes():
    """The names of all classes of the package and of what stands beside it."""
    found = set()
    for folder in ("src", "papers", "benchmarks", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            found |= set(re.findall(r"^ *class (\w+)", path.read_text(encoding="utf-8"), re.M))
    return found


@cache
def words():
    """Every word of the code."""
    paths = [
        path for folder in ("src", "papers", "clients") for path in (ROOT / folder).rglob("*.*")
    ]
    read = (path.read_text(encoding="utf-8") for path in paths if path.suffix in (".py", ".js"))
    return {word for each in read for word in re.findall(r"\w+", each)}


def resolved(dotted):
    """The object of a dotted name below `discreet`."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        if ".".join(parts[:end]) in rooms():
            found = importlib.import_module(".".join(("discreet", *parts[:end])))
            for part in parts[end:]:
                found = getattr(found, part)
            return found
    raise AttributeError(dotted)


@documents
def test_documents__files_they_name_exist(name):
    named = [word for each in code(name) for word in re.findall(FILE, each)]
    named += re.findall(r"\]\(([\w./-]+)\)", text(name))
    missing = []
    for each in named:
        if each in WRITTEN or re.search(r"[*<>]|^[A-Z]+\.json$", each):
            continue  # written by a command, or a pattern
        if each.startswith(("out/", "/")):
            continue
        places = (ROOT / name).parent, *(ROOT / place for place in PLACES)
        if not any((place / each).exists() for place in places):
            missing.append(each)
    assert missing == []


def test_contributing__the_map_names_every_room_and_only_files_that_exist():
    drawn = re.search(r"^src/discreet/\n.*?^```", text("CONTRIBUTING.md"), re.M | re.S)[0]
    source = ROOT / "src" / "discreet"
    files = {path.name for path in source.rglob("*.py")}
    assert sorted(set(re.findall(r"\b\w+\.py\b", drawn)) - files) == []
    own = (path for path in source.iterdir() if path.suffix == ".py" or path.is_dir())
    rooms = {path.name for path in own if not path.name.startswith("__")}
    assert sorted(room for room in rooms if room not in drawn) == []


@documents
def test_documents__dotted_names_exist(name):
    tops = {module.split(".")[0] for module in rooms()}
    missing = []
    for each in code(name):
        word = re.match(r"(discreet\.)?([a-z_]+(?:\.\w+)+)", each)
        ours = word and (word[1] or name != "docs/service.md")  # where privacy.x is a JSON field
        if ours and word[2].split(".")[0] in tops and not re.match(FILE, each):
            try:
                resolved(word[2])
            except AttributeError:
                missing.append(each)
    assert [each for each in missing if not each.startswith("distributed.Client")] == []  # Dask's


@documents
def test_documents__attributes_and_arguments_they_name_are_in_the_code(name):
    named = set()
    for each in code(name):
        if not re.search(FILE, each):
            named |= set(re.findall(r"[a-z_)]\.([a-z_]\w+)(?=\W|$)", each))
            named |= set(re.findall(r"\b([a-z_]\w+)=", each))
    assert sorted(named - words() - {"drop_axis", "sh", "yaml"}) == []  # Dask's; ends of files


@documents
def test_documents__classes_they_name_exist(name):
    named = {word for each in code(name) for word in re.findall(r"\b[A-Z][a-z]+[A-Z]\w+", each)}
    assert sorted(named - classes() - set(dir(builtins)) - SKLEARN) == []


@documents
def test_documents__commands_and_targets_exist(name):
    commands = set(typer.main.get_command(app).commands)
    targets = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.M))
    asked = re.findall(r"(?:^|`)discreet ([a-z]+)", text(name), re.M)
    made = re.findall(r"`make ([a-z-]+)", text(name))
    assert sorted(set(asked) - commands) == []
    assert sorted(set(made) - targets) == []


def definitions():
    """What documents send to make a bandit of the service."""
    for name in DOCUMENTS:
        for sent in re.findall(r"-X PUT .*?-d '(\{.*?\})'", text(name), re.S):
            yield pytest.param(sent, id=name)


@pytest.mark.parametrize("sent", list(definitions()))
def test_documents__definitions_of_bandits_are_valid(sent):
    learner(parsed(sent.encode()))


def test_documents__some_define_a_bandit():
    assert {each.id for each in definitions()} >= {"README.md", "docs/guides/engineer.md"}


# -- the walks of CONTRIBUTING.md -----------------------------------------------------------------


def one_reward():
    bandit = LinearBandit(3, horizon=400, epsilon=1.0, seed=0, noise=SeededNoise(0))
    for _ in range(bandit.rounds_until_release + 1):
        bandit.learn(bandit.decide(np.eye(3) / 2), 0.5)


def one_row():
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (20_000, 3))
    PrivateLinearRegression(random_state=0).fit(X, X @ [0.5, 0.2, -0.3])


def one_loss():
    bandit = AdversarialBandit(3, 10, epsilon=1.0, seed=0, noise=SeededNoise(0))
    bandit.learn(bandit.decide(), 0.5)


def called(work):
    """The names of every function that was entered: of its module, its class, and of self."""
    names = []

    def enter(frame, event, _):
        here = frame.f_code
        if event == "call" and "discreet" in here.co_filename:
            kind = type(frame.f_locals.get("self")).__name__
            module = Path(here.co_filename).stem
            names.append({here.co_qualname, f"{module}.{here.co_name}", f"{kind}.{here.co_name}"})

    sys.setprofile(enter)
    try:
        work()
    finally:
        sys.setprofile(None)
    return names


@pytest.mark.parametrize(
    ("walk", "work"),
    [("One reward", one_reward), ("One row", one_row), ("One loss", one_loss)],
)
def test_contributing__the_walk_is_what_happens(walk, work):
    line = re.search(rf"^- {walk}.*?(?=^-|^$)", text("CONTRIBUTING.md"), re.M | re.S)[0]
    calls = iter(called(work))
    for step in re.findall(r"`([\w.]+)`", line):
        assert any(step in names for names in calls), f"{step} was not called, or not after those"


# -- blocks of code --------------------------------------------------------------------------------

BLOCK = re.compile(r"(<!-- fetches -->\n)?^```python\n(.*?)^```", re.M | re.S)


def plain_blocks(name):
    """Python blocks that are no doctests (pytest runs those), but for what needs more."""
    found = (match for match in BLOCK.finditer(text(name)) if not match[1])
    return [match[2] for match in found if ">>>" not in match[2]]


PASTED = [name for name in DOCUMENTS if plain_blocks(name)]


@pytest.mark.parametrize("name", PASTED)
def test_blocks__of_a_page_run_from_top_to_bottom_in_a_fresh_interpreter(name):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(plain_blocks(name))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_blocks__of_the_first_pages_stand_alone_each():
    blocks = plain_blocks("README.md") + plain_blocks("docs/start.md")
    for block in blocks:
        assert block.startswith("import ")
        compile(block, "README.md", "exec")
    assert len(blocks) >= 3


def test_readme__fits_two_screens():
    assert len(text("README.md").splitlines()) <= 100


@documents
def test_blocks__the_first_doctest_of_a_page_imports_what_it_uses(name):
    first = re.search(r"^```\w*\n(>>> .*?)^```", text(name), re.M | re.S)
    if first is not None:  # run alone, by itself
        runner = doctest.DocTestRunner(
            verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
        )
        test = doctest.DocTestParser().get_doctest(first[1], {}, name, name, 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert runner.run(test, out=lambda line: None).failed == 0
