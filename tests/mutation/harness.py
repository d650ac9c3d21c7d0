"""Mutants by the hundred: privacy-critical lines are broken one by one, and tests must notice.

    python tests/mutation/harness.py                 all that are chosen; 1 if over 5% live on
    python tests/mutation/harness.py ledger --all    every mutant of files with this in their name
    python tests/mutation/harness.py --by-hand       those of by_hand.txt alone

A mutant is one change of one line that a promise depends on (`CRITICAL`):

    halved, doubled   a number that is named sensitivity, scale, mu, epsilon, a bound, ...
    off by one        < and <=, > and >=; a whole number and its neighbour
    swapped           + and -, * and /, min and max, and and or, is and ==
    dropped           a check that raises, or a call whose value nobody takes
    early return      of a function that returns nothing
    by hand           what by_hand.txt says: a clip left out, one norm for another, an id without
                      its key, noise before a check and after

The tests are collected once, and run once with nothing broken, to learn which calls which function
and how long it takes. Then each mutant has a process of its own (fork), in which the code of one
function is put in place of its own, wherever it is held, and meets the tests that call this
function, the fastest first, up to the first failure. In survivors.txt stand those that change
nothing that is promised, with the reason, which are not counted; and "open" ones, which lower the
share that is printed and do not change the exit status.
"""

import argparse
import ast
import contextlib
import copy
import gc
import importlib
import itertools
import os
import pickle
import random
import re
import signal
import sys
import tempfile
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "discreet"
SURVIVORS = Path(__file__).with_name("survivors.txt")
BY_HAND = Path(__file__).with_name("by_hand.txt")
LEAST = 0.95  # of the mutants are to be caught
TOGETHER = 4.0  # seconds of CPU, of the tests that a mutant meets, with nothing broken
OPEN = "open: "  # what the reason begins with of one that ought to be caught and is not yet
SECONDS = 20  # of CPU; a mutant that hangs is caught
PATIENCE = 120  # seconds by the clock, for one that waits
SEED = 36  # of the choice, where a file has more mutants than are taken

CRITICAL = re.compile(
    r"sensitiv|scale|std\b|\bmu\b|\brho\b|epsilon|delta|\bbound|clip|moved|share|spend|budget"
    r"|contribution|publish|claim|commit|norm\b|limit|horizon|admit|seen|window\b|mark|owner|kept"
    r"|honest|minimum|generation|expires|deadline|counted|radius|likely|levels|squares|within"
)
NUMBERS = re.compile(
    r"^_?(sensitivity|scale|std|mu|rho|epsilon|delta|\w*bound|clip|moved|share|unit|radius|moves"
    r"|contributions|spacing|squares|levels|kappa|cost|\w*fraction|likely|reach|limit)$"
)

