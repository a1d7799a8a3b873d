"""Routes of the API for devices, the public and the operator."""

import asyncio
import json
import logging
import socket
import threading
import time
from dataclasses import asdict

import numpy as np
import pytest

from microcell.errors import OptionError, ServiceError, TooFewRecordsError
from microcell.locations.records import WhatIf
from microcell.locations.web import Settings, listen_on, middleware
from microcell.locations.web.app import page_files
from tests.locations.serving import (
    OPERATOR,
    asking,
    bearer,
    connect,
    make_app,
    open_anonymizer,
    running,
    scatter,
)
from tests.raising import raises

PLACE = {"latitude": 41.4, "longitude": 2.2}


@pytest.fixture
def anonymizer():
    opened = open_anonymizer(k=3)
    yield opened
    opened.close()


@pytest.fixture
def http(anonymizer):
    with asking(make_app(anonymizer)) as client:
        client.anonymizer = anonymizer
        yield client


@pytest.fixture(scope="module")
def shared_http():
    """A client for requests that are refused, whatever others were."""
    anonymizer = open_anonymizer(k=3)
    with asking(make_app(anonymizer)) as client:
        client.anonymizer = anonymizer
        yield client
    anonymizer.close()


def sign_up(http, latitude=41.4, longitude=2.2):
    response = http.post("/devices", json={"latitude": latitude, "longitude": longitude})
    assert response.status_code == 201, response.text
    return response.json()


def fill(http, count=9):
    accounts = [sign_up(http, *place) for place in scatter(count)]
    assert http.anonymizer.publish()
    return accounts


def location_of(http, account):
    return http.get(f"/devices/{account['pseudonym']}/location", headers=bearer(account["token"]))


# -------------------------------------------------------------------------------- devices


def test_devices_wait_until_there_are_k(http, anonymizer):
    first = sign_up(http)
    assert set(first) == {"pseudonym", "token", "location"}
    assert first["location"] == "waiting"
    assert location_of(http, first).json() == {
        "location": "waiting",
        "accuracy": None,
        "alias": None,
        "generation": 0,
        "valid_until": None,
        "pending": False,
    }
    sign_up(http, 41.5)
    third = sign_up(http, 41.6)
    assert third["location"] == "waiting"
    assert anonymizer.publish()
    answers = [location_of(http, account).json() for account in (first, third)]
    assert set(answers[0]["location"]) == {"latitude", "longitude"}
    assert answers[0]["location"] == answers[1]["location"]
    assert answers[0]["location"]["latitude"] == pytest.approx(41.5, abs=0.02)
    assert answers[0]["accuracy"] == 20.0
    assert answers[0]["alias"] != answers[1]["alias"]
    assert first["pseudonym"] not in (answers[0]["alias"], answers[1]["alias"])


def test_a_look_up_is_sent_only_when_it_changes(http, anonymizer):
    account = fill(http)[0]
    first = location_of(http, account)
    tag = first.headers["etag"]
    path = f"/devices/{account['pseudonym']}/location"
    headers = bearer(account["token"]) | {"If-None-Match": f'"other", {tag}'}
    for query in ("", "?wait=0.01"):
        same = http.get(path + query, headers=headers)
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    timer = threading.Timer(0.3, lambda: [sign_up_twice(anonymizer), anonymizer.publish()])
    timer.start()
    began = time.monotonic()
    changed = http.get(f"{path}?wait=30", headers=headers)
    assert time.monotonic() - began < 28
    timer.join()
    assert changed.status_code == 200
    assert changed.json()["alias"] != first.json()["alias"]
    for query in ("?wait=31", "?wait=-1", "?wait=soon", "?other=1"):
        assert http.get(path + query, headers=headers).status_code == 422


def sign_up_twice(anonymizer):
    """Let newcomers join every cell, so that all aliases are renewed."""
    anonymizer.sign_up_many(*np.array(scatter(9)).T)
    anonymizer.sign_up_many(*np.array(scatter(9)).T)


def test_look_ups_match_the_anonymizer(http, anonymizer):
    for account in fill(http):
        actual = anonymizer.look_up(account["pseudonym"], account["token"])
        assert location_of(http, account).json()["location"] == {
            "latitude": actual.location.latitude,
            "longitude": actual.location.longitude,
        }


def test_moving_a_device(http, anonymizer):
    account = fill(http)[0]
    path = f"/devices/{account['pseudonym']}/location"
    moved = http.put(
        path, json={"latitude": 50.0, "longitude": 3}, headers=bearer(account["token"])
    )
    assert moved.status_code == 200
    assert anonymizer.status().moves == 1
    assert location_of(http, account).json() == moved.json()


