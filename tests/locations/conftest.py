"""Shared fixtures of the location anonymizer tests."""

import pytest

pytest.importorskip("sqlalchemy", reason="the extra locations is not installed")
pytest.importorskip("cryptography", reason="the extra locations is not installed")

from tests.locations.databases import new_database, postgresql  # noqa: F401
