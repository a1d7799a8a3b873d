"""A studio on a server thread, and clients that came in with the token."""

import re
from types import SimpleNamespace

import httpx
import pytest

pytest.importorskip("fastapi", reason="the extra studio is not installed")

from microcell.studio import Access, Settings, create_studio
from tests.locations.serving import running


@pytest.fixture(scope="package")
def studio(tmp_path_factory):
    """A running studio: its address, its folder, and a function that opens a client."""
    folder = tmp_path_factory.mktemp("studio") / "projects"
    access = Access()
    with running(create_studio(Settings(folder=folder), access)) as url:
        yield SimpleNamespace(
            url=url, folder=folder, access=access, client=lambda: client(url, access)
        )


def client(url, access):
    """Return a client with the cookie of the studio and the token of its pages."""
    headers = {"x-csrf-token": access.csrf_token("")}
    cookies = {f"microcell_studio_{httpx.URL(url).port}": access.session}
    return httpx.Client(base_url=url, headers=headers, cookies=cookies, timeout=120)


@pytest.fixture(scope="package")
def http(studio):
    """A client of the studio that is allowed in."""
    with studio.client() as opened:
        yield opened


PEOPLE = "name,age,sex,town,diagnosis\n" + "".join(
    f"Person {i},{20 + i * 7 % 23},{'fm'[i % 2]},{'ABCD'[i % 4]}ville,{'xyz'[i % 3]}\n"
    for i in range(60)
)


@pytest.fixture
def project(http):
    """The address of a project with a small uploaded table."""
    return open_table(http, PEOPLE)


def open_table(http, text, name="people.csv"):
    """Upload a table and create a project; return the address of its API."""
    upload = http.put("/api/uploads", params={"name": name}, content=text.encode())
    assert upload.status_code == 200, upload.text
    made = http.post("/api/projects", json={"upload": upload.json()["upload"], "name": name})
    assert made.status_code == 201, made.text
    return f"/api/projects/{made.json()['id']}"


def csrf_of(page):
    """Return the token in a page."""
    return re.search(r'name="csrf-token" content="(\w+)"', page)[1]