@pytest.mark.parametrize("rest", ["", "/location"])
def test_cancelling_a_device(http, anonymizer, rest):
    account = fill(http)[0]
    path = f"/devices/{account['pseudonym']}{rest}"
    gone = http.delete(path, headers=bearer(account["token"]))
    assert (gone.status_code, gone.content) == (204, b"")
    assert anonymizer.status().devices == 8
    assert location_of(http, account).status_code == 404
    assert http.delete(path, headers=bearer(account["token"])).status_code == 404


# -------------------------------------------------------------------------------- authentication


def outcome(response):
    return response.status_code, response.content, sorted(response.headers.items())


def test_unknown_pseudonyms_and_wrong_tokens_get_the_same_response(http):
    accounts = fill(http)
    real, other, unknown = accounts[0]["pseudonym"], accounts[1]["token"], "A" * 22
    for method, rest, content in (
        ("GET", "/location", {}),
        ("PUT", "/location", {"json": PLACE}),
        ("DELETE", "", {}),
        ("DELETE", "/location", {}),
    ):
        responses = [
            http.request(method, f"/devices/{pseudonym}{rest}", headers=bearer(token), **content)
            for pseudonym in (real, unknown, "%00", "ß", "x" * 2000)
            for token in (other, "wrong", OPERATOR, "x" * 3000)
        ]
        assert all(outcome(response) == outcome(responses[0]) for response in responses)
        assert responses[0].status_code == 404
        assert responses[0].json()["code"] == "service.unknown_device"


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Basic eA=="}, {"Authorization": "Bearer"}]
)
def test_requests_without_a_token_are_rejected(shared_http, headers):
    account = sign_up(shared_http)
    for pseudonym in (account["pseudonym"], "unknown"):
        response = shared_http.get(f"/devices/{pseudonym}/location", headers=headers)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert response.json()["code"] == "service.unauthorized"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/status"),
        ("GET", "/history"),
        ("POST", "/rebuild"),
        ("GET", "/what-if?k=5"),
        ("GET", "/metrics"),
    ],
)
def test_operator_routes_require_the_operator_token(shared_http, method, path):
    account = sign_up(shared_http)
    for headers in (
        {},
        bearer("wrong"),
        bearer(account["token"]),
        bearer(OPERATOR + "x"),
        bearer(OPERATOR[:-1]),
    ):
        assert shared_http.request(method, path, headers=headers).status_code == 401


# -------------------------------------------------------------------------------- invalid requests


