"""Attacks run public code: what they read of a learner is what anybody can read."""

import ast
from pathlib import Path

import pytest

import discreet.audit

FOLDER = Path(discreet.audit.__file__).parent
FILES = sorted(FOLDER.rglob("*.py"))
OWN = ("self", "cls")


def private(name):
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def looks(source):
    """Private names of other objects and modules that the source reads, and ways around that."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id in OWN
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
def test_audit__reads_no_private_attribute_of_another_object(path):
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
    ],
)
def test_looks__are_found(source):
    assert len(looks(source)) == 1
    assert (
        looks("self._sums, learner.sums, type(learner).__name__, getattr(learner, 'theta')") == []
    )
