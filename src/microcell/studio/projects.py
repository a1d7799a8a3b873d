"""Projects: a table, the history of all steps, and the releases made from it, in one folder."""

import json
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from time import time
from typing import Any

from microcell._display import short_repr
from microcell.errors import OptionError, TableError

__all__ = ["Project", "Step", "Workspace"]

_DATABASE = "project.sqlite"
_NUMBER = re.compile(r"[0-9a-f]{16}")
_LAYOUT = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS steps (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    parent INTEGER REFERENCES steps(id),
    at TEXT NOT NULL,
    label TEXT NOT NULL,
    run TEXT NOT NULL,
    note TEXT NOT NULL DEFAULT ''
);
"""
_PRIVATE = 0o700


@dataclass(frozen=True, repr=False)
class Step:
    """One state of a project: what was changed, when, and the run file that resulted.

    ``run`` is the content of a run file as plain data, with the schema as a table.
    """

    id: int
    parent: int | None
    at: str
    label: str
    run: Mapping[str, Any]
    note: str = ""

    def __repr__(self) -> str:
        return short_repr(self, str(self.id))


class Project:
    """A project folder. Every change is a committed transaction, so nothing needs saving.

    Steps form a tree: a change after an undo begins a new branch, and the old one stays in the
    history. Undo and redo move the current step.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not (folder / _DATABASE).is_file():
            raise TableError(
                "This project does not exist. It may have been deleted.",
                code="table.not_found",
                path=folder.name,
            )

    def __repr__(self) -> str:
        return short_repr(self, self.id)

    @property
    def id(self) -> str:
        """Identifier in addresses: the name of the folder."""
        return self.folder.name

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.folder / _DATABASE, timeout=10.0)) as database:
            database.execute("PRAGMA synchronous=FULL")
            # Deleted steps must not stay readable in free pages.
            database.execute("PRAGMA secure_delete=ON")
            with database:
                yield database

    def fact(self, name: str, default: str = "") -> str:
        """Return a fact about the project, such as its title."""
        with self._connect() as database:
            row = database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return default if row is None else str(row[0])

    def set_facts(self, **facts: str) -> None:
        """Store facts about the project."""
        with self._connect() as database:
            _store(database, facts)

    @property
    def title(self) -> str:
        """Name of the project, at first that of its table."""
        return self.fact("title")

    @property
    def source(self) -> Path:
        """The table of the project."""
        return Path(self.fact("source"))

    @property
    def changed(self) -> float:
        """Time of the last change."""
        return (self.folder / _DATABASE).stat().st_mtime

    @property
    def head(self) -> Step:
        """The current step."""
        with self._connect() as database:
            row = database.execute(
                f"SELECT {_FIELDS} FROM steps WHERE id = (SELECT value FROM facts "
                "WHERE name = 'head')"
            ).fetchone()
        return _as_step(row)

    def steps(self) -> list[Step]:
        """Return all steps, oldest first."""
        with self._connect() as database:
            rows = database.execute(f"SELECT {_FIELDS} FROM steps ORDER BY id").fetchall()
        return [_as_step(row) for row in rows]

    def step(self, number: int) -> Step:
        """Return a step by its number."""
        with self._connect() as database:
            row = database.execute(
                f"SELECT {_FIELDS} FROM steps WHERE id = ?", (number,)
            ).fetchone()
        if row is None:
            raise OptionError(
                f"The project has no step {number}. Choose one from its history.",
                code="option.unknown",
                option="step",
            )
        return _as_step(row)

    def add_step(self, label: str, run: Mapping[str, Any], *, parent: int | None = None) -> Step:
        """Make a new state the current one. Nothing happens if it equals the current state.

        ``parent`` is the step that the change was made to, by default the current one. A change to
        another step than the current one (in a second window) is refused.
        """
        with self._connect() as database:
            database.execute("BEGIN IMMEDIATE")
            head = _head(database)
            if head is not None and parent is not None and head.id != parent:
                raise OptionError(
                    "The project was changed in another window. Reload the page and repeat the "
                    "change.",
                    code="option.conflict",
                    option="step",
                )
            if head is not None and head.run == run:
                return head
            cursor = database.execute(
                "INSERT INTO steps (parent, at, label, run) VALUES (?, ?, ?, ?)",
                (None if head is None else head.id, _now(), label, json.dumps(run)),
            )
            _store(database, {"head": str(cursor.lastrowid)})
        return self.head

    def undo(self) -> Step:
        """Go back one step; at the first step nothing happens."""
        parent = self.head.parent
        return self.head if parent is None else self.go_to(parent)

    def redo(self) -> Step:
        """Go forward to the latest step that followed the current one, if there is one."""
        following = self.following()
        return self.head if following is None else self.go_to(following)

    def following(self) -> int | None:
        """Return the number of the step that redo would go to."""
        with self._connect() as database:
            row = database.execute(
                "SELECT max(id) FROM steps WHERE parent = (SELECT CAST(value AS INTEGER) "
                "FROM facts WHERE name = 'head')"
            ).fetchone()
        return None if row[0] is None else int(row[0])

    def go_to(self, number: int) -> Step:
        """Make a step of the history the current one."""
        step = self.step(number)
        self.set_facts(head=str(step.id))
        return step

    def annotate(self, number: int, note: str) -> None:
        """Write a note to a step."""
        self.step(number)
        with self._connect() as database:
            database.execute("UPDATE steps SET note = ? WHERE id = ?", (note, number))

    def result_folder(self, number: int) -> Path:
        """Return the folder of the release made from a step, which may not exist."""
        return self.folder / "releases" / str(number)

    def results(self) -> list[int]:
        """Return the numbers of the steps that a complete release was made from."""
        folder = self.folder / "releases"
        if not folder.is_dir():
            return []
        return sorted(
            int(item.name)
            for item in folder.iterdir()
            if item.name.isdigit() and (item / "summary.json").is_file()
        )

    def cached(self, name: str, key: Any) -> Any:
        """Return a computed value that was stored for this key, or None."""
        path = self.folder / f"{name}.json"
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return content["value"] if content.get("key") == key else None

    def cache(self, name: str, key: Any, value: Any) -> None:
        """Store a computed value until the key changes."""
        path = self.folder / f"{name}.json"
        temporary = path.with_suffix(f".{token_hex(4)}.partial")
        temporary.write_text(json.dumps({"key": key, "value": value}), encoding="utf-8")
        os.replace(temporary, path)

    def delete(self) -> None:
        """Delete the project with its copy of the table and all releases, for good."""
        # Without its database the folder is no project, even if the rest cannot be removed.
        (self.folder / _DATABASE).unlink(missing_ok=True)
        shutil.rmtree(self.folder)