# file: (how many of its mutants, tests, nearest first)
TARGETS: dict[str, tuple[int, str]] = {
    "privacy/people.py": (5, "privacy/test_budget.py"),
    "privacy/gaussian.py": (14, "privacy/test_gaussian.py privacy/test_ledger.py"),
    "privacy/release.py": (
        15,
        "privacy/test_release.py privacy/test_ledger.py privacy/test_budget.py",
    ),
    "privacy/ledger.py": (
        24,
        "regression/test_ledger.py privacy/test_ledger.py privacy/test_all_or_nothing.py",
    ),
    "privacy/guarantee.py": (6, "privacy/test_ledger.py privacy/test_budget.py"),
    "privacy/mechanisms.py": (
        16,
        "privacy/test_calibration.py privacy/test_mechanisms.py privacy/test_lattice.py",
    ),
    "privacy/accumulator.py": (14, "privacy/test_accumulator.py privacy/test_lattice.py"),
    "privacy/prefix.py": (
        20,
        "privacy/test_calibration.py privacy/test_prefix.py privacy/test_tree.py",
    ),
    "privacy/tree.py": (16, "privacy/test_tree.py privacy/test_prefix.py"),
    "privacy/toeplitz.py": (14, "privacy/test_toeplitz.py privacy/test_prefix.py"),
    "privacy/channels.py": (
        16,
        "privacy/test_calibration.py privacy/test_local.py privacy/test_interval.py",
    ),
    "privacy/sphere.py": (12, "privacy/test_local.py privacy/test_portable.py"),
    "privacy/shuffle.py": (16, "privacy/test_shuffle.py local/test_shuffled.py"),
    "privacy/noise.py": (10, "privacy/test_noise.py privacy/test_lattice.py"),
    "state/claims.py": (10, "test_state.py contract/test_live.py"),
    "state/live.py": (12, "test_state.py contract/test_live.py"),
    "state/files.py": (10, "test_state.py contract/test_saved.py"),
    "local/device.py": (16, "local/test_limits.py local/test_device.py local/test_shuffled.py"),
    "local/questions.py": (8, "local/test_device.py local/test_vectors.py"),
    "local/server.py": (14, "local/test_limits.py local/test_device.py local/test_shuffled.py"),
    "local/report.py": (8, "local/test_limits.py local/test_device.py local/test_shuffled.py"),
    "bandits/release.py": (24, "bandits/test_window.py bandits/test_linear.py"),
    "bandits/window.py": (14, "bandits/test_window.py bandits/test_linear.py"),
    "bandits/visitors.py": (10, "bandits/test_people.py"),
    "bandits/holdout.py": (6, "bandits/test_value.py"),
    "bandits/learner.py": (
        10,
        "bandits/test_learner.py bandits/test_linear.py bandits/test_baselines.py",
    ),
    "bandits/edge.py": (6, "bandits/test_learner.py bandits/test_linear.py contract/test_edges.py"),
    "bandits/descent.py": (8, "bandits/test_linear.py bandits/test_window.py"),
    "regression/steps.py": (10, "regression/test_steps.py regression/test_central.py"),
    "regression/central.py": (10, "regression/test_central.py"),
    "regression/dispersion.py": (8, "regression/test_counts.py"),
    "regression/held_out.py": (8, "regression/test_worst_rows.py regression/test_held_out.py"),
    "regression/information.py": (8, "regression/test_information.py"),
    "regression/counts.py": (6, "regression/test_counts.py"),
    "regression/search.py": (8, "regression/test_search.py"),
    "regression/newton.py": (
        8,
        "regression/test_worst_rows.py regression/test_newton.py regression/test_glm.py",
    ),
    "regression/shape.py": (
        10,
        "regression/test_worst_rows.py regression/test_steps.py regression/test_central.py",
    ),
    "regression/sample.py": (8, "regression/test_sample.py"),
    "regression/reweighted.py": (6, "regression/test_linear.py"),
    "regression/descent.py": (6, "regression/test_worst_rows.py regression/test_linear.py"),
    "regression/local.py": (6, "regression/test_local.py"),
    "regression/local_server.py": (8, "regression/test_local.py"),
    "regression/glm_erm.py": (8, "regression/test_glm.py"),
    "regression/glm_sgd.py": (6, "regression/test_worst_rows.py regression/test_glm.py"),
    "regression/baselines.py": (6, "regression/test_linear.py regression/test_ledger.py"),
    "online/leader.py": (8, "online/test_batches.py online/test_ftrl.py online/test_ftpl.py"),
    "online/feedback.py": (
        12,
        "online/test_batches.py online/test_adversarial.py online/test_projection_free.py",
    ),
    "online/doubling.py": (6, "online/test_doubling.py"),
    "online/adversarial.py": (8, "online/test_batches.py online/test_adversarial.py"),
    "online/barrier.py": (8, "online/test_barrier.py"),
    "online/projection_free.py": (10, "online/test_batches.py online/test_projection_free.py"),
    "online/ftrl.py": (4, "online/test_ftrl.py"),
    "online/ftpl.py": (4, "online/test_ftpl.py"),
    "online/reduction.py": (
        6,
        "online/test_batches.py online/test_reduction.py online/test_adversarial.py",
    ),
    "optimization/windows.py": (8, "optimization/test_windows.py"),
    "optimization/directions.py": (8, "optimization/test_choices.py"),
    "optimization/frank_wolfe.py": (8, "optimization/test_frank_wolfe.py"),
    "optimization/problem.py": (6, "optimization/test_frank_wolfe.py"),
    "optimization/sparse_windows.py": (10, "optimization/test_windows.py bandits/test_sparse.py"),
    "evaluation/abtest.py": (10, "evaluation/test_abtest.py"),
    "evaluation/looks.py": (8, "evaluation/test_abtest.py"),
    "evaluation/totals.py": (8, "evaluation/test_abtest.py"),
    "evaluation/off_policy.py": (6, "evaluation/test_worst_rows.py evaluation/test_off_policy.py"),
    "audit/bounds.py": (10, "audit/test_bounds.py"),
    "audit/counted.py": (10, "audit/test_bounds.py"),
    "service/fence.py": (10, "service/test_fence.py"),
    "service/budgets.py": (10, "service/test_shares.py service/test_people_and_leases.py"),
    "service/restoring.py": (8, "service/test_rollback.py"),
    "service/tokens.py": (5, "service/test_tokens.py"),
    "service/vault.py": (5, "service/test_vault.py"),
    # By hand alone:
    "local/state.py": (0, "local/test_device.py local/test_shuffled.py"),
    "local/record.py": (0, "local/test_device.py"),
    "bandits/linear.py": (0, "bandits/test_people.py bandits/test_linear.py test_state.py"),
    "links.py": (0, "test_links.py regression/test_glm.py"),
    "least_squares/clipping.py": (0, "bandits/test_window.py regression/test_steps.py"),
    "regression/base.py": (0, "regression/test_sparse.py regression/test_ledger.py"),
    "regression/rows.py": (0, "regression/test_sparse.py"),
    "regression/sketch.py": (0, "regression/test_worst_rows.py regression/test_steps.py"),
    "regression/scores.py": (0, "regression/test_newton.py regression/test_logistic.py"),
    "regression/logistic.py": (0, "regression/test_logistic.py"),
    "service/keys.py": (0, "service/test_scopes.py service/test_api.py"),
    "service/shares.py": (0, "service/test_shares.py"),
    "service/learning.py": (
        0,
        "service/test_api.py service/test_people_and_leases.py service/test_learnt.py",
    ),
    "service/counted.py": (0, "service/test_people_and_leases.py service/test_what_remains.py"),
    "service/leasing.py": (0, "service/test_leases.py service/test_people_and_leases.py"),
    "service/deciding.py": (0, "service/test_api.py service/test_strangers.py"),
    "service/reports.py": (0, "service/test_reports.py service/test_batches.py"),
    "service/relay/batches.py": (0, "service/test_relay.py"),
    "service/relay/store.py": (0, "service/test_relay.py"),
    "service/server.py": (
        0,
        "service/test_fence.py service/test_rollback.py service/test_witness.py",
    ),
    "service/tenant.py": (
        0,
        "service/test_api.py service/test_horizon.py service/test_rollback.py",
    ),
}
# Whether a public learner shows a move, moves as far as it says, or does something twice.
WIDE = [f"tests/contract/test_{each}.py" for each in ("planted", "worst", "windows_and_rows",
                                                      "caller_code")]  # fmt: skip
