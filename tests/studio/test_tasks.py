"""What the processes of the studio compute."""

import json

import pytest

import microcell as mc
from microcell.studio import tasks
from tests.studio.conftest import PEOPLE


@pytest.mark.usefixtures("blank_figures")
def test_the_release_of_the_quick_search_remains_if_the_longer_one_ends(tmp_path, monkeypatch):
    source = tmp_path / "people.csv"
    source.write_text(PEOPLE)
    run = {"k": 3, "schema": tasks.inspect(str(source), {})["schema"]}
    anonymize, efforts = mc.anonymize, []

    def end_second(*args, **options):
        efforts.append(options.get("effort"))
        if len(efforts) == 2:
            raise KeyboardInterrupt
        return anonymize(*args, **options)

    monkeypatch.setattr(mc, "anonymize", end_second)
    folder = tmp_path / "releases" / "1"
    with pytest.raises(KeyboardInterrupt):
        tasks.make_release(str(source), {}, run, str(folder), "people_k3.csv")
    assert efforts == ["fast", None]
    summary = json.loads((folder / "summary.json").read_text())
    assert {*summary["files"], "summary.json"} == {item.name for item in folder.iterdir()}
    # Its run file says how it was made, so that it can be made again.
    assert mc.schema.load_run(folder / "run.toml").options == {"effort": "fast"}
    audit = mc.audit(
        source, folder / "people_k3.csv", mc.schema.load_run(folder / "run.toml").schema
    )
    assert audit.require(k=3)["values_changed"] == 0
