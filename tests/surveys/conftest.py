"""Candidates, and designs of every kind of cells."""

import pytest

import microcell as mc
from tests.surveys.candidates import FAILURE, SCHEMA, WAYS, K, make_people


@pytest.fixture(scope="session")
def people():
    return make_people()


@pytest.fixture(scope="session")
def designs(people):
    """A design for each kind of cells, and for a common and an uneven participation."""
    made = {}
    for kind, options in WAYS.items():
        how = {} if kind == "boxes" else {"method": "mdav"}
        made[kind, "common"] = mc.surveys.design_survey(
            people, SCHEMA, K, 0.7, FAILURE, **options, **how
        )
        made[kind, "uneven"] = mc.surveys.design_survey(
            people, SCHEMA, K, "chance", FAILURE, **options
        )
    return made