@pytest.mark.parametrize(
    ("content", "fields"),
    [
        ('{"latitude": 91, "longitude": 0}', {"latitude"}),
        ('{"latitude": -90.000001, "longitude": 0}', {"latitude"}),
        ('{"latitude": 0, "longitude": 180.5}', {"longitude"}),
        ('{"latitude": NaN, "longitude": 0}', {"latitude"}),
        ('{"latitude": Infinity, "longitude": -Infinity}', {"latitude", "longitude"}),
        ('{"latitude": 1e999, "longitude": 0}', {"latitude"}),
        ('{"latitude": "41.987654", "longitude": 0}', {"latitude"}),
        ('{"latitude": true, "longitude": 0}', {"latitude"}),
        ('{"latitude": null, "longitude": [41.987654]}', {"latitude", "longitude"}),
        ('{"latitude": 41.987654}', {"longitude"}),
        ('{"latitude": 41.987654, "longitude": 0, "41.987654": 1}', {"other"}),
        ("[41.987654, 2]", {"body"}),
        ('"41.987654"', {"body"}),
        ("41.987654", {"body"}),
        ("{41.987654", {"other", "body"}),
        ("", {"body"}),
        ("[" * 4000, {"body"}),
        ('{"latitude": ' + "4" * 4000 + ', "longitude": 0}', {"latitude"}),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_invalid_bodies_are_rejected_and_never_repeated(
    shared_http, caplog, method, content, fields
):
    http, anonymizer = shared_http, shared_http.anonymizer
    caplog.set_level(logging.DEBUG)
    path, headers = "/devices", {"Content-Type": "application/json"}
    if method == "PUT":
        account = sign_up(http)
        path, headers = (
            f"/devices/{account['pseudonym']}/location",
            {**headers, **bearer(account["token"])},
        )
    before = anonymizer.status().devices
    response = http.request(method, path, content=content, headers=headers)
    assert response.status_code in (400, 422), response.text
    body = response.json()
    if response.status_code == 422:
        assert body["code"] == "service.invalid_field"
        assert {item["field"] for item in body["fields"]} <= fields
    assert "987654" not in response.text + caplog.text
    assert anonymizer.status().devices == before
    assert anonymizer.status().moves == 0


def test_other_content_types_are_rejected(http):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/xml"):
        response = http.post("/devices", content=json.dumps(PLACE), headers={"Content-Type": kind})
        assert response.status_code == 422


def test_extreme_coordinates_are_accepted(http):
    for latitude, longitude in ((90, 0), (-90, -180), (0, 180), (-0.0, 5e-324)):
        sign_up(http, latitude, longitude)


def test_large_bodies_are_rejected_before_they_are_read(anonymizer):
    app = make_app(anonymizer)
    with asking(app) as http:
        for content in (b" " * 5000, b'{"latitude": 1, "longitude": 2}' + b" " * 5000):
            response = http.post(
                "/devices", content=content, headers={"Content-Type": "application/json"}
            )
            assert (response.status_code, response.headers["connection"]) == (413, "close")
        assert http.request("GET", "/health", content=b"x" * 5000).status_code == 413
    with running(app) as url, connect(url) as http:
        assert http.post("/devices", content=iter([b"x" * 1000] * 6)).status_code == 413
    assert anonymizer.status().devices == 0


def test_slow_bodies_time_out(anonymizer, monkeypatch):
    monkeypatch.setattr(middleware, "BODY_TIMEOUT", 0.05)
    sent = []

    async def receive():
        await asyncio.sleep(3600)

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/devices",
        "headers": [(b"content-length", b"20")],
        "client": ("192.0.2.1", 1), "query_string": b"",
    }  # fmt: skip
    asyncio.run(make_app(anonymizer)(scope, receive, send))
    assert sent[0]["status"] == 408
    assert json.loads(sent[1]["body"])["code"] == "service.bad_request"


def test_a_disconnect_during_the_body_is_harmless(anonymizer, caplog):
    sent = []

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/devices",
        "headers": [(b"content-length", b"20")],
        "client": None, "query_string": b"",
    }  # fmt: skip
    asyncio.run(make_app(anonymizer)(scope, receive, send))
    assert sent[0]["status"] == 400
    assert anonymizer.status().devices == 0


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/devices/", "/devices/a/b/c", "/page/../vault.py", "/page/%2e%2e/vault.py"],
)
def test_unknown_paths_are_not_found(shared_http, path):
    response = shared_http.get(path)
    assert (response.status_code, response.json()["code"]) == (404, "service.bad_request")


def test_unsupported_methods_list_the_allowed_ones(http):
    response = http.patch("/devices/x/location")
    assert response.status_code == 405
    assert {name.strip() for name in response.headers["allow"].split(",")} == {
        "GET",
        "PUT",
        "DELETE",
    }


# -------------------------------------------------------------------------------- limits


def test_clients_that_exceed_the_rate_must_wait(anonymizer):
    app = make_app(anonymizer, rate=0.5, burst=3)
    with asking(app) as http:
        codes = [http.get("/cells").status_code for _ in range(5)]
        assert codes == [200, 200, 200, 429, 429]
        refused = http.get("/cells")
        assert 1 <= int(refused.headers["retry-after"]) <= 2
        assert refused.json()["code"] == "service.rate_limited"
        assert "content-security-policy" in refused.headers
        assert http.get("/health").status_code == 200
    with asking(app, client=("192.0.2.2", 1)) as other:
        assert other.get("/cells").status_code == 200


def test_sign_ups_have_a_separate_limit(anonymizer):
    app = make_app(anonymizer, sign_up_rate=0.01, sign_up_burst=2)
    with asking(app) as http:
        codes = [http.post("/devices", json=PLACE).status_code for _ in range(4)]
        assert codes == [201, 201, 429, 429]
        assert http.get("/cells").status_code == 200
    assert anonymizer.status().devices == 2


def test_forwarded_addresses_are_used_only_from_trusted_proxies(anonymizer):
    def codes(**options):
        app = make_app(anonymizer, rate=0.001, burst=1)
        with running(app, **options) as url, connect(url) as http:
            return [
                http.get("/cells", headers={"X-Forwarded-For": address}).status_code
                for address in ("198.51.100.1", "198.51.100.2")
            ]

    assert codes() == [200, 429]
    assert codes(proxies=("127.0.0.1",)) == [200, 200]
    assert codes(proxies=("192.0.2.9",)) == [200, 429]


# ---------------------------------------------------------------------- cells and the operator


