"""How many small changes to the code the tests notice: `python -m benchmarks.mutants`.

A mutant is one function with one operator, comparison, constant or statement changed. Tests are
collected once; for each mutant a forked process replaces the function's code and runs the tests
that call it, fastest first, until one fails. Kernels run as plain Python, because a compiled kernel
would have to be compiled again for each mutant; tests that take long that way are left out, so the
score of kernels is a lower bound.
"""

import argparse
import ast
import copy
import importlib
import inspect
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

__all__ = ["AREAS", "Mutant", "list_mutants", "main"]

ROOT = Path(__file__).parent.parent
SLOWEST = 1.0
"""Seconds of processor time above which a test is left out."""
CASES = 25
"""Cases of one parametrized test that are used at most."""
BUDGET = 15.0
"""Seconds of processor time for the tests of one mutant, when all pass."""


@dataclass(frozen=True)
class Area:
    """Source files to change, and the tests to run."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    compiled: bool = True


AREAS = {
    "kernels": Area(
        ("src/microcell/kernels/[a-z]*.py",),
        (
            "tests/kernels",
            "tests/methods/test_against_oracles.py",
            "tests/methods/test_bounds.py",
            "tests/methods/test_equal_records.py",
            "tests/methods/test_participating.py",
            "tests/methods/test_pcl.py",
            "tests/methods/test_search.py",
            "tests/cells/test_balls.py",
            "tests/cells/test_lookup.py",
            "tests/release/test_enforce.py",
            "tests/surveys/test_participation_anonymity.py",
            "tests/surveys/test_participation_approximations.py",
        ),
        compiled=False,
    ),
    "prove": Area(
        ("src/microcell/release/prove.py", "src/microcell/release/enforce.py"),
        ("tests/release", "tests/test_api.py"),
    ),
    "auditing": Area(("src/microcell/auditing/*.py",), ("tests/auditing", "tests/test_api.py")),
}


@dataclass(frozen=True)
class Mutant:
    """One change to one function."""

    path: str
    function: str
    line: int
    number: int
    """Position among the possible changes to the function."""
    change: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.function}: {self.change} (no. {self.number})"


_COMPARE = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd, ast.RShift: ast.LShift,
}  # fmt: skip


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield descriptions of changed versions of a node, and the versions."""
    out: Any = copy.copy(node)
    match node:
        case ast.Compare(ops=[operator, *rest]) if type(operator) in _COMPARE:
            out.ops = [_COMPARE[type(operator)](), *rest]
            yield "comparison", out
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in _ARITHMETIC:
            out.op = _ARITHMETIC[type(operator)]()
            yield "arithmetic", out
        case ast.BoolOp(op=operator):
            out.op = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield "and or or", out
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield "sign or not", operand
        case ast.Constant(value=bool(value)):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield "constant", ast.Constant(value + 1)
        case ast.Break():
            yield "break", ast.Continue()
        case ast.Continue():
            yield "continue", ast.Break()
        case ast.If(test=test):
            out.test = ast.UnaryOp(ast.Not(), test)
            yield "condition", out
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield "deleted statement", ast.Pass()
        case ast.Assign(targets=[ast.Subscript()]):
            yield "deleted statement", ast.Pass()


