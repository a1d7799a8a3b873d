"""The routes: what devices, strangers and the operator get."""

import asyncio
import json
import logging
import socket
import threading

import httpx
import pytest

from microcell.errors import OptionError, ServiceError, TooFewRecordsError
from microcell.locations.records import WhatIf
from microcell.locations.web import Settings, listen_on, shield
from microcell.locations.web.app import page_files
from tests.locations.serving import (
    OPERATOR,
    asking,
    bearer,
    make_app,
    open_anonymizer,
    running,
    scatter,
)

PLACE = {"latitude": 41.4, "longitude": 2.2}


@pytest.fixture
def anonymizer():
    opened = open_anonymizer(k=3)
    yield opened
    opened.close()


@pytest.fixture
def http(anonymizer):
    with asking(make_app(anonymizer)) as client:
        yield client


def sign_up(http, latitude=41.4, longitude=2.2):
    answer = http.post("/devices", json={"latitude": latitude, "longitude": longitude})
    assert answer.status_code == 201, answer.text
    return answer.json()


def fill(http, count=9):
    return [sign_up(http, *place) for place in scatter(count)]


def location_of(http, account):
    return http.get(f"/devices/{account['pseudonym']}/location", headers=bearer(account["token"]))


# ---------------------------------------------------------------------------------------------- devices


def test_devices_wait_until_there_are_k(http):
    first = sign_up(http)
    assert set(first) == {"pseudonym", "token", "location"}
    assert first["location"] == "waiting"
    assert location_of(http, first).json() == {"location": "waiting"}
    sign_up(http, 41.5)
    third = sign_up(http, 41.6)
    assert set(third["location"]) == {"latitude", "longitude"}
    assert location_of(http, first).json()["location"] == third["location"]
    assert third["location"]["latitude"] == pytest.approx(41.5, abs=0.01)


def test_looking_up_gives_what_the_anonymizer_gives(http, anonymizer):
    for account in fill(http):
        found = anonymizer.look_up(account["pseudonym"], account["token"])
        assert location_of(http, account).json()["location"] == {
            "latitude": found.latitude,
            "longitude": found.longitude,
        }


def test_a_device_moves(http, anonymizer):
    account = fill(http)[0]
    path = f"/devices/{account['pseudonym']}/location"
    moved = http.put(
        path, json={"latitude": 50.0, "longitude": 3}, headers=bearer(account["token"])
    )
    assert moved.status_code == 200
    assert anonymizer.status().moves == 1
    assert location_of(http, account).json() == moved.json()


@pytest.mark.parametrize("rest", ["", "/location"])
def test_a_device_cancels_and_is_forgotten(http, anonymizer, rest):
    account = fill(http)[0]
    path = f"/devices/{account['pseudonym']}{rest}"
    gone = http.delete(path, headers=bearer(account["token"]))
    assert (gone.status_code, gone.content) == (204, b"")
    assert anonymizer.overview().devices == 8
    assert location_of(http, account).status_code == 404
    assert http.delete(path, headers=bearer(account["token"])).status_code == 404


# ---------------------------------------------------------------------------------------------- who is not told


def outcome(answer):
    return answer.status_code, answer.content, sorted(answer.headers.items())


def test_unknown_pseudonyms_and_wrong_tokens_are_answered_alike(http):
    accounts = fill(http)
    real, other, strange = accounts[0]["pseudonym"], accounts[1]["token"], "A" * 22
    for method, rest, content in (
        ("GET", "/location", {}),
        ("PUT", "/location", {"json": PLACE}),
        ("DELETE", "", {}),
        ("DELETE", "/location", {}),
    ):
        answers = [
            http.request(method, f"/devices/{pseudonym}{rest}", headers=bearer(token), **content)
            for pseudonym in (real, strange, "%00", "ß", "x" * 2000)
            for token in (other, "wrong", OPERATOR, "x" * 3000)
        ]
        assert all(outcome(answer) == outcome(answers[0]) for answer in answers)
        assert answers[0].status_code == 404


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Basic eA=="}, {"Authorization": "Bearer"}]
)
def test_without_a_token_nothing_is_told(http, headers):
    account = fill(http)[0]
    for pseudonym in (account["pseudonym"], "unknown"):
        answer = http.get(f"/devices/{pseudonym}/location", headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/status"), ("POST", "/rebuild"), ("GET", "/what-if?k=5"), ("GET", "/metrics")],
)
def test_the_operators_routes_need_the_operators_token(http, method, path):
    account = fill(http)[0]
    for headers in (
        {},
        bearer("wrong"),
        bearer(account["token"]),
        bearer(OPERATOR + "x"),
        bearer(OPERATOR[:-1]),
    ):
        assert http.request(method, path, headers=headers).status_code == 401