class Workspace:
    """The projects of one user: a folder that only they can read.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     workspace = Workspace(Path(folder) / "studio")
    ...     project = workspace.create("people", Path("people.csv"), {"k": 5})
    ...     _ = project.add_step("k", {"k": 10})
    ...     project.undo().run, project.redo().run, len(workspace.projects())
    ({'k': 5}, {'k': 10}, 1)
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
        folder.chmod(_PRIVATE)

    def __repr__(self) -> str:
        return short_repr(self)

    def projects(self) -> list[Project]:
        """Return all projects, the most recently changed first."""
        found = [
            Project(item)
            for item in self.folder.iterdir()
            if _NUMBER.fullmatch(item.name) and (item / _DATABASE).is_file()
        ]
        return sorted(found, key=lambda item: -item.changed)

    def project(self, number: str) -> Project:
        """Return the project with this identifier."""
        # The identifier comes from an address, so it must not lead out of the folder.
        if not _NUMBER.fullmatch(number):
            number = "0" * 16
        return Project(self.folder / number)

    def incoming(self, suffix: str) -> Path:
        """Return a generated name for a file that is being uploaded."""
        folder = self.folder / "incoming"
        folder.mkdir(exist_ok=True, mode=_PRIVATE)
        return folder / f"{token_hex(16)}{suffix}"

    def remove_uploads(self, seconds: float) -> None:
        """Remove uploads that no project was created from for this long."""
        folder = self.folder / "incoming"
        for path in folder.iterdir() if folder.is_dir() else ():
            if time() - path.stat().st_mtime > seconds:
                path.unlink(missing_ok=True)

    def create(self, title: str, source: Path, run: Mapping[str, Any]) -> Project:
        """Create a project. A table in the folder of uploads is moved into the project."""
        folder = self.folder / token_hex(8)
        folder.mkdir(mode=_PRIVATE)
        if source.parent == self.folder / "incoming":
            moved = folder / f"original{source.suffix}"
            os.replace(source, moved)
            source = moved
        with closing(sqlite3.connect(folder / _DATABASE)) as database, database:
            database.executescript(_LAYOUT)
            facts = {"title": title, "source": str(source), "created": _now()}
            _store(database, facts)
        project = Project(folder)
        project.add_step("opened", run)
        return project

    def size(self) -> int:
        """Return the number of bytes that all projects occupy."""
        return sum(item.stat().st_size for item in self.folder.rglob("*") if item.is_file())


_FIELDS = "id, parent, at, label, run, note"


def _head(database: sqlite3.Connection) -> Step | None:
    row = database.execute(
        f"SELECT {_FIELDS} FROM steps WHERE id = (SELECT value FROM facts WHERE name = 'head')"
    ).fetchone()
    return None if row is None else _as_step(row)


def _as_step(row: Any) -> Step:
    number, parent, at, label, run, note = row
    return Step(number, parent, at, label, json.loads(run), note)


def _store(database: sqlite3.Connection, facts: Mapping[str, str]) -> None:
    database.executemany(
        "INSERT INTO facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        facts.items(),
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
