"""The client returns what the anonymizer returns; errors do not reveal anything."""

import httpx
import pytest

from microcell.errors import (
    DataError,
    OptionError,
    ServiceError,
    TooFewRecordsError,
    UnknownDeviceError,
)
from microcell.locations import Client, Place
from microcell.locations.records import WhatIf
from tests.locations.serving import OPERATOR, InProcess, make_app, open_anonymizer, running, scatter
from tests.raising import raises


@pytest.fixture
def anonymizer():
    opened = open_anonymizer(k=3)
    yield opened
    opened.close()


@pytest.fixture
def client(anonymizer):
    with Client(
        "http://service", operator=OPERATOR, transport=InProcess(make_app(anonymizer))
    ) as client:
        yield client


@pytest.fixture(scope="module")
def shared_client():
    """A client for requests that are refused, whatever others were."""
    anonymizer = open_anonymizer(k=3)
    transport = InProcess(make_app(anonymizer))
    with Client("http://service", operator=OPERATOR, transport=transport) as client:
        yield client
    anonymizer.close()


def client_with_response(status, content=b"", **headers):
    """A client of a service that always gives the same response."""
    requests = []

    def handle(request):
        requests.append(request)
        return httpx.Response(status, content=content, headers=headers)

    pauses = []
    client = Client(
        "http://service",
        operator=OPERATOR,
        transport=httpx.MockTransport(handle),
        pause=pauses.append,
    )
    return client, requests, pauses


def test_life_cycle_of_a_device(client, anonymizer):
    assert client.healthy()
    accounts = [client.sign_up(*place) for place in scatter(9)]
    assert accounts[0].location is None
    assert anonymizer.publish()
    for account in accounts:
        answer = client.look_up(account.pseudonym, account.token)
        assert isinstance(answer.location, Place)
        assert answer == anonymizer.look_up(account.pseudonym, account.token)
        who = (account.pseudonym, account.token)
        assert client.look_up(*who, known=answer, wait=0.01) is answer
    moved = client.move(accounts[0].pseudonym, accounts[0].token, 50.0, 3)
    assert moved.pending
    known = client.look_up(accounts[0].pseudonym, accounts[0].token, known=answer, wait=5)
    assert moved == known
    client.cancel(accounts[0].pseudonym, accounts[0].token)
    with raises(UnknownDeviceError, "service.unknown_device"):
        client.look_up(accounts[0].pseudonym, accounts[0].token)
    assert client.cells()["devices"] == 9  # until the next publication


def test_operator_methods(client, anonymizer, monkeypatch):
    for place in scatter(9):
        client.sign_up(*place)
    assert client.status() == anonymizer.status()
    anonymizer.publish()
    client.rebuild()
    assert client.status().rebuild_requested
    assert client.publications() == anonymizer.publications()
    expected = WhatIf(4, 2, 1.5, 2.0, ((0.5, 1.0), (0.9, 2.0)), (0.0, 1.0, 3.0), (4, 5))
    monkeypatch.setattr(anonymizer, "what_if", {4: expected}.get)
    assert client.what_if(4) == expected


def test_it_works_over_the_network(anonymizer):
    with running(make_app(anonymizer)) as url, Client(url) as client:
        account = client.sign_up(41.4, 2.2)
        assert client.look_up(account.pseudonym, account.token).location is None


@pytest.mark.parametrize("pseudonym", ["unknown", "", "../status", "a/b", "a?b", "a b", "ä", "%2e"])
def test_unknown_device(shared_client, pseudonym):
    for ask in (
        lambda: shared_client.look_up(pseudonym, "token"),
        lambda: shared_client.move(pseudonym, "token", 1.0, 2.0),
        lambda: shared_client.cancel(pseudonym, "token"),
    ):
        with raises(UnknownDeviceError, "service.unknown_device"):
            ask()


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ((91.987654, 0), "data.out_of_range"),
        ((0, 181), "data.out_of_range"),
        ((float("nan"), 0), "data.out_of_range"),
        ((0, float("inf")), "data.out_of_range"),
        (("x987654", 0), "data.not_a_number"),
        ((None, 0), "data.not_a_number"),
    ],
)
def test_invalid_places_are_rejected_without_being_repeated(shared_client, place, code):
    with raises(DataError, code) as caught:
        shared_client.sign_up(*place)
    assert "987654" not in str(caught.value)