class _Change(ast.NodeTransformer):
    """Apply the change with this number; without a number, list the changes."""

    def __init__(self, number: int = -1) -> None:
        self.number = number
        self.seen: list[tuple[int, str]] = []

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Visit a node and then its parts."""
        for what, changed in _changes(node):
            self.seen.append((getattr(node, "lineno", 0), what))
            if len(self.seen) - 1 == self.number:
                return ast.copy_location(changed, node)
        return super().generic_visit(node)

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        """Leave annotations and defaults as they are."""
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """Leave the wording of errors as it is."""
        return node


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef):
                    yield f"{node.name}.{part.name}", part


def _body(function: ast.FunctionDef, number: int = -1) -> tuple[ast.FunctionDef, _Change]:
    """Return a copy of the function with a change to its body, and what was changed."""
    out, change = copy.deepcopy(function), _Change(number)
    out.body = [change.visit(statement) for statement in out.body]
    return out, change


def list_mutants(sources: tuple[str, ...]) -> list[Mutant]:
    """Return all mutants of the files that match."""
    mutants = []
    for path in sorted(path for pattern in sources for path in ROOT.glob(pattern)):
        name = str(path.relative_to(ROOT))
        for function, node in _functions(ast.parse(path.read_text(encoding="utf-8"))):
            seen = _body(node)[1].seen
            mutants += [Mutant(name, function, *at) for at in _number(seen)]
    return mutants


def _number(seen: list[tuple[int, str]]) -> Iterator[tuple[int, int, str]]:
    for number, (line, what) in enumerate(seen):
        yield line, number, what


def sample_mutants(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """Choose mutants evenly over the files."""
    rng, by_file = random.Random(seed), defaultdict(list)
    for mutant in mutants:
        by_file[mutant.path].append(mutant)
    for some in by_file.values():
        rng.shuffle(some)
    chosen: list[Mutant] = []
    while len(chosen) < min(count, len(mutants)):
        for some in by_file.values():
            if some and len(chosen) < count:
                chosen.append(some.pop())
    return chosen


def compile_mutant(mutant: Mutant) -> CodeType:
    """Return the changed code of the function."""
    path = ROOT / mutant.path
    tree = ast.parse(path.read_text(encoding="utf-8"))
    node = dict(_functions(tree))[mutant.function]
    changed = _body(node, mutant.number)[0]
    changed.decorator_list = []
    code = compile(
        ast.fix_missing_locations(ast.Module([changed], [])), str(path), "exec", dont_inherit=True
    )
    return next(part for part in code.co_consts if isinstance(part, CodeType))


def _install(mutant: Mutant) -> None:
    """Replace the code of the function, whose other references are to the same object."""
    parts = Path(mutant.path).with_suffix("").parts[1:]
    owner: Any = importlib.import_module(".".join(parts).removesuffix(".__init__"))
    for name in mutant.function.split("."):
        owner = inspect.getattr_static(owner, name)
    owner = getattr(owner, "fget", getattr(owner, "func", owner))  # properties
    function = inspect.unwrap(getattr(owner, "__func__", owner))
    code = compile_mutant(mutant)
    function.__code__ = code.replace(co_qualname=mutant.function, co_name=function.__name__)


class Runner:
    """A pytest plugin that runs the collected tests once for each mutant."""

    def __init__(self, area: Area, mutants: list[Mutant], workers: int) -> None:
        self.area, self.mutants, self.workers = area, mutants, workers
        self.failed, self.outcome, self.limit = False, "", 0.0
        self.results: dict[Mutant, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure, and the outcome of the call itself."""
        self.failed |= report.failed
        if report.when == "call":
            self.outcome = report.outcome

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """Skip a test that takes longer than the limit, if there is one."""
        signal.setitimer(signal.ITIMER_PROF, self.limit)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run all tests unchanged, then those that concern each mutant."""
        items = {item.nodeid: item for item in session.items}
        status, text = _in_fork(lambda: json.dumps(self._measure(session)), None)
        if status:
            raise RuntimeError(text)
        tests = json.loads(text)
        print(f"{len(tests)} of {len(items)} tests are used", flush=True)

        def judge(mutant: Mutant) -> str:
            calling = sorted(
                (cost, name)
                for name, (cost, functions) in tests.items()
                if f"{mutant.path}:{mutant.function}" in functions
            )
            chosen, total = [], 0.0
            for cost, name in calling:
                total += cost
                if total > BUDGET and chosen:
                    break
                chosen.append(items[name])
            if not chosen:
                return "not called"
            status, text = _in_fork(lambda: self._try(mutant, chosen), 3 * BUDGET)
            if status in (-signal.SIGXCPU, -signal.SIGKILL):
                return "stopped"
            if status:
                raise RuntimeError(f"{mutant}: {text}")
            return f"killed by {text}" if text else "survived"

        with ThreadPoolExecutor(self.workers) as pool:
            for mutant, result in zip(self.mutants, pool.map(judge, self.mutants), strict=True):
                self.results[mutant] = result
                print(f"{mutant}: {result}", flush=True)
        return True

    def _run(self, item: pytest.Item, following: pytest.Item | None) -> bool:
        self.failed, self.outcome = False, ""
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return not self.failed

    def _try(self, mutant: Mutant, items: list[pytest.Item]) -> str:
        _install(mutant)
        for item, following in _with_next(items):
            if not self._run(item, following):
                return item.nodeid
        return ""

    def _measure(self, session: pytest.Session) -> dict[str, tuple[float, list[str]]]:
        """Return the time and the functions called of each test that passes in time."""
        files = {str(path) for pattern in self.area.sources for path in ROOT.glob(pattern)}
        called: set[CodeType] = set()

        def trace(frame: Any, *_: Any) -> None:
            if frame.f_code.co_filename in files:
                called.add(frame.f_code)

        signal.signal(signal.SIGPROF, lambda *_: pytest.skip("too slow"))
        self.limit = SLOWEST
        slow: Counter[str] = Counter()
        cases: Counter[str] = Counter()
        tests = {}
        for item, following in _with_next(session.items):
            family = item.nodeid.partition("[")[0]
            cases[family] += 1
            if slow[family] >= 2 or cases[family] > CASES:
                item.add_marker(pytest.mark.skip("slow"))
            called.clear()
            start = time.process_time()
            sys.settrace(trace)
            passed = self._run(item, following)
            sys.settrace(None)
            cost = time.process_time() - start
            if passed and self.outcome == "passed" and called:
                places = {
                    f"{Path(code.co_filename).relative_to(ROOT)}:{code.co_qualname}"
                    for code in called
                }
                tests[item.nodeid] = (cost, sorted(places))
            elif cost >= SLOWEST:
                slow[family] += 1
        return tests


def _with_next(items: list[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    return zip(items, [*items[1:], None], strict=True)


def _in_fork(task: Any, seconds: float | None) -> tuple[int, str]:
    """Run a task in a forked process; return its exit status and its result or traceback."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 3
        try:
            os.close(read)
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            if seconds is not None:
                resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
            with os.fdopen(write, "w") as out:
                try:
                    out.write(task())
                    status = 0
                except BaseException:  # noqa: BLE001  # it is passed on to the parent
                    out.write(traceback.format_exc())
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as result:
        text = result.read()
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), text


