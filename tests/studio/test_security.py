"""Who may come in, and what pages may do."""

import asyncio
import os
import re
from importlib.resources import files
from pathlib import Path

import pytest
from starlette.requests import ClientDisconnect

from microcell.errors import TableError
from microcell.studio import Access, Settings, Workspace, create_studio
from microcell.studio.app import store_upload
from microcell.studio.security import user_folder
from tests.locations.serving import asking

HOST = "127.0.0.1:8000"
COOKIE = "microcell_studio_8000"


def in_process(access, folder, peer="127.0.0.1", **settings):
    app = create_studio(Settings(folder=folder, warm_up=False, **settings), access)
    found = asking(app, client=(peer, 1234))
    found.base_url = f"http://{HOST}"
    return found


@pytest.fixture
def access():
    return Access(hosts=frozenset({HOST}))


@pytest.fixture
def outsider(access, tmp_path):
    with in_process(access, tmp_path) as found:
        yield found


def code(response):
    return response.json()["error"]["code"]


def test_the_token_opens_the_studio_once(outsider, access):
    assert outsider.get("/").status_code == 401
    assert outsider.get("/", params={"token": "wrong"}).status_code == 401
    came_in = outsider.get("/", params={"token": access.token})
    assert came_in.status_code == 303
    cookie = came_in.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    token = access.csrf_token("")
    outsider.cookies.set(COOKIE, access.session)
    assert outsider.get("/").status_code == 200
    assert token in outsider.get("/").text


def test_a_used_token_is_worthless(outsider, access):
    token = access.token
    assert outsider.get("/", params={"token": token}).status_code == 303
    outsider.cookies.clear()
    assert outsider.get("/", params={"token": token}).status_code == 401
    assert outsider.get("/", params={"token": ""}).status_code == 401


@pytest.mark.parametrize(
    "query", ["token=x&token=", "token=&token=x", "token", "token=x;token=", "TOKEN=x", "x=token"]
)
def test_no_odd_query_lets_anybody_in(outsider, query):
    answer = outsider.get(f"/?{query}")
    assert answer.status_code == 401
    assert "csrf" not in answer.text.replace('name="csrf-token" content=""', "")


def test_another_host_name_is_refused(access, tmp_path):
    with in_process(access, tmp_path) as http:
        http.cookies.set(COOKIE, access.session)
        assert http.get("/", headers={"host": "evil.example:8000"}).status_code == 421


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_changes_need_the_token_of_the_page_and_the_same_origin(outsider, access, method):
    outsider.cookies.set(COOKIE, access.session)
    path = "/api/projects/0000000000000000"
    assert code(outsider.request(method, path)) == "service.unauthorized"
    wrong = {"x-csrf-token": "0" * 64}
    assert code(outsider.request(method, path, headers=wrong)) == "service.unauthorized"
    right = {"x-csrf-token": access.csrf_token("")}
    elsewhere = right | {"origin": "http://evil.example"}
    assert code(outsider.request(method, path, headers=elsewhere)) == "service.unauthorized"
    assert outsider.request(method, path, headers=right).status_code in (404, 405, 422)


def test_every_answer_forbids_scripts_from_elsewhere(outsider, access):
    outsider.cookies.set(COOKIE, access.session)
    for path in ("/", "/api/projects", "/static/studio.js", "/nowhere"):
        policy = outsider.get(path).headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy


def test_pages_have_no_inline_scripts_or_styles():
    folder = files("microcell.studio").joinpath("templates")
    for item in folder.iterdir():
        text = item.read_text(encoding="utf-8")
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=|javascript:", text)
        assert not re.search(r"https?://", text)
        assert "| safe" not in text