def test_the_operator_token_is_required(anonymizer):
    transport = InProcess(make_app(anonymizer))
    with (
        Client("http://service", transport=transport) as client,
        raises(OptionError, "service.unauthorized", option="operator"),
    ):
        client.status()
    with (
        Client(
            "http://service",
            operator="not the operator's",
            transport=InProcess(make_app(anonymizer)),
        ) as client,
        raises(OptionError, "service.unauthorized", status=401),
    ):
        client.rebuild()


def test_too_few_devices():
    client, _, _ = client_with_response(409, b'{"detail": "few"}')
    with raises(TooFewRecordsError, "guarantee.too_few_records"):
        client.what_if(5)


def test_rate_limited_requests_are_repeated():
    client, requests, pauses = client_with_response(429, **{"Retry-After": "7"})
    with raises(ServiceError, "service.rate_limited"):
        client.cells()
    assert (len(requests), pauses) == (4, [7.0, 7.0, 7.0])


@pytest.mark.parametrize(
    ("after", "waited"), [("3600", []), ("soon", [1.0] * 3), ("-5", [0.0] * 3)]
)
def test_unusual_retry_after_values(after, waited):
    client, _, pauses = client_with_response(429, **{"Retry-After": after})
    with raises(ServiceError, "service.rate_limited"):
        client.cells()
    assert pauses == waited


@pytest.mark.parametrize(
    ("status", "content"),
    [(500, b"41.987654"), (502, b"<html>41.987654"), (200, b"<p>41.987654"), (200, b"[1]")],
)
def test_failures_do_not_repeat_the_response(status, content):
    client, _, _ = client_with_response(status, content)
    with raises(ServiceError, "service.unavailable") as caught:
        client.look_up("a", "b")
    assert "987654" not in str(caught.value)
    assert not client.healthy()


def test_an_unreachable_service():
    def handle(request):
        raise httpx.ConnectError(f"no {request.url}", request=request)

    with Client("http://service", transport=httpx.MockTransport(handle)) as client:
        assert not client.healthy()
        with raises(ServiceError, "service.unavailable") as caught:
            client.look_up("secretname", "secrettoken")
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_the_url_needs_a_scheme():
    with raises(OptionError, "option.invalid", option="url"):
        Client("localhost:8000")


def test_tokens_with_unusual_characters():
    client, _, _ = client_with_response(404)
    for token in ("a\r\nb", "\x00"):
        with raises(UnknownDeviceError, "service.unknown_device"):
            client.look_up("a", token)
    with raises(ServiceError, "service.unavailable", cause="UnicodeEncodeError"):
        client.look_up("a", "ü" * 3)


@pytest.mark.parametrize(
    "status, body", [(404, {}), (401, {}), (200, {}), (200, {"status": "bad"})]
)
def test_another_service_is_not_healthy(status, body):
    transport = httpx.MockTransport(lambda _: httpx.Response(status, json=body))
    assert Client("http://localhost", transport=transport).healthy() is False


def test_an_incomplete_response_is_a_service_error():
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json={}))
    client = Client("http://localhost", operator="secret", transport=transport)
    for call in (client.status, lambda: client.what_if(3), lambda: client.sign_up(1.0, 2.0)):
        with raises(ServiceError, "service.unavailable"):
            call()


def test_a_missing_page_is_not_an_unknown_device():
    transport = httpx.MockTransport(lambda _: httpx.Response(404, json={}))
    with raises(ServiceError, "service.bad_request"):
        Client("http://localhost", transport=transport).cells()
