"""Assertions about errors: their class, code and details, not their wording."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from microcell.errors import CODES, MicrocellError


@contextmanager
def raises(
    error: type[MicrocellError], code: str, **details: Any
) -> Iterator[pytest.ExceptionInfo[MicrocellError]]:
    """Assert that the block raises this error with this code and (at least) these details."""
    assert code in CODES, f"{code} is not listed in microcell.errors.CODES"
    with pytest.raises(error) as caught:
        yield caught
    raised = caught.value
    assert raised.code == code, f"expected code {code}, got {raised.code}: {raised}"
    assert {name: raised.details.get(name) for name in details} == details