QUIET = ["-q", "-p", "no:cacheprovider", "--no-header", "--no-summary"]


@dataclass(frozen=True)
class Mutant:
    """One broken line."""

    file: str  # below src/discreet
    line: int
    function: str  # its qualified name
    kind: str  # of the change
    before: str  # the line, stripped
    after: str  # the statement, as it became

    @property
    def name(self) -> str:
        """The same whatever line it moves to."""
        return f"{self.file} {self.function}: {self.kind}: {self.before} => {self.after}"


Function = ast.FunctionDef | ast.AsyncFunctionDef
_OTHER = {"min": "max", "max": "min"}
Change = tuple[str, Callable[[ast.AST], None]]
SWAPS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.IsNot: ast.NotEq, ast.Is: ast.Eq, ast.Eq: ast.NotEq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def _times(node: ast.expr, factor: float) -> ast.expr:
    return ast.BinOp(node, ast.Mult(), ast.Constant(factor))


def changes(node: ast.AST) -> Iterator[Change]:
    """What can be done to one node of a function; each changes it in place."""

    def scaled(field: str, factor: float) -> Callable[[ast.AST], None]:
        return lambda n: setattr(n, field, _times(getattr(n, field), factor))

    named = (
        (isinstance(node, ast.keyword) and node.arg)
        or (isinstance(node, ast.Assign) and _name(node.targets[0]))
        or (isinstance(node, ast.AnnAssign) and node.value is not None and _name(node.target))
    )
    if named and NUMBERS.match(named) and not isinstance(node.value, ast.Lambda):
        plain = isinstance(node.value, ast.Name) and node.value.id == named
        if not plain or isinstance(node, ast.keyword):
            yield "halved", scaled("value", 0.5)
            yield "doubled", scaled("value", 2.0)
    same = isinstance(node, ast.Compare) and ast.unparse(node).replace("type(", "None").count(
        "None"
    )
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS and not same:
        kind = (
            "off by one"
            if isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE))
            else "swapped"
        )
        yield kind, lambda n: n.ops.__setitem__(0, SWAPS[type(n.ops[0])]())
    if isinstance(node, (ast.BinOp, ast.BoolOp)) and type(node.op) in SWAPS:
        yield "swapped", lambda n: setattr(n, "op", SWAPS[type(n.op)]())
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _OTHER:
        yield "swapped", lambda n: setattr(n.func, "id", _OTHER[n.func.id])
    if isinstance(node, ast.Constant) and type(node.value) is int and 0 < node.value < 10:
        yield "off by one", lambda n: setattr(n, "value", n.value + 1)
    if isinstance(node, ast.If) and any(isinstance(each, ast.Raise) for each in node.body):
        yield "dropped", lambda n: setattr(n, "test", ast.Constant(False))
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "dropped", lambda n: setattr(n, "value", ast.Constant(None))


