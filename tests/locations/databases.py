"""Test databases: SQLite files, and a temporary PostgreSQL server."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

KINDS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]
QUICK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Memory-backed directory; tests kill processes but not the machine, so no disk is needed."""


def find_programs():
    """Return the directory of the PostgreSQL programs, or None."""
    places = [Path("/usr/lib/postgresql") / version / "bin" for version in ("17", "16", "15", "14")]
    actual = shutil.which("initdb")
    places += [Path(actual).resolve().parent] if actual else []
    return next((place for place in places if (place / "initdb").exists()), None)


def other_user():
    """Return the user to run PostgreSQL as; it refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("PostgreSQL does not run as root, and there is no other user")


class Server:
    """A temporary PostgreSQL server on a socket in a temporary directory."""

    def __init__(self, programs):
        self.programs, self.user, self.count = programs, other_user(), 0
        self.folder = Path(
            tempfile.mkdtemp(prefix="mcpg", dir=QUICK or "/tmp")
        )  # a socket's path must be short
        if self.user is not None:
            os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        self._run("initdb", "-D", "data", "-U", "tester", "-A", "trust", "--no-sync", "-E", "UTF8")
        self._run(
            "pg_ctl",
            "-D",
            "data",
            "-l",
            "log",
            "-w",
            "-t",
            "60",
            "-o",
            f"-F -k {self.folder} -h ''",
            "start",
        )

    def restart(self):
        """Terminate all connections and restart the server."""
        self._run("pg_ctl", "-D", "data", "-l", "log", "-w", "-t", "60", "-m", "fast", "restart")

    def _run(self, program, *arguments):
        as_user = (
            {}
            if self.user is None
            else {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}
        )
        command = [str(self.programs / program), *arguments]
        return subprocess.run(
            command, cwd=self.folder, check=True, stdout=subprocess.DEVNULL, **as_user
        )

    def new_database(self):
        """Return the URL of a new empty database."""
        self.count += 1
        name = f"db{self.count}"
        self._run("createdb", "-h", str(self.folder), "-U", "tester", name)
        return f"postgresql://tester@/{name}?host={self.folder}"

    def stop(self):
        self._run("pg_ctl", "-D", "data", "-m", "immediate", "-w", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgresql():
    programs = find_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    server = Server(programs)
    yield server
    server.stop()


@pytest.fixture(params=KINDS)
def new_database(request):
    """Function that creates an empty database and returns its URL, for each kind of database."""
    if request.param == "postgresql":
        yield request.getfixturevalue("postgresql").new_database
        return
    with tempfile.TemporaryDirectory(prefix="microcell", dir=QUICK) as folder:
        yield lambda: str(Path(tempfile.mkdtemp(dir=folder)) / "devices.db")
