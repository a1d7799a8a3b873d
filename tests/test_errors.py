"""Error codes: every code that is raised is listed, and carried as documented."""

import ast
import pickle
from functools import cache
from pathlib import Path

import pytest

from microcell import errors
from microcell.errors import CODES, MicrocellError, SchemaError

SOURCE = Path(__file__).parent.parent / "src"


def error_classes():
    return [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, MicrocellError)
    ]


@cache
def parsed_sources():
    return [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in SOURCE.rglob("*.py")]


def texts_outside_the_catalogue():
    """Text literals of the package, except for the list of codes and the class defaults."""
    return {
        node.value
        for path, tree in parsed_sources()
        if path != Path(errors.__file__)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def errors_without_code():
    names = {error.__name__ for error in error_classes()}
    for path, tree in parsed_sources():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in names
                and "code" not in [keyword.arg for keyword in node.keywords]
            ):
                yield f"{path.relative_to(SOURCE)}:{node.lineno}"


def codes_in_source():
    for _, tree in parsed_sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "code":
                for sub in ast.walk(node.value):
                    if isinstance(sub, ast.Constant) and isinstance(sub.value, str):
                        yield sub.value


@pytest.mark.parametrize("error", error_classes())
def test_every_class_has_a_listed_default_code(error):
    assert error("what is wrong").code in CODES


def test_codes_raised_in_the_source_are_listed():
    assert {code for code in codes_in_source() if "." in code} <= set(CODES)


def test_listed_codes_are_used():
    defaults = {error.default_code for error in error_classes()}
    assert set(CODES) - texts_outside_the_catalogue() - defaults == set()


def test_every_error_has_an_explicit_code():
    assert list(errors_without_code()) == []


def test_details_and_code_survive_pickling():
    error = SchemaError("no such column", code="schema.unknown_column", column="age")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.code, again.details) == (str(error), error.code, error.details)