def _name(node: ast.AST) -> str:
    return (
        node.id
        if isinstance(node, ast.Name)
        else node.attr
        if isinstance(node, ast.Attribute)
        else ""
    )


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")


def _statement(function: Function, node: ast.AST) -> str:
    """The statement or argument around this node as it is written now, in one line."""
    found = [
        n for n in ast.walk(function)
        if isinstance(n, (ast.stmt, ast.keyword)) and any(each is node for each in ast.walk(n))
    ]  # fmt: skip
    least = min(found, key=lambda n: (n.end_lineno or 0) - n.lineno)
    if isinstance(least, (ast.If, ast.While, ast.For, ast.With, Function)):
        least = copy.copy(least)
        least.body = [ast.Pass()]
        if hasattr(least, "orelse"):
            least.orelse = []
    return " ".join(ast.unparse(least).split())[:160]


def places(file: str) -> list[tuple[int, int, int]]:
    """Where a file can be broken: (function, node in it, change of the node); -1 returns early."""
    text = (SOURCE / file).read_text(encoding="utf-8")
    lines = text.splitlines()
    found = list[tuple[int, int, int]]()
    for at, (_, function) in enumerate(_functions(ast.parse(text))):
        if function.name in ("__repr__", "__str__", "_repr_html_"):
            continue
        nodes = list(ast.walk(function))
        # Words of an error; what a signature says, which a function's code does not hold.
        said = [function.args, *(n for n in nodes if isinstance(n, ast.Raise))]
        quiet = {id(x) for n in said for x in ast.walk(n)}
        for place, node in enumerate(nodes):
            line = getattr(node, "lineno", 0)
            if id(node) not in quiet and line and CRITICAL.search(lines[line - 1]):
                found += [(at, place, number) for number, _ in enumerate(changes(node))]
        returns = any(isinstance(n, (ast.Return, ast.Yield)) for n in nodes)
        if not returns and function.name != "__init__" and len(_body(function)) > 1:
            found.append((at, -1, 0))
    return found


def made(file: str, at: int, place: int, number: int) -> tuple[Mutant, ast.Module]:
    """One mutant, and the whole module as it becomes."""
    text = (SOURCE / file).read_text(encoding="utf-8")
    tree = ast.parse(text)
    name, function = list(_functions(tree))[at]
    if place < 0:
        first = _body(function)[0]
        kind, line = "early return", first.lineno
        function.body.insert(function.body.index(first), ast.Return(None))
        after = "return"
    else:
        node = list(ast.walk(function))[place]
        line = getattr(node, "lineno", 0)
        kind, change = list(changes(node))[number]
        change(node)
        ast.fix_missing_locations(tree)
        after = _statement(function, node)
    ast.fix_missing_locations(tree)
    return Mutant(file, line, name, kind, text.splitlines()[line - 1].strip(), after), tree


