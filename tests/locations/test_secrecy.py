"""Exact locations never appear in responses, logs, metrics, errors or reprs."""

import logging
import sqlite3

import pytest

from microcell.locations import Settings
from tests.locations.serving import (
    NO_LIMITS,
    OPERATOR,
    asking,
    bearer,
    connect,
    make_app,
    open_anonymizer,
    running,
)

SECRET = (41.38765432, 2.16987654)
TRACES = ("38765432", "16987654")


@pytest.fixture
def anonymizer():
    opened = open_anonymizer(k=3)
    yield opened
    opened.close()


def traces_in(text):
    return [trace for trace in TRACES if trace in text]


def place(latitude=SECRET[0], longitude=SECRET[1]):
    return {"latitude": latitude, "longitude": longitude}


def use_all(http):
    """Send every kind of request and return the response texts."""
    steps = (0.0, 0.1234567, 0.3456789, 0.5432109, 0.7654321, 0.8765432, 0.9999999)
    accounts = [
        http.post("/devices", json=place(SECRET[0] + step, SECRET[1] - step**2)) for step in steps
    ]
    texts = [response.text for response in accounts]
    account = accounts[0].json()
    device, token = f"/devices/{account['pseudonym']}", bearer(account["token"])
    requests = [
        ("GET", f"{device}/location", {"headers": token}),
        ("PUT", f"{device}/location", {"headers": token, "json": place(-SECRET[0], -SECRET[1])}),
        ("PUT", f"{device}/location", {"headers": token, "json": place()}),
        ("PUT", f"{device}/location", {"headers": bearer("wrong"), "json": place()}),
        ("POST", "/devices", {"json": place(latitude=SECRET[0] + 100)}),
        ("POST", "/devices", {"json": {str(SECRET[0]): SECRET[1]}}),
        (
            "POST",
            "/devices",
            {"content": str(SECRET), "headers": {"Content-Type": "application/json"}},
        ),
        ("POST", f"/devices?latitude={SECRET[0]}&longitude={SECRET[1]}", {"json": place()}),
        ("GET", f"/devices/{SECRET[0]},{SECRET[1]}/location", {"headers": token}),
        ("GET", f"/{SECRET[0]}/{SECRET[1]}", {}),
        ("GET", f"/what-if?k={SECRET[0]}", {"headers": bearer(OPERATOR)}),
        ("GET", f"/status?at={SECRET[0]}", {"headers": bearer(str(SECRET[0]))}),
        ("POST", "/rebuild", {"headers": bearer(OPERATOR)}),
        ("GET", "/status", {"headers": bearer(OPERATOR)}),
        ("GET", "/metrics", {"headers": bearer(OPERATOR)}),
        ("GET", "/cells", {}),
        ("DELETE", device, {"headers": token}),
        (f"X{TRACES[0]}", "/devices", {}),
    ]
    return texts + [
        http.request(method, path, **content).text for method, path, content in requests
    ]


def test_no_response_log_or_metric_contains_a_location(anonymizer, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    for name in (
        "httpx",
        "httpcore",
        "asyncio",
    ):  # the client runs in the same process
        logging.getLogger(name).setLevel(logging.WARNING)
    with asking(make_app(anonymizer)) as http:
        responses = use_all(http)
    assert len(responses) == 25
    assert not traces_in("".join(responses))
    assert not traces_in(caplog.text)
    assert not traces_in("".join(capfd.readouterr()))
    assert "/devices/{pseudonym}/location" in caplog.text  # requests are logged


def test_the_server_itself_logs_no_location(anonymizer, caplog, capfd):

    caplog.set_level(logging.DEBUG)
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    with running(make_app(anonymizer)) as url, connect(url) as http:
        responses = use_all(http)
    assert not traces_in("".join(responses))
    assert not traces_in(caplog.text)
    assert not traces_in("".join(capfd.readouterr()))


def test_failures_are_logged_by_type_and_line_only(anonymizer, monkeypatch, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)

    def fail(latitude, longitude):
        raise RuntimeError(f"INSERT INTO devices VALUES ({latitude}, {longitude})")

    monkeypatch.setattr(anonymizer, "sign_up", fail)
    with asking(make_app(anonymizer)) as http:
        response = http.post("/devices", json=place())
    assert (response.status_code, response.json()["code"]) == (500, "service.failed")
    assert "content-security-policy" in response.headers
    assert "RuntimeError at " in caplog.text
    assert "test_secrecy.py:" in caplog.text
    assert not traces_in(response.text + caplog.text + "".join(capfd.readouterr()))


def test_a_failed_look_up_reveals_nothing(anonymizer, monkeypatch, caplog):
    def fail(*words):
        raise KeyError(SECRET, words)

    monkeypatch.setattr(anonymizer, "look_up", fail)
    with asking(make_app(anonymizer)) as http:
        response = http.get("/devices/someone/location", headers=bearer("sometoken"))
    assert response.status_code == 500
    assert not traces_in(response.text + caplog.text)
    assert "someone" not in caplog.text
    assert "sometoken" not in caplog.text


def test_logs_contain_no_pseudonym_token_or_address(anonymizer, caplog):
    caplog.set_level(logging.DEBUG)
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    with asking(make_app(anonymizer), client=("203.0.113.77", 5)) as http:
        account = http.post("/devices", json=place()).json()
        path = f"/devices/{account['pseudonym']}/location"
        http.get(path, headers=bearer(account["token"]))
        metrics = http.get("/metrics", headers=bearer(OPERATOR)).text
    for word in (account["pseudonym"], account["token"], OPERATOR, "203.0.113.77"):
        assert word not in caplog.text
        assert word not in metrics


def test_request_logging_can_be_disabled(anonymizer, caplog):
    caplog.set_level(logging.DEBUG, "microcell")
    with asking(make_app(anonymizer, log_requests=False)) as http:
        http.get("/health")
    assert not [record for record in caplog.records if record.name.startswith("microcell")]


def test_settings_repr_hides_the_token():
    assert OPERATOR not in repr(Settings(operator=OPERATOR, **NO_LIMITS))


def test_the_openapi_description_contains_no_location(anonymizer):
    with asking(make_app(anonymizer)) as http:
        http.post("/devices", json=place())
        assert not traces_in(http.get("/openapi.json").text)


def test_the_database_contains_neither_locations_nor_tokens(tmp_path):
    opened = open_anonymizer(k=3, database=f"sqlite:///{tmp_path / 'locations.db'}")
    with asking(make_app(opened)) as http:
        accounts = [http.post("/devices", json=place()).json() for _ in range(3)]
    opened.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert accounts[0]["pseudonym"].encode() in stored
    for account in accounts:
        assert account["token"].encode() not in stored
    import struct

    with sqlite3.connect(tmp_path / "locations.db") as database:
        names = [
            name
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        devices = next(name for name in names if "device" in name)
        kept = repr(list(database.execute(f"SELECT * FROM {devices}"))).encode() + stored
    database.close()
    exact = SECRET[0] + 0.0
    # The published place of three devices at one location is that location, which is public.
    for order in "<>":
        assert struct.pack(f"{order}dd", exact, SECRET[1]) not in kept
    assert repr(exact).encode() not in kept