def test_cells_are_geojson_without_members(http, anonymizer):
    empty = http.get("/cells").json()
    assert (empty["features"], empty["smallest_cell"], empty["rebuilt_at"], empty["k"]) == (
        [],
        None,
        None,
        3,
    )
    fill(http)
    response = http.get("/cells")
    assert response.headers["content-type"] == "application/geo+json"
    body, view = response.json(), anonymizer.overview()
    assert body["type"] == "FeatureCollection"
    assert (body["devices"], body["waiting"], body["generation"]) == (9, 0, view.generation)
    assert body["smallest_cell"] == min(cell.at_least for cell in view.cells) >= 3
    assert body["published_at"] == view.published_at
    assert len(body["features"]) == len(view.cells)
    for feature, cell in zip(body["features"], view.cells, strict=True):
        assert (feature["type"], feature["id"]) == ("Feature", cell.number)
        assert feature["properties"] == {
            "number": cell.number,
            "latitude": cell.place.latitude,
            "longitude": cell.place.longitude,
            "at_least": cell.at_least,
            "below": cell.below,
            "radius": cell.radius,
        }
        assert feature["geometry"]["type"] in ("Polygon", "MultiPolygon")


def test_cells_are_sent_only_when_they_change(http, anonymizer):
    fill(http)
    first = http.get("/cells")
    tag = first.headers["etag"]
    for tags in (tag, f'"other", {tag}'):
        same = http.get("/cells", headers={"If-None-Match": tags})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    sign_up(http)
    assert http.get("/cells").content == first.content
    for _ in range(2):
        sign_up(http)
    assert anonymizer.publish()
    changed = http.get("/cells", headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag
    assert changed.json()["devices"] == 12


def test_publications_are_listed(http, anonymizer):
    assert http.get("/publications").json()["publications"] == []
    fill(http, 10)
    body = http.get("/publications").json()
    assert (body["k"], body["next_publication_at"]) == (3, None)
    (public,) = body["publications"]
    assert (public["devices"], public["cells"], public["k_over_history"]) == (9, 3, 3)
    assert http.get("/history").status_code == 401
    (exact,) = http.get("/history", headers=bearer(OPERATOR)).json()["publications"]
    assert exact == asdict(anonymizer.publications()[0])
    assert (exact["devices"], exact["changed"], exact["rebuilt"]) == (10, 10, True)


def test_the_operator_sees_the_status_and_rebuilds(http, anonymizer):
    fill(http)
    before = http.get("/status", headers=bearer(OPERATOR)).json()
    assert (before["devices"], before["sign_ups"], before["k"]) == (9, 9, 3)
    begun = http.post("/rebuild", headers=bearer(OPERATOR))
    assert (begun.status_code, begun.json()) == (202, {"requested": True})
    status = http.get("/status", headers=bearer(OPERATOR)).json()
    assert (status["rebuilds"], status["rebuild_requested"]) == (before["rebuilds"], True)
    assert status["k_over_history"] == 3


def test_rebuilding_with_fewer_devices_than_k_is_a_conflict(http, anonymizer):
    sign_up(http)
    response = http.post("/rebuild", headers=bearer(OPERATOR))
    assert (response.status_code, response.json()["code"]) == (409, "guarantee.too_few_records")
    assert anonymizer.status().last_failure is None


def test_only_one_what_if_runs_at_a_time(http, anonymizer, monkeypatch):
    calls, go = threading.Event(), threading.Event()

    def what_if(k):
        calls.set()
        go.wait(30)
        return WhatIf(k, 1, 2.0, 3.0, ((0.5, 1.0),), (0.0, 4.0), (9,))

    monkeypatch.setattr(anonymizer, "what_if", what_if)
    path, headers = "/what-if?k=4", bearer(OPERATOR)
    app = make_app(anonymizer)
    responses = []

    def ask():
        with asking(app) as other:
            responses.append(other.get(path, headers=headers))

    thread = threading.Thread(target=ask)
    thread.start()
    assert calls.wait(30)
    with asking(app) as second:
        busy = second.get(path, headers=headers)
    go.set()
    thread.join()
    assert (busy.status_code, busy.headers["retry-after"]) == (429, "2")
    assert responses[0].json() == {
        "k": 4, "cells": 1, "mean": 2.0, "root_mean_square": 3.0, "quantiles": [[0.5, 1.0]],
        "edges": [0.0, 4.0], "counts": [9],
    }  # fmt: skip


@pytest.mark.parametrize("k", ["", "1", "0", "-5", "x", "5.5", "1e3", "10000000000000000000000"])
def test_what_if_rejects_invalid_k(shared_http, k):
    assert shared_http.get(f"/what-if?k={k}", headers=bearer(OPERATOR)).status_code == 422


def test_too_few_devices_are_a_conflict(http, anonymizer, monkeypatch):
    def refuse(*_, **__):
        raise TooFewRecordsError("2 devices")

    monkeypatch.setattr(anonymizer, "what_if", refuse)
    monkeypatch.setattr(anonymizer, "rebuild", refuse)
    for method, path in (("GET", "/what-if?k=5"), ("POST", "/rebuild")):
        response = http.request(method, path, headers=bearer(OPERATOR))
        assert (response.status_code, response.json()["code"]) == (409, "guarantee.too_few_records")


def test_a_database_failure_responds_503_and_look_ups_continue(http, anonymizer, monkeypatch):
    account = fill(http)[0]

    def fail(*_):
        raise ServiceError("lost 41.987654")

    monkeypatch.setattr(anonymizer, "sign_up", fail)
    response = http.post("/devices", json=PLACE)
    assert (response.status_code, response.headers["retry-after"]) == (503, "5")
    assert response.json()["code"] == "service.unavailable"
    assert "987654" not in response.text
    assert location_of(http, account).status_code == 200


def test_metrics_count_requests_by_route(http):
    account = fill(http)[0]
    location_of(http, account)
    location_of(http, account | {"token": "wrong"})
    text = http.get("/metrics", headers=bearer(OPERATOR)).text
    assert (
        'requests_total{method="GET",route="/devices/{pseudonym}/location",status="200"} 1.0'
        in text
    )
    assert (
        'requests_total{method="GET",route="/devices/{pseudonym}/location",status="404"} 1.0'
        in text
    )
    assert 'requests_total{method="POST",route="/devices",status="201"} 9.0' in text
    assert "microcell_locations_devices 9.0" in text
    assert "microcell_locations_smallest_cell" in text
    assert "microcell_locations_k_over_history" in text
    assert "microcell_locations_sign_ups_total 9.0" in text


def test_metrics_can_be_public(anonymizer):
    with asking(make_app(anonymizer, open_metrics=True)) as http:
        assert http.get("/metrics").status_code == 200
        assert http.get("/status").status_code == 401


def test_health(http):
    assert http.get("/health").json() == {"status": "ok"}


# -------------------------------------------------------------------------------- page and settings


def test_the_page_and_its_files_are_served(http):
    for path, file in page_files().items():
        response = http.get(path)
        assert response.status_code == 200
        assert response.content == file.body
        assert response.headers["content-type"].startswith(file.media_type)
        assert "default-src 'self'" in response.headers["content-security-policy"]


def test_every_response_has_security_headers(http):
    for response in (
        http.get("/cells"),
        http.get("/nothing"),
        http.post("/devices", json={}),
        http.get("/status"),
    ):
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["x-frame-options"] == "DENY"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert "server" not in response.headers
    assert sign_up(http)
    assert http.post("/devices", json=PLACE).headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "token", ["", "short", "fifteen letters", "ü" * 20, " " + "x" * 20, "x" * 20 + "\n"]
)
def test_unusable_operator_tokens_are_rejected(token):
    with raises(OptionError, "option.invalid", option="operator"):
        Settings(operator=token)


