"""Who may import whom, and where each third-party package lives."""

import ast
import sys
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"

LAYERS = [
    {"_display", "errors", "progress", "kernels"},
    {"_atomic", "_extras", "_files", "_server"},
    {"hierarchies"},
    {"kinds"},
    {"model"},
    {"_validation"},
    {"measures", "cells"},
    {"findings"},
    {"tables", "schema", "encoding", "methods", "auditing", "report", "sample"},
    {"release"},
    {"sweeps", "allocation", "assignment", "dask", "surveys", "increments", "api", "plot"},
    {"locations", "sklearn"},
    {"studio"},
    {"cli"},
    {"__main__"},
]
"""Packages and modules, lowest first. Each imports from lower layers and from its own package."""

SAME_LAYER = {
    ("kernels", "progress"),
    ("encoding", "tables"),
    ("api", "dask"),
    ("plot", "allocation"),
    ("plot", "surveys"),
}
"""Allowed imports within a layer."""

HOMES = {
    "numba": ("kernels._jit", "kernels._cache", "kernels._build"),
    "llvmlite": ("kernels._jit", "kernels._cache"),
    "narwhals": ("tables",),
    "pandas": ("_display",),
    "polars": ("tables", "_display"),
    "pyreadstat": ("tables",),
    "fastexcel": ("tables",),
    "xlsxwriter": ("tables",),
    "jinja2": ("report", "surveys.forms", "studio.pages"),
    "matplotlib": ("report",),
    "fpdf": ("report.certificate",),
    "typer": ("cli",),
    "rich": ("cli",),
    "sklearn": ("sklearn", "measures.learning"),
    "threadpoolctl": ("measures.learning",),
    "scipy": ("kernels", "measures.superpopulation"),
    "pyarrow": ("dask.arrow",),
    "distributed": ("dask.cluster",),
    "dask": ("dask.cluster",),
    "sqlalchemy": ("locations.store",),
    "cryptography": ("locations.vault",),
    "fastapi": ("locations.web", "studio"),
    "starlette": ("locations.web", "studio"),
    "uvicorn": ("_server",),
    "pydantic": ("model.manifest", "schema.files", "locations.web", "studio"),
    "tomlkit": ("schema.files",),
    "prometheus_client": ("locations.web",),
    "httpx": ("locations.client",),
}
"""The modules that may import each third-party package; NumPy may be imported anywhere."""

DEFERRED = {"narwhals"}
"""Packages that load slowly and are needed for data frames only."""

EXTRAS = {
    "pandas",
    "polars",
    "pyreadstat",
    "sklearn",
    "threadpoolctl",
    "pyarrow",
    "distributed",
    "dask",
} | {
    *("sqlalchemy", "cryptography", "fastapi", "starlette", "uvicorn", "prometheus_client", "httpx")
}
"""Packages of optional extras, imported inside the functions that need them."""


@cache
def source_files():
    return {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def module_name(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def top_level(module):
    return module.split(".")[1] if "." in module else "microcell"


def layer_of(name):
    return next(level for level, names in enumerate(LAYERS) if name in names)


@cache
def parsed(module):
    return ast.parse(source_files()[module].read_text(encoding="utf-8"))


def is_type_checking(node):
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )


STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)
"""Nodes that may contain an import."""


def import_statements(node, *, inside=False):
    """Yield the imports below a node that run, and whether they are inside a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child, inside
        elif isinstance(child, STATEMENTS) and not is_type_checking(child):
            function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
            yield from import_statements(child, inside=inside or function)


@cache
def imports_of(module):
    """(imported module, line, inside a function) of each import that runs."""
    imports = []
    for node, inside in import_statements(parsed(module)):
        if isinstance(node, ast.Import):
            imports += [(alias.name, node.lineno, inside) for alias in node.names]
            continue
        assert node.level == 0, f"{module}:{node.lineno} has a relative import"
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            name = full if full in source_files() else node.module
            imports.append((name, node.lineno, inside))
    return imports


def test_imports_point_downwards():
    upwards = []
    for module in source_files():
        here = top_level(module)
        if here == "microcell":
            continue
        for name, line, _ in imports_of(module):
            there = top_level(name)
            if not name.startswith("microcell.") or there == here:
                continue
            if layer_of(there) >= layer_of(here) and (here, there) not in SAME_LAYER:
                upwards.append(f"{module}:{line} imports {name}")
    assert upwards == []


def test_imports_are_at_the_top_of_modules():
    inside = [
        f"{module}:{line} imports {name}"
        for module in source_files()
        for name, line, in_function in imports_of(module)
        if in_function and name.split(".")[0] not in {*EXTRAS, *DEFERRED}
    ]
    assert inside == []


def test_third_party_packages_have_one_home():
    astray = []
    for module in source_files():
        for name, line, _ in imports_of(module):
            package = name.split(".")[0]
            if package in sys.stdlib_module_names or package in {"microcell", "numpy"}:
                continue
            homes = [f"microcell.{home}" for home in HOMES.get(package, ())]
            if not any(module == home or module.startswith(f"{home}.") for home in homes):
                astray.append(f"{module}:{line} imports {package}")
    assert astray == []


def test_every_package_has_a_layer():
    names = {top_level(module) for module in source_files()} - {"microcell"}
    assert names <= set().union(*LAYERS)


def test_there_is_no_import_cycle():
    done, path = set(), []

    def visit(module):
        assert module not in path, f"cycle: {' -> '.join([*path[path.index(module) :], module])}"
        if module in done:
            return
        path.append(module)
        for target in sorted({name for name, _, _ in imports_of(module)} & set(source_files())):
            if target not in {module, "microcell"}:
                visit(target)
        path.pop()
        done.add(module)

    for module in source_files():
        visit(module)


def test_functions_stay_short():
    """At most 60 lines of body, 80 in kernels."""
    long = []
    for module in source_files():
        limit = 80 if ".kernels." in module else 60
        for node in ast.walk(parsed(module)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                start = node.body[0].end_lineno if ast.get_docstring(node) else node.lineno
                if node.end_lineno - start > limit:
                    long.append(
                        f"{module}:{node.lineno} {node.name}: {node.end_lineno - start} lines"
                    )
    assert long == []


def test_modules_have_a_docstring_and_list_their_exports():
    for module, path in source_files().items():
        tree = parsed(module)
        assert ast.get_docstring(tree), f"{module} has no docstring"
        exports = [node for node in tree.body if isinstance(node, ast.Assign)]
        names = [
            target.id for node in exports for target in node.targets if isinstance(target, ast.Name)
        ]
        if len(tree.body) > 1 and path.name != "__main__.py":
            assert "__all__" in names, f"{module} has no __all__"
