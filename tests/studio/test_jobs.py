"""Processes of the studio: what happens when they fail, die or are no longer needed."""

import asyncio
import os
import signal

import pytest

from microcell.errors import ServiceError
from microcell.studio.jobs import Jobs, TaskError
from tests.raising import raises

pytestmark = pytest.mark.slow


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age,town\n" + "31,A\n" * 9)
    return {"path": str(path), "options": {}}


async def stop(jobs):
    for project in list(jobs._warm):
        await jobs.forget(project)
    for worker in jobs._spare:
        await worker.stop()


def run(work):
    """Run a coroutine function with jobs of its own, and leave no process behind."""

    async def main():
        jobs = Jobs()
        try:
            return await work(jobs)
        finally:
            await stop(jobs)

    return asyncio.run(main())


def test_errors_of_tasks_keep_their_code(tmp_path):
    path = str(tmp_path / "missing.csv")

    async def work(jobs):
        with raises(TaskError, "table.not_found"):
            await jobs.ask("p", "preview", {"path": path, "options": {}})

    run(work)


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
def test_a_process_that_died_is_replaced(table):
    async def work(jobs):
        first = await jobs.ask("p", "preview", table)
        process = jobs._warm["p"]._process
        process.send_signal(signal.SIGKILL)
        await process.wait()
        assert await jobs.ask("p", "preview", table) == first

    run(work)


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
def test_a_job_whose_process_dies_has_failed(table):
    async def work(jobs):
        arguments = {**table, "run": {"k": 2, "schema": {"columns": {"age": {"role": "quasi"}}}}}
        arguments["run"]["schema"]["columns"]["town"] = {"role": "quasi"}
        await jobs.warm_up()
        (worker,) = jobs._spare
        job = jobs.start("p", "explore", 1, arguments)
        while job.state == "waiting":
            await asyncio.sleep(0.01)
        worker._process.send_signal(signal.SIGKILL)
        while not job.is_over:
            await asyncio.sleep(0.01)
        assert (job.state, job.error["code"]) == ("failed", "service.failed")
        assert not jobs._spare

    run(work)


def test_a_process_is_used_again(table):
    async def work(jobs):
        pids = set()
        for project in "abcdef":
            await jobs.ask(project, "preview", table)
            pids.add(jobs._warm[project]._process.pid)
        assert len(pids) == 3

    run(work)


def test_the_same_job_is_not_started_twice(table):
    async def work(jobs):
        arguments = {**table, "run": {"schema": {"columns": {}}}}
        first = jobs.start("p", "explore", 1, arguments)
        assert jobs.start("p", "explore", 1, arguments) is first
        await jobs.cancel(first)
        assert first.state == "cancelled"
        assert jobs.start("p", "explore", 1, arguments) is not first
        await jobs.forget("p")
        assert jobs.of_project("p") == []

    run(work)


def test_an_answer_that_is_too_long_is_not_taken_for_the_next_one(table, monkeypatch):
    monkeypatch.setattr("microcell.studio.jobs.LONGEST_LINE", 200)

    async def work(jobs):
        with raises(ServiceError, "service.failed"):
            await jobs.ask("p", "preview", table)
        with raises(ServiceError, "service.failed"):  # a fresh process, not the rest of the answer
            await jobs.ask("p", "preview", table)
        job = jobs.start("p", "preview", 1, table)
        while not job.is_over:
            await asyncio.sleep(0.01)
        assert (job.state, job.error["code"]) == ("failed", "service.failed")

    run(work)
