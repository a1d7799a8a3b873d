"""The job API: from a file to a release, and everything that may go wrong on the way."""

import json
import subprocess
import sys
import time
from itertools import combinations

import polars as pl
import pytest

from tests.studio.conftest import PEOPLE, open_table

pytestmark = pytest.mark.slow  # tables are read in processes of their own

ENDED = ("done", "failed", "cancelled")


def change(http, project, *edits, **more):
    body = {"edits": [{"path": path, "value": value} for path, value in edits], **more}
    return http.patch(project, json=body)


def wait_for(http, job):
    while job["state"] not in ENDED:
        time.sleep(0.05)
        job = http.get(f"/api/jobs/{job['id']}").json()
    return job


def run(http, project, kind="make_release"):
    return wait_for(http, http.post(f"{project}/jobs", json={"kind": kind}).json())


def test_columns_are_drafted_with_facts(http, project):
    shown = http.get(f"{project}/columns").json()
    roles = {row["name"]: row["role"] for row in shown["columns"]}
    assert roles == {
        "name": "identifier",
        "age": "quasi",
        "sex": "quasi",
        "town": "quasi",
        "diagnosis": "confidential",
    }
    assert sum(shown["columns"][1]["histogram"]["counts"]) == 60


def test_the_number_of_unique_people_is_that_of_a_plain_count(http, project):
    shown = http.get(f"{project}/exposure").json()
    table = pl.read_csv(PEOPLE.encode())

    def unique(names):
        return table.group_by(names).len().filter(pl.col("len") == 1).height

    names = ["age", "sex", "town"]
    assert (shown["people"], shown["unique"]) == (60, unique(names))
    for name in names:
        assert shown["without"][name] == unique([other for other in names if other != name])
    for item in shown["combinations"]:
        alone = set(table.with_row_index().filter(pl.len().over(item["columns"]) == 1)["index"])
        for part in combinations(item["columns"], len(item["columns"]) - 1):
            if part:  # minimal: what fewer columns single out counts there
                singled = pl.len().over(list(part)) == 1
                alone -= set(table.with_row_index().filter(singled)["index"])
        assert item["unique"] == len(alone) > 0


def test_a_release_and_the_same_bytes_again(http, studio, project, tmp_path):
    assert change(http, project, (["k"], 3)).status_code == 200
    job = run(http, project)
    assert (job["state"], job["error"]) == ("done", None)
    step = http.get(project).json()["step"]
    page = f"/projects/{project.rpartition('/')[2]}/releases/{step}"
    name = "people_k3.csv"
    for file in (name, f"{name}.manifest.json", "run.toml", "reproduce.py"):
        (tmp_path / file).write_bytes(http.get(f"{page}/{file}").content)
    published = pl.read_csv(tmp_path / name)
    assert published.columns == ["age", "sex", "town", "diagnosis"]
    keys = ["age", "sex", "town"]
    assert published.group_by(keys).len()["len"].min() >= 3
    assert published.group_by(keys).agg(pl.col("diagnosis").n_unique())["diagnosis"].min() >= 2
    again = tmp_path / f"again_{name}"
    command = [sys.executable, "-m", "microcell", "anonymize", "--config", "run.toml", "--quiet"]
    for words in (command, [sys.executable, "reproduce.py"]):
        subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
        assert again.read_bytes() == (tmp_path / name).read_bytes()
        again.unlink()
        (tmp_path / f"again_{name}.manifest.json").unlink()
    summary = http.get(f"{project}/result").json()
    assert summary["is_current"]
    assert summary["result"]["k"] == 3
    public = http.get(f"{page}/report_public.html").text
    assert "Person 1" not in public
    assert "script" not in http.get(f"{page}/report.html").headers["content-security-policy"]


def test_undo_redo_and_changes_in_two_windows(http, project):
    first = http.get(project).json()
    assert change(http, project, (["k"], 7), step=first["step"]).json()["run"]["k"] == 7
    outdated = change(http, project, (["k"], 8), step=first["step"])
    assert (outdated.status_code, outdated.json()["error"]["code"]) == (409, "option.conflict")
    assert http.post(f"{project}/history", json={"to": "undo"}).json()["run"] == first["run"]
    assert http.post(f"{project}/history", json={"to": "redo"}).json()["run"]["k"] == 7
    back = http.post(f"{project}/history", json={"to": first["step"]}).json()
    assert back["run"] == first["run"]
    noted = http.put(f"{project}/history/{first['step']}/note", json={"text": "as agreed"})
    assert noted.status_code == 200
    entries = {item["id"]: item for item in http.get(f"{project}/history").json()["entries"]}
    assert entries[first["step"]]["note"] == "as agreed"
    assert [number for number, item in entries.items() if item["note"]] == [first["step"]]


