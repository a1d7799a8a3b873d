"""Candidates and one design for each kind of cells."""

import pytest

import microcell as mc
from tests.surveys.candidates import FAILURE, OPTIONS_BY_KIND, SCHEMA, K, make_people


@pytest.fixture(scope="session")
def people():
    return make_people()


@pytest.fixture(scope="session")
def designs(people):
    """Designs by kind of cells, for common and for uneven participation."""
    results = {}
    for kind, options in OPTIONS_BY_KIND.items():
        method = {} if kind == "boxes" else {"method": "mdav"}
        results[kind, "common"] = mc.surveys.design(
            people, SCHEMA, K, 0.7, FAILURE, **options, **method
        )
        results[kind, "uneven"] = mc.surveys.design(
            people, SCHEMA, K, "probability", FAILURE, **options
        )
    return results
