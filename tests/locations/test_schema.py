"""The service conforms to its OpenAPI description for arbitrary requests."""

import json

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import ignored_auth

from tests.locations.serving import OPERATOR, asking, bearer, make_app, open_anonymizer, scatter

ANONYMIZER = open_anonymizer(k=3)
APP = make_app(ANONYMIZER)
DEVICE, *_ = [ANONYMIZER.sign_up(*place) for place in scatter(12)]
ANONYMIZER.publish()
"""Created at collection time, because the tests are generated from the description."""

schema = schemathesis.openapi.from_asgi("/openapi.json", APP)
SETTINGS = settings(
    max_examples=25,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.fixture(scope="session", autouse=True)  # the tests of a module may run in several groups
def _close():
    yield
    ANONYMIZER.close()


@schema.parametrize()
@SETTINGS
def test_anonymous_requests_get_declared_responses(case):
    case.call_and_validate()


@schema.parametrize()
@SETTINGS
def test_the_operator_gets_declared_responses(case):
    case.call_and_validate(headers=bearer(OPERATOR))


@schema.include(path_regex="location$", method=["GET", "PUT"]).parametrize()
@SETTINGS
def test_a_device_gets_declared_responses(case):
    case.path_parameters = {"pseudonym": DEVICE.pseudonym}
    # A wrong token is answered like an unknown pseudonym on purpose; see test_web.py.
    case.call_and_validate(headers=bearer(DEVICE.token), excluded_checks=[ignored_auth])


def test_every_operation_declares_its_errors():
    with asking(APP) as http:
        description = http.get("/openapi.json").json()
    assert set(description["paths"]) == {
        "/devices", "/devices/{pseudonym}/location", "/devices/{pseudonym}", "/cells", "/health",
        "/status", "/history", "/rebuild", "/what-if", "/metrics", "/publications",
    }  # fmt: skip
    assert set(description["components"]["securitySchemes"]) == {"device", "operator"}
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            codes = set(operation["responses"])
            assert {"400", "408", "413", "429", "500", "503"} <= codes, (path, method)
            assert ("401" in codes) == ("security" in operation), (path, method)
            assert operation["summary"]
    assert "HTTPValidationError" not in json.dumps(description)