def _run_area(name: str, count: int, seed: int, workers: int) -> dict[str, str]:
    area = AREAS[name]
    runner = Runner(area, sample_mutants(list_mutants(area.sources), count, seed), workers)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:schemathesis"]
    options += ["-m", "not slow"]
    if not area.compiled:
        # Plain Python warns where integers wrap around, which kernels rely on.
        options += ["-W", "ignore::RuntimeWarning", "--ignore", "tests/kernels/test_shipping.py"]
    tests = [test for test in area.tests if (ROOT / test).exists()]
    pytest.main([*options, "-o", "addopts=--import-mode=importlib", *tests], plugins=[runner])
    return {str(mutant): result for mutant, result in runner.results.items()}


def main() -> None:
    """Run the mutants of each area and print the share that the tests notice."""
    parser = argparse.ArgumentParser(description=inspect.cleandoc(__doc__ or ""))
    parser.add_argument("--count", type=int, default=50, help="mutants per area")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--area", choices=AREAS, action="append", help="default: all")
    parser.add_argument("--save", type=Path, help="JSON file for the results")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.chdir(ROOT)
    results: dict[str, dict[str, str]] = {}
    for name in options.area or AREAS:
        if options.here:
            results[name] = _run_area(name, options.count, options.seed, options.workers)
        else:
            results[name] = _run_elsewhere(name, options)
        tally = Counter(result.partition(" by ")[0] for result in results[name].values())
        killed = tally["killed"] + tally["stopped"]
        print(f"{name}: {killed} of {len(results[name])} killed ({dict(tally)})", flush=True)
    if options.save:
        options.save.write_text(json.dumps(results, indent=1), encoding="utf-8")


def _run_elsewhere(name: str, options: argparse.Namespace) -> dict[str, str]:
    """Run an area in a separate process, in which kernels are compiled or not."""
    save = ROOT / "build" / f"mutants-{name}.json"
    save.parent.mkdir(exist_ok=True)
    settings = {"count": options.count, "seed": options.seed, "workers": options.workers}
    arguments = [f"--{key}={value}" for key, value in settings.items()]
    environment = os.environ | ({} if AREAS[name].compiled else {"NUMBA_DISABLE_JIT": "1"})
    command = [sys.executable, "-m", "benchmarks.mutants", "--here", f"--area={name}"]
    subprocess.run([*command, *arguments, f"--save={save}"], check=True, env=environment)
    result: dict[str, str] = json.loads(save.read_text(encoding="utf-8"))[name]
    return result


if __name__ == "__main__":
    main()