# ---------------------------------------------------------------------------------------------- what is refused


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
def test_wrong_content_is_refused_and_never_repeated(
    http, anonymizer, caplog, method, content, fields
):
    caplog.set_level(logging.DEBUG)
    path, headers = "/devices", {"Content-Type": "application/json"}
    if method == "PUT":
        account = sign_up(http)
        path, headers = (
            f"/devices/{account['pseudonym']}/location",
            {**headers, **bearer(account["token"])},
        )
    before = anonymizer.overview().devices
    answer = http.request(method, path, content=content, headers=headers)
    assert answer.status_code in (400, 422), answer.text
    told = answer.json()
    if answer.status_code == 422:
        assert {item["field"] for item in told["fields"]} <= fields
    assert "987654" not in answer.text + caplog.text
    assert anonymizer.overview().devices == before
    assert anonymizer.status().moves == 0


def test_other_content_types_are_refused(http):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/xml"):
        answer = http.post("/devices", content=json.dumps(PLACE), headers={"Content-Type": kind})
        assert answer.status_code == 422


def test_the_edges_of_the_earth_are_places(http):
    for latitude, longitude in ((90, 0), (-90, -180), (0, 180), (-0.0, 5e-324)):
        sign_up(http, latitude, longitude)


def test_large_bodies_are_refused_before_they_are_read(anonymizer):
    app = make_app(anonymizer)
    with asking(app) as http:
        for content in (b" " * 5000, b'{"latitude": 1, "longitude": 2}' + b" " * 5000):
            answer = http.post(
                "/devices", content=content, headers={"Content-Type": "application/json"}
            )
            assert (answer.status_code, answer.headers["connection"]) == (413, "close")
        assert http.request("GET", "/health", content=b"x" * 5000).status_code == 413
    with running(app) as url, httpx.Client(base_url=url, trust_env=False) as http:
        assert http.post("/devices", content=iter([b"x" * 1000] * 6)).status_code == 413
    assert anonymizer.overview().devices == 0


def test_a_body_that_does_not_come_is_not_waited_for(anonymizer, monkeypatch):
    monkeypatch.setattr(shield, "PATIENCE", 0.05)
    sent = []

    async def receive():
        await asyncio.sleep(3600)

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/devices", "headers": [(b"content-length", b"20")],
        "client": ("192.0.2.1", 1), "query_string": b"",
    }  # fmt: skip
    asyncio.run(make_app(anonymizer)(scope, receive, send))
    assert sent[0]["status"] == 408


def test_a_client_that_leaves_in_the_middle_does_no_harm(anonymizer, caplog):
    sent = []

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/devices", "headers": [(b"content-length", b"20")],
        "client": None, "query_string": b"",
    }  # fmt: skip
    asyncio.run(make_app(anonymizer)(scope, receive, send))
    assert sent[0]["status"] == 400
    assert anonymizer.overview().devices == 0


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/devices/", "/devices/a/b/c", "/page/../_vault.py", "/page/%2e%2e/_vault.py"],
)
def test_other_paths_are_not_found(http, path):
    answer = http.get(path)
    assert (answer.status_code, answer.json()) == (404, {"detail": "Not Found"})


def test_methods_that_a_path_has_not_are_told(http):
    answer = http.patch("/devices/x/location")
    assert answer.status_code == 405
    assert {name.strip() for name in answer.headers["allow"].split(",")} == {"GET", "PUT", "DELETE"}


# ---------------------------------------------------------------------------------------------- limits