def test_shared_users_do_not_see_each_other(tmp_path):
    access = Access(user_header="X-Remote-User")
    with in_process(access, tmp_path, shared=True) as http:
        assert http.get("/api/projects").status_code == 401
        ann, bob = ({"x-remote-user": name, "x-csrf-token": access.csrf_token(name)}
                    for name in ("ann", "bob"))  # fmt: skip
        made = http.put("/api/uploads", params={"name": "a.csv"}, content=b"", headers=ann)
        wrong = http.post("/api/projects", json={"path": "/etc/passwd"}, headers=ann)
        assert (made.status_code, code(wrong)) == (200, "option.missing")
        body = {"upload": made.json()["upload"], "name": "a.csv"}
        assert code(http.post("/api/projects", json=body, headers=bob)) == "table.not_found"
        # A proxy that adds its header to a forged one must not let the forged one in.
        twice = [("x-remote-user", "ann"), ("x-remote-user", "bob")]
        assert http.get("/api/projects", headers=twice).status_code == 401
        # The token of one user's page is not valid for another's.
        mixed = {**bob, "x-csrf-token": ann["x-csrf-token"]}
        assert code(http.post("/api/projects", json=body, headers=mixed)) == "service.unauthorized"


def test_settings_in_a_shared_studio_read_no_file(tmp_path):
    access = Access(user_header="X-Remote-User")
    project = Workspace(user_folder(tmp_path, "ann")).create("people", Path("people.csv"), {"k": 2})
    with in_process(access, tmp_path, shared=True) as http:
        headers = {"x-remote-user": "ann", "x-csrf-token": access.csrf_token("ann")}
        for path in (["schema", "columns", "age", "hierarchy"], ["order_key"]):
            edits = {"edits": [{"path": path, "value": "/etc/passwd"}]}
            answer = http.patch(f"/api/projects/{project.id}", json=edits, headers=headers)
            assert code(answer) == "option.unsupported"
            assert "passwd" not in answer.text


def test_only_the_proxy_may_name_users(tmp_path):
    for access, peer, status in (
        (Access(user_header="X-Remote-User"), "192.0.2.7", 401),
        (Access(user_header="X-Remote-User", proxies=frozenset({"192.0.2.7"})), "192.0.2.7", 200),
        (Access(user_header="X-Remote-User", proxies=frozenset({"192.0.2.7"})), "127.0.0.1", 401),
    ):
        with in_process(access, tmp_path, peer, shared=True) as http:
            answer = http.get("/api/projects", headers={"x-remote-user": "ann"})
            assert answer.status_code == status


def test_a_quota_limits_uploads(tmp_path):
    access = Access(user_header="X-Remote-User")
    with in_process(access, tmp_path, shared=True, quota=1000) as http:
        headers = {"x-remote-user": "ann", "x-csrf-token": access.csrf_token("ann")}
        big = http.put(
            "/api/uploads", params={"name": "a.csv"}, content=b"x" * 1001, headers=headers
        )
        assert code(big) == "table.too_large"
        assert [item for item in tmp_path.rglob("*") if item.is_file()] == []


def test_displays_contain_no_secret():
    access = Access()
    assert access.token not in repr(access)
    assert access.session not in repr(access)


@pytest.mark.parametrize("error", [ClientDisconnect, OSError, asyncio.CancelledError])
def test_an_upload_that_breaks_off_leaves_nothing(tmp_path, error):
    class Broken:
        async def stream(self):
            yield b"age\n1\n"
            assert (tmp_path / "a.csv").exists()
            raise error

    with pytest.raises((error, TableError)):
        asyncio.run(store_upload(Broken(), tmp_path / "a.csv", room=100))
    assert list(tmp_path.iterdir()) == []


def test_what_nobody_needs_any_more_is_deleted(tmp_path):
    access = Access(user_header="X-Remote-User")
    project = Workspace(user_folder(tmp_path, "gone")).create("people", Path("people.csv"), {})
    young = Workspace(user_folder(tmp_path, "here")).create("people", Path("people.csv"), {})
    upload = Workspace(user_folder(tmp_path, "gone")).incoming(".csv")
    upload.touch()
    for path in (project.folder / "project.sqlite", upload):
        os.utime(path, (0, 0))
    with in_process(access, tmp_path, shared=True, expiry=30) as http:
        # Whoever comes, the projects of those who left are deleted.
        assert http.get("/", headers={"x-remote-user": "somebody"}).status_code == 200
    assert not project.folder.exists()
    assert not upload.exists()
    assert young.folder.exists()