def by_hand(part: str) -> Iterator[tuple[Mutant, ast.Module]]:
    """Those of one file that are written down; each text must occur once in its function."""
    for line in BY_HAND.read_text(encoding="utf-8").splitlines():
        where, _, change = line.partition(" :: ")
        file, _, name = where.partition(" ")
        if file != part:
            continue
        old, new = (each.replace("\\n", "\n") for each in change.split(" => "))
        text = (SOURCE / file).read_text(encoding="utf-8")
        function = dict(_functions(ast.parse(text)))[name]
        lines = text.splitlines(keepends=True)
        first, last = function.lineno - 1, function.end_lineno
        own = "".join(lines[first:last])
        if own.count(old) != 1:
            raise LookupError(f"{where} holds {old!r} {own.count(old)} times; rewrite the mutant")
        at = first + own[: own.index(old)].count("\n")
        broken = "".join([*lines[:first], own.replace(old, new), *lines[last:]])
        shown = (" ".join(each.split()) for each in (old, new))
        yield Mutant(file, at + 1, name, "by hand", *shown), ast.parse(broken)


def _body(function: Function) -> list[ast.stmt]:
    return function.body[1:] if ast.get_docstring(function) else function.body


def plant(mutant: Mutant, tree: ast.Module) -> bool:
    """Put the code of the broken function in place, in this process; whether it was found."""
    compiled = compile(tree, str(SOURCE / mutant.file), "exec")
    todo = [compiled]
    broken = None
    while todo:
        code = todo.pop()
        if code.co_qualname == mutant.function:
            broken = code
        todo += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    path = str(SOURCE / mutant.file)
    found = False
    gc.unfreeze()  # what somebody froze is not listed
    for each in gc.get_objects():
        if isinstance(each, types.FunctionType):
            code = each.__code__
            if code.co_qualname == mutant.function and code.co_filename == path:
                assert broken is not None
                with contextlib.suppress(ValueError):  # other free variables: another closure
                    each.__code__ = broken
                    found = True
    return found


def apart(work: Callable[[], int]) -> int:
    """The status of work in a process of its own; negative if a signal ended it."""
    child = os.fork()
    if child == 0:
        status = 97
        try:
            log = os.environ.get("MUTANTS_LOG", os.devnull)
            null = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(null, 1)
            os.dup2(null, 2)
            status = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def nearest(file: str) -> list[str]:
    """The tests of a file: its own examples, then those that are named for it."""
    return [str(SOURCE / file), *(f"tests/{each}" for each in TARGETS[file][1].split())]