def test_clients_that_ask_too_often_are_told_to_wait(anonymizer):
    app = make_app(anonymizer, rate=0.5, burst=3)
    with asking(app) as http:
        codes = [http.get("/cells").status_code for _ in range(5)]
        assert codes == [200, 200, 200, 429, 429]
        refused = http.get("/cells")
        assert 1 <= int(refused.headers["retry-after"]) <= 2
        assert "content-security-policy" in refused.headers
        assert http.get("/health").status_code == 200
    with asking(app, client=("192.0.2.2", 1)) as other:
        assert other.get("/cells").status_code == 200


def test_sign_ups_have_a_limit_of_their_own(anonymizer):
    app = make_app(anonymizer, sign_up_rate=0.01, sign_up_burst=2)
    with asking(app) as http:
        codes = [http.post("/devices", json=PLACE).status_code for _ in range(4)]
        assert codes == [201, 201, 429, 429]
        assert http.get("/cells").status_code == 200
    assert anonymizer.overview().devices == 2


def test_a_client_cannot_name_another_address_unless_a_proxy_is_trusted(anonymizer):
    def codes(**options):
        app = make_app(anonymizer, rate=0.001, burst=1)
        with running(app, **options) as url, httpx.Client(base_url=url, trust_env=False) as http:
            return [
                http.get("/cells", headers={"X-Forwarded-For": address}).status_code
                for address in ("198.51.100.1", "198.51.100.2")
            ]

    assert codes() == [200, 429]
    assert codes(proxies=("127.0.0.1",)) == [200, 200]
    assert codes(proxies=("192.0.2.9",)) == [200, 429]


# ---------------------------------------------------------------------------------------------- cells and the operator


def test_cells_are_geojson_without_members(http, anonymizer):
    empty = http.get("/cells").json()
    assert (empty["features"], empty["least_size"], empty["rebuilt"], empty["k"]) == (
        [],
        None,
        None,
        3,
    )
    fill(http)
    answer = http.get("/cells")
    assert answer.headers["content-type"] == "application/geo+json"
    told, view = answer.json(), anonymizer.overview()
    assert told["type"] == "FeatureCollection"
    assert (told["devices"], told["waiting"], told["generation"]) == (9, 0, view.generation)
    assert told["least_size"] == min(cell.size for cell in view.cells) >= 3
    assert len(told["features"]) == len(view.cells)
    for feature, cell in zip(told["features"], view.cells, strict=True):
        assert (feature["type"], feature["id"]) == ("Feature", cell.number)
        assert feature["properties"] == {
            "number": cell.number,
            "latitude": cell.place.latitude,
            "longitude": cell.place.longitude,
            "size": cell.size,
            "radius": cell.radius,
        }
        assert feature["geometry"]["type"] in ("Polygon", "MultiPolygon")


