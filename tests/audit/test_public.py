"""Attacks and the service run public code: what they read of a learner anybody can read."""

import ast
from pathlib import Path

import pytest

import discreet

FOLDER = Path(discreet.__file__).parent
TABLES = ("families.py", "registry.py")  # of configurations: they attack nothing
FILES = sorted(
    path
    for room in ("audit", "service")
    for path in (FOLDER / room).rglob("*.py")
    if path.name not in TABLES
)
OWN = ("self", "cls")
# What `state_dict` and `load_state_dict` show and take, for a store that lets one copy act.
STORES = ("_stored", "_restore", "_stored_sum", "_fold_stored")
STANDARD = ("_exit", "_replace", "_processes")  # of os, named tuples and pools


def private(name):
    if name in STORES + STANDARD:
        return False
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def own_names(tree):
    """Private names that the classes of a file define: its other classes may use them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from (each.name for each in node.body if isinstance(each, ast.FunctionDef))
        stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if stored and isinstance(node.value, ast.Name) and node.value.id in OWN:
            yield node.attr


def looks(source):
    """Private names of other objects and modules that the source reads, and ways around that."""
    found = []
    tree = ast.parse(source)
    known = set(own_names(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id in OWN
            own |= node.attr in known
            if (private(node.attr) or node.attr == "__dict__") and not own:
                found.append(ast.unparse(node))
        elif isinstance(node, ast.ImportFrom):
            found += [each.name for each in node.names if private(each.name)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            words = [each for each in node.args if isinstance(each, ast.Constant)]
            if node.func.id in ("getattr", "setattr", "vars") and (
                node.func.id == "vars" or not words or private(str(words[0].value))
            ):
                found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_room__reads_no_private_attribute_of_another_file(path):
    assert looks(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "learner._sums",
        "self.learner._sums",
        "from discreet.privacy.prefix import _secret",
        "vars(learner)",
        "getattr(learner, '_sums')",
        "getattr(learner, name)",
        "learner.__dict__",
        "class A:\n    def f(self, learner):\n        return learner._sums",
    ],
)
def test_looks__are_found(source):
    assert len(looks(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "self._sums, learner.sums, type(learner).__name__, getattr(learner, 'theta')",
        "class A:\n    def f(self):\n        self._a = 1\n\ndef g(a):\n    return a._a",
    ],
)
def test_looks__at_what_is_public_or_the_file_s_own_are_fine(source):
    assert looks(source) == []
