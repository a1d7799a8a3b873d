"""Which files a data set has: none twice, none lost without a word, and nothing that is another's overwritten."""

import json
import os
import signal
import subprocess
import sys
import threading

import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest

import microcell as mc
from microcell.dask import anonymize_dataset
from microcell.dask.audit import audit_files
from microcell.dask.cluster import Here, _check_memory, _undisturbed
from microcell.dask.sources import check_apart, find_files
from microcell.errors import DataError, OptionError, TableError
from tests.dask.running import SCHEMA, people, run, write_files


@pytest.fixture
def source(tmp_path):
    return write_files(tmp_path / "in", [people(30, 1), people(30, 2)])


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_file_under_two_names_would_count_people_twice(source, tmp_path, link):
    one = source / "file0.parquet"
    with pytest.raises(TableError, match=r"file0\.parquet' are the same file"):
        find_files([one, source / "file1.parquet", str(one)])
    link(one, source / "other.parquet")
    for given in (source, str(source / "*.parquet")):
        with pytest.raises(TableError, match=r"other\.parquet' are the same file"):
            run(given, SCHEMA, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_link_is_a_file_like_any_other(source, tmp_path):
    (tmp_path / "apart").mkdir()
    (source / "file1.parquet").rename(tmp_path / "apart" / "x.parquet")
    (source / "file1.parquet").symlink_to(tmp_path / "apart" / "x.parquet")
    assert run(source, SCHEMA, tmp_path / "out").manifest["records"]["read"] == 60


def test_a_link_to_nothing_is_not_left_out(source):
    (source / "file2.parquet").symlink_to(source / "gone.parquet")
    for given in (source, str(source / "*.parquet"), str(source / "**" / "*.parquet")):
        with pytest.raises(
            TableError, match=r"file2\.parquet' is a link to a file that is not there"
        ):
            find_files(given)


def test_folders_are_not_left_out(source, tmp_path):
    write_files(tmp_path / "apart", [people(10, 3)])
    write_files(source / "deep.parquet", [people(10, 4)])
    assert len(find_files(source)) == 3
    assert len(find_files(str(source / "**" / "*.parquet"))) == 3
    for pattern in ("*", "*.parquet"):
        with pytest.raises(
            TableError, match=r"deep\.parquet' is a folder, whose files the pattern leaves out"
        ):
            find_files(str(source / pattern))
    (source / "linked").symlink_to(tmp_path / "apart")
    with pytest.raises(TableError, match="linked' is a link to a folder"):
        find_files(source)


def test_what_is_hidden_stays_out(source, tmp_path):
    (source / "_metadata").touch()
    (source / ".linked").symlink_to(tmp_path / "nowhere")
    write_files(source / "_old", [people(5, 1)])
    assert [path.name for path in find_files(source)] == ["file0.parquet", "file1.parquet"]


def test_folders_that_stand_for_values_are_refused_in_patterns_too(tmp_path):
    (tmp_path / "year=1").mkdir()
    write_files(tmp_path / "year=1" / "x", [people(5, 1)])
    for pattern in ("*/*/*.parquet", "**/*.parquet"):
        with pytest.raises(TableError, match="'year=1' of the data set stands for a value"):
            find_files(str(tmp_path / pattern))
    assert (
        len(find_files(str(tmp_path / "year=1" / "x" / "*.parquet"))) == 1
    )  # one value: nothing is lost


@pytest.mark.parametrize(
    "given",
    [
        pd.DataFrame({"secret": [1]}),
        pd.Series(["secret"]),
        pl.DataFrame({"secret": [1]}),
        pl.Series(["secret"]),
        [{"name": "secret"}],
        {"name": ["secret"]},
        ["a.parquet", 1],
        b"secret",
    ],
    ids=lambda item: type(item).__name__,
)
def test_tables_in_memory_are_no_data_set_and_show_no_value(given):
    with pytest.raises(OptionError, match="A data set is a folder") as caught:
        find_files(given)
    assert "secret" not in str(caught.value)


def test_an_output_that_would_be_read_the_next_time(source, tmp_path):
    for given in (source, str(source), str(tmp_path / "**" / "*.parquet")):
        with pytest.raises(TableError, match="lies in the folder of the data set"):
            anonymize_dataset(given, SCHEMA, k=5, output=source / "out")
    check_apart(str(source / "*.parquet"), source / "out")
    check_apart(source, tmp_path / "in.out")
    check_apart([source / "file0.parquet"], source / "out")
    assert sorted(path.name for path in source.iterdir()) == ["file0.parquet", "file1.parquet"]


def test_only_a_release_is_replaced_and_nothing_beside_it(source, tmp_path):
    spark = write_files(tmp_path / "spark", [people(5, 1)])
    (spark / "_SUCCESS").touch()
    for manifest in (None, "no json", "[]", json.dumps({"k": 5})):
        if manifest is not None:
            (spark / "_manifest.json").write_text(manifest)
        with pytest.raises(TableError, match="is no release of a data set"):
            run(source, SCHEMA, spark, replace=True)
    assert pq.read_table(spark / "file0.parquet").num_rows == 5
    run(source, SCHEMA, tmp_path / "out")
    (tmp_path / "out" / "thesis.txt").touch()
    with pytest.raises(TableError, match=r"holds 'thesis\.txt', which is no part of the release"):
        run(source, SCHEMA, tmp_path / "out", replace=True)
    (tmp_path / "out" / "thesis.txt").unlink()
    assert run(source, SCHEMA, tmp_path / "out", replace=True, seed=3).manifest["seed"] == 3


# ---------------------------------------------------------------------------------------------- plain text


def write_text(folder, *texts):
    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / f"file{number}.csv").write_text(text, encoding="utf-8")
    return folder


