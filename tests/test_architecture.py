"""The arrows of the house: who may import whom, and where each third-party package lives."""

import ast
import re
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"
FILES = sorted(SOURCE.rglob("*.py"))

LAYERS = [
    {"errors", "progress", "staging", "requirements", "kernels"},
    {"model"},
    {"cells"},
    {"tables", "roles", "encoding", "partitioning", "aggregation", "auditing", "reporting", "inspection"}
    | {"configuration", "sample", "participation"},
    {"manifests", "groundwork", "enforcing"},
    {"sweeping", "engines"},
    {"pipeline", "allocating", "assigning", "drawing", "comparing", "planning", "exploring", "depending"}
    | {"sessions", "surveys", "locations"},
    {"estimator", "cli"},
    {"__main__"},
]
"""Ground, nouns, cells, stages, pipeline, faces. A room imports only from lower ones."""

NEIGHBOURS = {("staging", "errors"), ("kernels", "progress")}
"""Arrows inside the ground layer; stages have none between them."""

HOMES = {
    "numba": "microcell.kernels._jit",
    "narwhals": "microcell.tables",
    "polars": "microcell.tables",
    "pyreadstat": "microcell.tables",
    "fastexcel": "microcell.tables",
    "xlsxwriter": "microcell.tables",
    "jinja2": "microcell.reporting",
    "matplotlib": "microcell.reporting.figures",
    "typer": "microcell.cli",
    "rich": "microcell.cli",
    "sklearn": "microcell.estimator",
    "threadpoolctl": "microcell.auditing.learning",
    "scipy": "microcell.kernels",
    "pyarrow": "microcell.engines._arrow",
    "distributed": "microcell.engines._clusters",
    "dask": "microcell.engines._clusters",
    "sqlalchemy": "microcell.locations._store",
    "cryptography": "microcell.locations._vault",
    "fastapi": "microcell.locations.web",
    "starlette": "microcell.locations.web",
    "uvicorn": "microcell.locations.web",
    "pydantic": "microcell.locations.web",
    "prometheus_client": "microcell.locations._metrics",
    "httpx": "microcell.locations._client",
}
"""Each third-party package has one home; NumPy is at home everywhere."""

SECOND_HOMES = {"sklearn": "microcell.auditing.learning"}
"""A task is learned in the audit, where the extra is asked for."""

EXTRAS = {"pyreadstat", "sklearn", "threadpoolctl", "pyarrow", "distributed", "dask", "sqlalchemy", "cryptography"} | {
    *("fastapi", "starlette", "uvicorn", "pydantic", "prometheus_client", "httpx")
}
"""Optional packages, imported where they are used."""


def module_of(file):
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module):
    return module.split(".")[1] if "." in module else "microcell"


def level_of(room):
    return next(level for level, rooms in enumerate(LAYERS) if room in rooms)


def is_type_checking(node):
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports_of(file):
    """(imported module, line, inside a function) for each import that runs."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    skipped = {id(sub) for node in ast.walk(tree) if is_type_checking(node) for sub in ast.walk(node)}
    inside = {
        id(sub)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for sub in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, id(node) in inside
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno} imports relatively"
            names = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "microcell" else []
            for name in names or [node.module]:
                yield name, node.lineno, id(node) in inside


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_imports_point_downwards(file):
    room = room_of(module_of(file))
    for name, line, _ in imports_of(file):
        other = room_of(name)
        if not name.startswith("microcell") or other in {room, "microcell", "__version__"} or room == "microcell":
            continue
        downwards = level_of(other) < level_of(room)
        assert downwards or (room, other) in NEIGHBOURS, f"{file}:{line}: {room} may not import {other}"


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_imports_stand_at_the_top(file):
    for name, line, inside in imports_of(file):
        assert not inside or name.split(".")[0] in EXTRAS, f"{file}:{line}: {name} is imported inside a function"


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_each_package_has_one_home(file):
    module = module_of(file)
    for name, line, _ in imports_of(file):
        package = name.split(".")[0]
        if package in sys.stdlib_module_names or package in {"microcell", "numpy"}:
            continue
        home = HOMES.get(package)
        assert home, f"{file}:{line}: {package} has no home; give it one in HOMES or do without"
        at_home = module in {home, SECOND_HOMES.get(package)} or module.startswith(home + ".")
        assert at_home, f"{file}:{line}: {package} lives in {home}"


def test_no_room_is_unknown():
    rooms = {room_of(module_of(file)) for file in FILES} - {"microcell"}
    assert rooms <= set().union(*LAYERS)


def test_modules_do_not_import_in_rings():
    graph = {}
    for file in FILES:
        module = module_of(file)
        graph[module] = {name for name, _, _ in imports_of(file) if name.startswith("microcell.")}
    known = set(graph)
    edges = {
        module: {
            next((name for name in (target, target.rpartition(".")[0]) if name in known), None) for target in targets
        }
        - {None, module}
        for module, targets in graph.items()
    }
    done, path = set(), []

    def visit(module):
        assert module not in path, f"ring: {' -> '.join([*path[path.index(module) :], module])}"
        if module in done:
            return
        path.append(module)
        for target in sorted(edges[module]):
            visit(target)
        path.pop()
        done.add(module)

    for module in sorted(edges):
        visit(module)


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_sizes_stay_readable(file):
    """Files to 400 lines; functions to 60 lines of body, kernels to 80."""
    text = file.read_text(encoding="utf-8")
    assert text.count("\n") <= 400, f"{file} has more than 400 lines"
    limit = 80 if "kernels" in file.parts else 60
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0].end_lineno if ast.get_docstring(node) else node.lineno
            assert node.end_lineno - first <= limit, f"{file}:{node.lineno} {node.name} is too long"


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_modules_say_what_they_export(file):
    text = file.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text)), f"{file} has no docstring"
    if not file.name.startswith("__") or "import" in text:
        assert re.search(r"^__all__ = ", text, re.MULTILINE), f"{file} has no __all__"