def test_cells_are_sent_again_only_when_they_change(http):
    fill(http)
    first = http.get("/cells")
    tag = first.headers["etag"]
    for tags in (tag, f'"other", {tag}'):
        same = http.get("/cells", headers={"If-None-Match": tags})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    sign_up(http)
    changed = http.get("/cells", headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag
    assert changed.json()["devices"] == 10


def test_the_operator_sees_the_status_and_rebuilds(http, anonymizer):
    fill(http)
    before = http.get("/status", headers=bearer(OPERATOR)).json()
    assert (before["devices"], before["sign_ups"], before["k"]) == (9, 9, 3)
    begun = http.post("/rebuild", headers=bearer(OPERATOR))
    assert (begun.status_code, begun.json()) == (202, {"rebuilding": True})
    assert anonymizer.status().rebuilds == before["rebuilds"] + 1


def test_cells_cannot_be_rebuilt_of_fewer_devices_than_k(http, anonymizer):
    sign_up(http)
    answer = http.post("/rebuild", headers=bearer(OPERATOR))
    assert (answer.status_code, answer.json()) == (
        409,
        {"detail": "There are fewer devices than k."},
    )
    assert anonymizer.status().last_failure is None


def test_what_if_is_told_and_asked_once_at_a_time(http, anonymizer, monkeypatch):
    asked, go = threading.Event(), threading.Event()

    def what_if(k):
        asked.set()
        go.wait(30)
        return WhatIf(k, 1, 2.0, 3.0, ((0.5, 1.0),), (0.0, 4.0), (9,))

    monkeypatch.setattr(anonymizer, "what_if", what_if)
    path, headers = "/what-if?k=4", bearer(OPERATOR)
    app = make_app(anonymizer)
    answers = []

    def ask():
        with asking(app) as other:
            answers.append(other.get(path, headers=headers))

    thread = threading.Thread(target=ask)
    thread.start()
    assert asked.wait(30)
    with asking(app) as second:
        busy = second.get(path, headers=headers)
    go.set()
    thread.join()
    assert (busy.status_code, busy.headers["retry-after"]) == (429, "2")
    assert answers[0].json() == {
        "k": 4, "cells": 1, "mean": 2.0, "root_mean_square": 3.0, "quantiles": [[0.5, 1.0]], "edges": [0.0, 4.0],
        "counts": [9],
    }  # fmt: skip


@pytest.mark.parametrize("k", ["", "1", "0", "-5", "x", "5.5", "1e3", "10000000000000000000000"])
def test_what_if_refuses_what_is_no_k(http, k):
    assert http.get(f"/what-if?k={k}", headers=bearer(OPERATOR)).status_code == 422


def test_too_few_devices_are_a_conflict(http, anonymizer, monkeypatch):
    def refuse(*_, **__):
        raise TooFewRecordsError("2 devices")

    monkeypatch.setattr(anonymizer, "what_if", refuse)
    monkeypatch.setattr(anonymizer, "rebuild", refuse)
    for method, path in (("GET", "/what-if?k=5"), ("POST", "/rebuild")):
        answer = http.request(method, path, headers=bearer(OPERATOR))
        assert (answer.status_code, answer.json()) == (
            409,
            {"detail": "There are fewer devices than k."},
        )


def test_a_database_that_fails_is_told_and_what_was_served_goes_on(http, anonymizer, monkeypatch):
    account = fill(http)[0]

    def fail(*_):
        raise ServiceError("lost 41.987654")

    monkeypatch.setattr(anonymizer, "sign_up", fail)
    answer = http.post("/devices", json=PLACE)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "987654" not in answer.text
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
    assert "microcell_locations_least_size" in text
    assert "microcell_locations_sign_ups_total 9.0" in text


def test_metrics_may_be_opened(anonymizer):
    with asking(make_app(anonymizer, open_metrics=True)) as http:
        assert http.get("/metrics").status_code == 200
        assert http.get("/status").status_code == 401


def test_health_says_ok(http):
    assert http.get("/health").json() == {"status": "ok"}


# ---------------------------------------------------------------------------------------------- the page, the settings


def test_the_page_and_its_files_are_served_as_they_are(http):
    for path, file in page_files().items():
        answer = http.get(path)
        assert answer.status_code == 200
        assert answer.content == file.body
        assert answer.headers["content-type"].startswith(file.media_type)
        assert "default-src 'self'" in answer.headers["content-security-policy"]


def test_every_answer_has_the_headers_of_safety(http):
    for answer in (
        http.get("/cells"),
        http.get("/nothing"),
        http.post("/devices", json={}),
        http.get("/status"),
    ):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "server" not in answer.headers
    assert sign_up(http)
    assert http.post("/devices", json=PLACE).headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "token", ["", "short", "fifteen letters", "ü" * 20, " " + "x" * 20, "x" * 20 + "\n"]
)
def test_operators_tokens_must_be_usable(token):
    with pytest.raises(OptionError, match="operator's token"):
        Settings(operator=token)


def test_a_port_in_use_is_told(anonymizer):
    with listen_on("127.0.0.1", 0) as taken, pytest.raises(OSError):
        listen_on("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(OptionError, match="port"):
        listen_on("127.0.0.1", 70000)


def test_answers_are_sent_at_once(anonymizer, monkeypatch):
    """Without TCP_NODELAY each answer waits 40 ms for the client's acknowledgement."""
    taken = []
    real = socket.socket.accept
    monkeypatch.setattr(socket.socket, "accept", lambda self: taken.append(real(self)) or taken[-1])
    with running(make_app(anonymizer)) as url, httpx.Client(base_url=url, trust_env=False) as http:
        assert http.get("/health").status_code == 200
        assert taken[0][0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_changes_from_many_threads_all_count(anonymizer):
    app = make_app(anonymizer)
    with running(app) as url:
        done = []

        def use():
            with httpx.Client(base_url=url, trust_env=False) as http:
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
    assert anonymizer.overview().devices == 24
