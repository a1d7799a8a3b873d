"""Error codes: every code that is raised is listed, and carried as documented."""

import ast
import pickle
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


def codes_in_source():
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "code":
                for sub in ast.walk(node.value):
                    if isinstance(sub, ast.Constant) and isinstance(sub.value, str):
                        yield sub.value


@pytest.mark.parametrize("error", error_classes())
def test_every_class_has_a_listed_default_code(error):
    assert error("what is wrong").code in CODES


def test_codes_raised_in_the_source_are_listed():
    assert {code for code in codes_in_source() if "." in code} <= set(CODES)


def test_details_and_code_survive_pickling():
    error = SchemaError("no such column", code="schema.unknown_column", column="age")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.code, again.details) == (str(error), error.code, error.details)