def test_a_job_can_be_cancelled_at_any_moment(http, project):
    started = http.post(f"{project}/jobs", json={"kind": "make_release"}).json()
    cancelled = http.delete(f"/api/jobs/{started['id']}").json()
    assert cancelled["state"] == "cancelled"
    # Pages answer as before, and no half of a release is shown.
    shown = http.get(f"{project}/result").json()
    assert shown["result"] is None
    assert http.get(f"{project}/run").json()["job"]["state"] == "cancelled"


def test_events_end_with_the_job(http, project):
    job = http.post(f"{project}/jobs", json={"kind": "explore"}).json()
    with http.stream("GET", f"/api/jobs/{job['id']}/events") as answer:
        states = [json.loads(line[6:]) for line in answer.iter_lines() if line]
    assert states[-1]["state"] == "done"
    points = http.get(f"{project}/explore").json()["exploration"]["points"]
    assert [point["k"] for point in points] == sorted({3, 5, 10, 20, 30})


def test_what_cannot_be_met_is_said(http, project):
    assert change(http, project, (["k"], 61)).status_code == 200
    job = run(http, project)
    assert (job["state"], job["error"]["code"]) == ("failed", "guarantee.too_few_records")


@pytest.mark.parametrize(
    "name, text, code",
    [
        ("ragged.csv", "a,b\n1,2\n3\n", "table.malformed"),
        ("binary.parquet", "not parquet", "table.malformed"),
        ("empty.csv", "", "table.malformed"),
    ],
)
def test_a_bad_file_is_explained_where_it_can_be_mended(http, name, text, code):
    project = open_table(http, text, name)
    shown = http.get(f"{project}/read").json()
    assert shown["error"]["code"] == code
    page = http.get(f"/projects/{project.rpartition('/')[2]}/read")
    assert page.status_code == 200
    assert "This did not work" in page.text


def test_reading_again_drafts_the_columns_again(http):
    project = open_table(http, "age;pay\n" + "30;15\n31;25\n" * 8)
    assert set(http.get(project).json()["run"]["schema"]["columns"]) == {"age", "pay"}
    changed = change(http, project, (["read", "delimiter"], ",")).json()
    assert set(changed["run"]["schema"]["columns"]) == {"age;pay"}


def test_names_and_values_are_never_markup(http):
    evil = "<img src=x onerror=alert(1)>"
    rows = "".join(f"{i % 7},{evil}{i % 3}\n" for i in range(40))
    project = open_table(http, f"age,{evil}\n{rows}", "evil.csv")
    number = project.rpartition("/")[2]
    http.patch(project, json={"title": f"{evil}</title>"})
    for screen in ("read", "columns", "exposure", "prepare", "goal", "run", "history"):
        page = http.get(f"/projects/{number}/{screen}")
        assert page.status_code == 200
        assert evil not in page.text


@pytest.mark.parametrize("name", ["../original.csv", "original.csv", "project.sqlite", ".."])
def test_only_files_of_releases_can_be_downloaded(http, project, name):
    number = project.rpartition("/")[2]
    answer = http.get(f"/projects/{number}/releases/1/{name}")
    assert answer.status_code in (404, 422)
    assert "Person" not in answer.text


def test_unknown_things_have_a_code(http, project):
    for path, code in (
        ("/api/projects/0123456789abcdef", "table.not_found"),
        ("/api/jobs/none", "option.unknown"),
        (f"{project}/nothing", "option.unknown"),
    ):
        answer = http.get(path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, code)
    bad = http.post("/api/projects", json={"colour": "red"})
    assert bad.json()["error"]["code"] == "service.invalid_field"
    assert "red" not in bad.text
    odd = http.put("/api/uploads", params={"name": "x.exe"}, content=b"")
    assert odd.json()["error"]["code"] == "table.unknown_format"


def test_a_project_can_be_deleted_while_it_works(http, studio, project):
    http.post(f"{project}/jobs", json={"kind": "make_release"})
    assert http.delete(project).status_code == 204
    assert http.get(project).status_code == 404
    assert not (studio.folder / project.rpartition("/")[2]).exists()