class Driver:
    """Collects once; then learns which test calls which function, and breaks these one by one."""

    def __init__(self, parts: list[str], every: bool | None, kept: Path) -> None:
        self.parts, self.every, self.kept = parts, every, kept
        self.counts = dict.fromkeys(("caught", "survived", "listed", "equivalent"), 0)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of pytest's own."""
        if apart(lambda: self.learn(session)) != 0:
            raise RuntimeError("the tests with nothing broken did not come to an end")
        calls, took, failed = pickle.loads(self.kept.read_bytes())
        for each in sorted(failed):
            print(f"NO USE, fails with nothing broken: {each}", flush=True)
        known = listed_survivors()
        for mutant, tree in chosen(self.parts, self.every):
            begun = time.monotonic()
            listed = known.get(mutant.name, "")
            if listed and not listed.startswith(OPEN):
                self.counts["equivalent"] += 1
                continue
            able = calls.get((str(SOURCE / mutant.file), mutant.function), set()) - failed
            tests = self.cheapest(session.items, able, took)
            verdict = self.tried(session, mutant, tree, tests)
            if listed:
                verdict = "listed" if verdict == "survived" else f"{verdict}, take it off the list"
            self.counts[verdict] = self.counts.get(verdict, 0) + 1
            if verdict != "caught":
                print(f"{verdict.upper()} {mutant.name}", flush=True)
            spent = f"{len(tests)} of {len(able)} tests, {time.monotonic() - begun:.1f} s"
            print(f"  {mutant.file}:{mutant.line} {mutant.kind} {verdict}: {spent}", flush=True)
        return True

    def learn(self, session: pytest.Session) -> int:
        """Run all tests with nothing broken, and keep what each calls and takes."""
        source, calls, took = str(SOURCE), dict[tuple[str, str], set[str]](), dict[str, float]()
        failed = set[str]()
        now = [""]

        def called(frame: types.FrameType, event: str, _: object) -> None:
            code = frame.f_code
            if event == "call" and code.co_filename.startswith(source):
                calls.setdefault((code.co_filename, code.co_qualname), set()).add(now[0])

        for item, following in itertools.zip_longest(session.items, session.items[1:]):
            now[0], before, begun = item.nodeid, session.testsfailed, time.process_time()
            threading.setprofile(called)
            sys.setprofile(called)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            sys.setprofile(None)
            took[item.nodeid] = time.process_time() - begun
            if session.testsfailed > before:
                failed.add(item.nodeid)
        threading.setprofile(None)
        self.kept.write_bytes(pickle.dumps((calls, took, failed)))
        return 0

    @staticmethod
    def cheapest(
        items: list[pytest.Item], able: set[str], took: dict[str, float]
    ) -> list[pytest.Item]:
        """Of the tests that call a function, those that together take TOGETHER at most."""
        tests, total = list[pytest.Item](), 0.0
        for item in sorted(
            (each for each in items if each.nodeid in able), key=lambda e: took[e.nodeid]
        ):
            total += took[item.nodeid]
            if total > TOGETHER:
                break
            tests.append(item)
        return tests

    @staticmethod
    def tried(
        session: pytest.Session, mutant: Mutant, tree: ast.Module, tests: list[pytest.Item]
    ) -> str:
        """ "caught", "survived", or what went wrong."""

        def work() -> int:
            if not plant(mutant, tree):
                return 98
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            signal.alarm(PATIENCE)
            for item, following in itertools.zip_longest(tests, tests[1:]):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    return 1
            return 0

        status = apart(work)
        hangs = (-signal.SIGPROF, -signal.SIGALRM)
        if status in (1, -signal.SIGABRT, *hangs):
            return "caught"
        return {0: "survived", 98: "not planted"}.get(status, f"status {status}")


def concerns(parts: list[str], file: str) -> bool:
    """Whether a file is one of those that are asked for."""
    return any(part in file for part in parts)


def chosen(parts: list[str], every: bool | None) -> Iterator[tuple[Mutant, ast.Module]]:
    """Those of a run: by hand, and so many of each file, spread over its functions, in turns."""
    for file in TARGETS:
        if concerns(parts, file):
            yield from by_hand(file)
    if every is None:
        return
    waiting = {}
    for file, (most, _) in TARGETS.items():
        if concerns(parts, file):
            found = places(file)
            random.Random(SEED).shuffle(found)
            waiting[file] = found if every else found[:most]
    while any(waiting.values()):
        for file, left in waiting.items():
            if left:
                yield made(file, *left.pop(0))


def listed_survivors() -> dict[str, str]:
    """Mutants that break no promise, and why; those that no test notices yet: why begins "open"."""
    known = {}
    for line in SURVIVORS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, reason = line.partition(" :: ")
            known[name] = reason
    return known


def main() -> int:
    """Break them one by one; 1 if more than 5% survive that are not listed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=[""], help="of names of files")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--by-hand", action="store_true")
    options = parser.parse_args()
    os.chdir(ROOT)
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for file in TARGETS:  # loaded once, for all children
        importlib.import_module("discreet." + file.removesuffix(".py").replace("/", "."))
    files = [path for file in TARGETS if concerns(options.parts, file) for path in nearest(file)]
    with tempfile.TemporaryDirectory() as scratch:
        driver = Driver(
            options.parts, None if options.by_hand else options.all, Path(scratch) / "learnt"
        )
        quiet = [*QUIET, "-s", f"--basetemp={scratch}/tests", *dict.fromkeys([*files, *WIDE])]
        if (status := pytest.main(quiet, plugins=[driver])) not in (0, 5):
            return int(status)
    counts = driver.counts
    fresh = counts["caught"] + counts["survived"]
    print(counts, f"{counts['caught'] / max(fresh + counts['listed'], 1):.1%} caught", flush=True)
    return int(counts["caught"] < LEAST * fresh)


if __name__ == "__main__":
    sys.exit(main())