def test_text_without_records_says_nothing_of_types(tmp_path):
    full = "a,b\n" + "".join(f"{row},{row / 2}\n" for row in range(60))
    source = write_text(tmp_path / "in", "a,b\n", full)
    schema = mc.Schema(quasi=["a", "b"])
    found = run(source, schema, tmp_path / "out")
    assert found.manifest["records"]["read"] == 60
    assert {found.manifest["columns"][name]["kind"] for name in "ab"} == {"numeric"}
    write_text(
        tmp_path / "more",
        "a,b\n",
        *(path.read_text() for path in sorted(found.path.glob("part-*"))),
    )
    audit = audit_files(
        Here(), find_files(source), find_files(tmp_path / "more"), schema, None, tmp_path
    )
    assert (audit["k"], audit["records"]) == (found.k, 60)


def test_errors_name_the_file_that_was_given(tmp_path):
    full = "a,b\n" + "".join(f"{row}.5,{row}\n" for row in range(60))
    large = "a,b\n" + f"{2**60 + 1},1\n" * 20
    for number, (text, message) in enumerate(
        (
            ("", r"^In 'file1\.csv': The file is empty"),
            ("a,a\n1,2\n", r"^In 'file1\.csv'.*same name"),
        )
    ):
        with pytest.raises(TableError, match=message):
            run(
                write_text(tmp_path / f"in{number}", full, text),
                mc.Schema(quasi=["a", "b"]),
                tmp_path / "out",
            )
    with pytest.raises(DataError, match=r"Column 'a' of 'file1\.csv' holds values") as caught:
        run(write_text(tmp_path / "in", full, large), mc.Schema(quasi=["a", "b"]), tmp_path / "out")
    assert str(2**60 + 1) not in str(caught.value)


# ---------------------------------------------------------------------------------------------- workers started here


@pytest.mark.parametrize("memory", ["50MB", "-1GB", "0", "2XB", "", [], 0.5])
def test_memory_that_no_worker_could_live_with(memory):
    with pytest.raises(OptionError, match="memory must be a size such as '2GB'"):
        _check_memory(memory)


@pytest.mark.parametrize("memory", [None, "auto", "2GB", "300MB", 10**9])
def test_memory_that_is_enough(memory):
    _check_memory(memory)


def test_ctrl_c_is_heard_when_the_cluster_is_there_and_never_by_its_processes():
    heard, code = (
        [],
        "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))",
    )

    def start():
        heard.append(
            subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True
            ).stdout
        )

    def disturb():
        with _undisturbed():
            os.kill(os.getpid(), signal.SIGINT)
            starter = threading.Thread(target=start)
            starter.start()
            starter.join()
            heard.append("whole")

    with pytest.raises(KeyboardInterrupt):
        disturb()
    assert heard == ["True\n", "whole"]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_does_not_wait():
    def disturb():
        with _undisturbed():
            for _ in range(2):
                signal.raise_signal(signal.SIGINT)
                os.kill(os.getpid(), 0)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            raise AssertionError

    with pytest.raises(KeyboardInterrupt):
        disturb()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    "stage", ["starting workers", "waiting for workers", "finding out about columns"]
)
def test_ctrl_c_in_a_terminal_leaves_nothing_and_says_one_line(source, tmp_path, stage):
    """It goes to all processes of a terminal; those of workers had shown pages of where they were."""
    (tmp_path / "schema.toml").write_text(mc.schema.schema_to_toml(SCHEMA), encoding="utf-8")
    words = [
        "anonymize",
        source,
        "-s",
        tmp_path / "schema.toml",
        "-k",
        "5",
        "-o",
        tmp_path / "out",
        "--engine",
        "dask",
    ]
    # Stages are told from the start, however quick the machine is.
    program = "from microcell.cli import _console, main; _console.PATIENCE = 0.0; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as process:
        for line in process.stderr:
            if line.startswith(stage):
                break
        else:
            pytest.fail(f"the run never told of {stage!r}")
        os.killpg(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (130, "")
    assert stderr.splitlines()[-1] == "interrupted; nothing was written"
    assert "Traceback" not in stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "schema.toml"]