def test_a_port_in_use_raises(anonymizer):
    with listen_on("127.0.0.1", 0) as taken, pytest.raises(OSError):
        listen_on("127.0.0.1", taken.getsockname()[1])
    with raises(OptionError, "option.out_of_range", option="port"):
        listen_on("127.0.0.1", 70000)


def test_responses_are_sent_without_delay(anonymizer, monkeypatch):
    """Without TCP_NODELAY each response would wait 40 ms for an acknowledgement."""
    taken = []
    real = socket.socket.accept
    monkeypatch.setattr(socket.socket, "accept", lambda self: taken.append(real(self)) or taken[-1])
    with running(make_app(anonymizer)) as url, connect(url) as http:
        assert http.get("/health").status_code == 200
        assert taken[0][0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_concurrent_changes_are_all_applied(anonymizer):
    app = make_app(anonymizer)
    with running(app) as url:
        done = []

        def use():
            with connect(url) as http:
                accounts = [sign_up(http, *place) for place in scatter(5)]
                assert location_of(http, accounts[0]).status_code == 200
                gone = accounts[1]
                http.delete(f"/devices/{gone['pseudonym']}", headers=bearer(gone["token"]))
                done.append(1)

        threads = [threading.Thread(target=use) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(done) == 6
    assert anonymizer.status().devices == 24
