"""Files of a data set: no duplicates, no silent losses, and no overwriting of other files."""

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
from microcell.dask.cluster import LocalEngine, _check_memory, _deferred_signals
from microcell.dask.sources import check_output_location, find_files
from microcell.errors import DataError, OptionError, TableError
from tests.dask.running import SCHEMA, people, run, write_files
from tests.raising import raises


@pytest.fixture
def source(tmp_path):
    return write_files(tmp_path / "in", [people(30, 1), people(30, 2)])


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_file_under_two_names_is_rejected(source, tmp_path, link):
    one = source / "file0.parquet"
    with raises(TableError, "table.mismatch"):
        find_files([one, source / "file1.parquet", str(one)])
    link(one, source / "other.parquet")
    for location in (source, str(source / "*.parquet")):
        with raises(TableError, "table.mismatch"):
            run(location, SCHEMA, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_links_to_files_are_followed(source, tmp_path):
    (tmp_path / "apart").mkdir()
    (source / "file1.parquet").rename(tmp_path / "apart" / "x.parquet")
    (source / "file1.parquet").symlink_to(tmp_path / "apart" / "x.parquet")
    assert run(source, SCHEMA, tmp_path / "out").manifest.records.read == 60


def test_broken_links_are_rejected(source):
    (source / "file2.parquet").symlink_to(source / "gone.parquet")
    for location in (source, str(source / "*.parquet"), str(source / "**" / "*.parquet")):
        with raises(TableError, "table.not_found", path=str(source / "file2.parquet")):
            find_files(location)


def test_directories_are_not_ignored_silently(source, tmp_path):
    write_files(tmp_path / "apart", [people(10, 3)])
    write_files(source / "deep.parquet", [people(10, 4)])
    assert len(find_files(source)) == 3
    assert len(find_files(str(source / "**" / "*.parquet"))) == 3
    for pattern in ("*", "*.parquet"):
        with raises(TableError, "table.unreadable", path=str(source / "deep.parquet")):
            find_files(str(source / pattern))
    (source / "linked").symlink_to(tmp_path / "apart")
    with raises(TableError, "table.unreadable", path=str(source / "linked")):
        find_files(source)


def test_hidden_files_are_ignored(source, tmp_path):
    (source / "_metadata").touch()
    (source / ".linked").symlink_to(tmp_path / "nowhere")
    write_files(source / "_old", [people(5, 1)])
    assert [path.name for path in find_files(source)] == ["file0.parquet", "file1.parquet"]


def test_partitioned_directories_are_rejected_in_patterns_too(tmp_path):
    (tmp_path / "year=1").mkdir()
    write_files(tmp_path / "year=1" / "x", [people(5, 1)])
    for pattern in ("*/*/*.parquet", "**/*.parquet"):
        with raises(TableError, "table.unknown_format"):
            find_files(str(tmp_path / pattern))
    assert (
        len(find_files(str(tmp_path / "year=1" / "x" / "*.parquet"))) == 1
    )  # one value, so nothing is lost


@pytest.mark.parametrize(
    "location",
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
def test_in_memory_tables_are_rejected_without_showing_values(location):
    with raises(OptionError, "option.wrong_type", option="source") as caught:
        find_files(location)
    assert "secret" not in str(caught.value)


def test_an_output_inside_the_source_is_rejected(source, tmp_path):
    for location in (source, str(source), str(tmp_path / "**" / "*.parquet")):
        with raises(TableError, "table.exists"):
            anonymize_dataset(location, SCHEMA, k=5, output=source / "out")
    check_output_location(str(source / "*.parquet"), source / "out")
    check_output_location(source, tmp_path / "in.out")
    check_output_location([source / "file0.parquet"], source / "out")
    assert sorted(path.name for path in source.iterdir()) == ["file0.parquet", "file1.parquet"]


def test_only_a_release_is_replaced(source, tmp_path):
    spark = write_files(tmp_path / "spark", [people(5, 1)])
    for marker in ("", "spark 3.5", "microcellular"):
        (spark / "_SUCCESS").write_text(marker)
        with raises(TableError, "table.exists"):
            run(source, SCHEMA, spark, replace=True)
    assert pq.read_table(spark / "file0.parquet").num_rows == 5
    run(source, SCHEMA, tmp_path / "out")
    (tmp_path / "out" / "thesis.txt").touch()
    with raises(TableError, "table.exists"):
        run(source, SCHEMA, tmp_path / "out", replace=True)
    (tmp_path / "out" / "thesis.txt").unlink()
    assert run(source, SCHEMA, tmp_path / "out", replace=True, seed=3).manifest.seed == 3


# -------------------------------------------------------------------------------- text files


def write_text(folder, *texts):
    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / f"file{number}.csv").write_text(text, encoding="utf-8")
    return folder


def test_empty_text_files_do_not_determine_types(tmp_path):
    full = "a,b\n" + "".join(f"{row},{row / 2}\n" for row in range(60))
    source = write_text(tmp_path / "in", "a,b\n", full)
    schema = mc.Schema(quasi=["a", "b"])
    result = run(source, schema, tmp_path / "out")
    assert result.manifest.records.read == 60
    assert {result.manifest.columns[name].kind for name in "ab"} == {"numeric"}
    write_text(
        tmp_path / "more",
        "a,b\n",
        *(path.read_text() for path in sorted(result.path.glob("part-*"))),
    )
    audit = audit_files(
        LocalEngine(), find_files(source), find_files(tmp_path / "more"), schema, None, tmp_path
    )
    assert (audit["k"], audit["records"]) == (result.k, 60)


def test_errors_name_the_original_file(tmp_path):
    full = "a,b\n" + "".join(f"{row}.5,{row}\n" for row in range(60))
    large = "a,b\n" + f"{2**60 + 1},1\n" * 20
    for code, text in (("table.malformed", ""), ("table.bad_names", "a,a\n1,2\n")):
        with raises(TableError, code, file="file1.csv"):
            run(
                write_text(tmp_path / code, full, text),
                mc.Schema(quasi=["a", "b"]),
                tmp_path / "out",
            )
    with raises(DataError, "table.mismatch", column="a", file="file1.csv") as caught:
        run(write_text(tmp_path / "in", full, large), mc.Schema(quasi=["a", "b"]), tmp_path / "out")
    assert str(2**60 + 1) not in str(caught.value)


# -------------------------------------------------------------------------------- local workers


@pytest.mark.parametrize("memory", ["50MB", "-1GB", "0", "2XB", "", [], 0.5])
def test_insufficient_memory_is_rejected(memory):
    with raises(OptionError, "option.out_of_range", option="memory"):
        _check_memory(memory)


@pytest.mark.parametrize("memory", [None, "auto", "2GB", "300MB", 10**9])
def test_sufficient_memory_is_accepted(memory):
    _check_memory(memory)


def test_ctrl_c_is_deferred_and_never_reaches_workers():
    events = []
    code = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))"

    def start():
        events.append(
            subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True
            ).stdout
        )

    def disturb():
        with _deferred_signals():
            os.kill(os.getpid(), signal.SIGINT)
            starter = threading.Thread(target=start)
            starter.start()
            starter.join()
            events.append("complete")

    with pytest.raises(KeyboardInterrupt):
        disturb()
    assert events == ["True\n", "complete"]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_is_not_deferred():
    def disturb():
        with _deferred_signals():
            for _ in range(2):
                signal.raise_signal(signal.SIGINT)
                os.kill(os.getpid(), 0)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            raise AssertionError

    with pytest.raises(KeyboardInterrupt):
        disturb()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["starting workers", "summarizing columns"])
def test_ctrl_c_in_a_terminal_leaves_nothing_behind(source, tmp_path, stage):
    """Ctrl-C goes to all processes of a terminal; workers must not print tracebacks."""
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
    # Show progress from the start, however fast the machine is.
    program = "from microcell.cli import console, main; console.PROGRESS_DELAY = 0.0; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as process:
        for line in process.stderr:
            if line.lower().startswith(stage):
                break
        else:
            pytest.fail(f"the run never reported {stage!r}")
        os.killpg(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (130, "")
    assert stderr.splitlines()[-1] == "Interrupted: nothing was written."
    assert "Traceback" not in stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "schema.toml"]
