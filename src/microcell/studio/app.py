"""The routes of the studio: pages, and the JSON API that they use."""

import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from time import time
from typing import Annotated, Any, Literal

from fastapi import Body, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    StreamingResponse,
)
from pydantic import BaseModel, ConfigDict, Field

import microcell as mc
from microcell import __version__
from microcell._display import record_repr
from microcell._files import unwritable
from microcell.errors import MicrocellError, OptionError, TableError
from microcell.studio import changes, pages, views
from microcell.studio.jobs import Job, Jobs
from microcell.studio.projects import Project, Workspace
from microcell.studio.security import Access, App, Guard, cookie_name, gives_token, user_folder
from microcell.tables.files import FORMATS

__all__ = ["Settings", "create_studio", "store_upload"]

RESERVE = 200 * 2**20
"""Bytes of the disk that uploads leave free."""

_DAY = 86_400.0
UPLOADS_KEPT = _DAY
"""Seconds for which an upload waits for its project."""

_STATUS = {"table.not_found": 404, "option.unknown": 404, "option.conflict": 409}
_SANDBOX = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
    "frame-ancestors 'self'; sandbox"
)
"""Policy of reports and figures: they carry their own styles, and no scripts."""


@dataclass(frozen=True)
class Settings:
    """Settings of the studio.

    Parameters
    ----------
    folder
        Where the projects are kept.
    shared
        Several people use the studio: files of the machine cannot be opened by their path, and each
        person has a workspace.
    quota
        Bytes that the projects of one person may occupy; 0 for no limit.
    expiry
        Days after which an unchanged project of a shared studio is deleted; 0 for never.
    memory
        Bytes of memory that one process may use; 0 for no limit.
    warm_up
        Start a process for tables when the first page is opened, before it is needed.
    """

    folder: Path
    shared: bool = False
    quota: int = 0
    expiry: int = 0
    memory: int = 0
    warm_up: bool = True

    __repr__ = record_repr


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class NewProject(_Model):
    """Where the table of a new project comes from: an upload, a path or the bundled example."""

    upload: str | None = Field(default=None, description="Identifier of an upload.")
    name: str | None = Field(default=None, max_length=200, description="Name of the project.")
    path: str | None = Field(default=None, max_length=4096, description="Path of a local file.")
    sample: Literal["survey", "visits"] | None = Field(
        default=None, description="A bundled example."
    )


class EditEntry(_Model):
    """A change of one key of the run file."""

    path: list[str] = Field(
        min_length=1, max_length=5, description='Keys, such as `["schema", "columns", "age"]`.'
    )
    value: Any = Field(default=None, description="The new value; null removes the key.")


class Change(_Model):
    """Changes of a project, which become one step of its history."""

    step: int | None = Field(default=None, description="The step that was changed.")
    edits: list[EditEntry] = Field(default=[], max_length=200)
    fields: dict[str, dict[str, str]] = Field(
        default={}, description="Options of columns as text, as typed into a form."
    )
    preset: str | None = Field(default=None, description="A typical goal.")
    title: str | None = Field(default=None, max_length=200, description="New name of the project.")


class NewJob(_Model):
    """A task to run in the background."""

    kind: Literal["explore", "make_release"]


class Move(_Model):
    """Where to go in the history."""

    to: Literal["undo", "redo"] | int


class Note(_Model):
    """A note to a step."""

    text: str = Field(max_length=10_000)


def create_studio(settings: Settings, access: Access) -> App:
    """Return the application."""
    jobs = Jobs(settings.memory)
    # Documentation pages would load scripts from elsewhere; the schema itself is served.
    app = FastAPI(
        title="microcell studio",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    studio = _Studio(settings, access, jobs)
    _handle_errors(app)
    for add in (_add_pages, _add_projects, _add_steps, _add_jobs, _add_files):
        add(app, studio)
    return Guard(app, access)


@dataclass(frozen=True)
class _Studio:
    settings: Settings
    access: Access
    jobs: Jobs

    def workspace(self, request: Request) -> Workspace:
        """Return the projects of whoever sent the request."""
        user = request.scope["state"]["user"]
        folder = self.settings.folder
        return Workspace(user_folder(folder, user) if self.settings.shared else folder)

    def project(self, request: Request, number: str) -> Project:
        return self.workspace(request).project(number)

    def job(self, request: Request, number: str) -> Job:
        job = self.jobs.job(number)
        self.project(request, job.project)  # it must belong to the same person
        return job

    def csrf(self, request: Request) -> str:
        return self.access.csrf_token(request.scope["state"]["user"])

    def page(self, request: Request, name: str, **content: Any) -> HTMLResponse:
        html = pages.render(name, csrf=self.csrf(request), shared=self.settings.shared, **content)
        return HTMLResponse(html)

    async def expire(self) -> None:
        """Delete abandoned uploads, and what was not changed for a long time in a shared studio."""
        folder = self.settings.folder
        folders = [item for item in folder.iterdir() if item.is_dir()] if folder.is_dir() else []
        for workspace in map(Workspace, folders if self.settings.shared else [folder]):
            workspace.remove_uploads(UPLOADS_KEPT)
            for project in workspace.projects() if self.settings.expiry else ():
                if time() - project.changed > _DAY * self.settings.expiry:
                    await self.jobs.forget(project.id)
                    project.delete()


def _handle_errors(app: FastAPI) -> None:
    @app.exception_handler(MicrocellError)
    async def tell(request: Request, error: MicrocellError) -> Response:
        status = _STATUS.get(error.code, 422)
        body = {"code": error.code, "message": str(error), "details": dict(error.details)}
        if request.url.path.startswith("/api/"):
            return JSONResponse({"error": _plain(body)}, status)
        return HTMLResponse(pages.render("error.html", error=body, csrf="", shared=True), status)

    @app.exception_handler(RequestValidationError)
    async def reject(request: Request, error: RequestValidationError) -> Response:  # noqa: ARG001
        # The errors of pydantic quote what was sent.
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        message = f"The request is invalid at {where}."
        body = {"code": "service.invalid_field", "message": message, "details": {}}
        return JSONResponse({"error": body}, 422)


def _plain(body: Mapping[str, Any]) -> Any:
    return {key: value if key != "details" else {k: str(v) for k, v in value.items()}
            for key, value in body.items()}  # fmt: skip


def _add_pages(app: FastAPI, studio: _Studio) -> None:
    @app.get("/", include_in_schema=False)
    async def start(request: Request) -> Response:
        if gives_token(request.scope):
            if not studio.access.redeem(request.query_params["token"]):
                message = "This address was used before. Restart the studio for a new one."
                error = {"code": "service.unauthorized", "message": message}
                page = pages.render("error.html", error=error, csrf="", shared=True)
                return HTMLResponse(page, 401)
            response: Response = RedirectResponse("/", 303)
            response.set_cookie(
                cookie_name(request.scope),
                studio.access.session,
                httponly=True,
                samesite="strict",
                path="/",
            )
            return response
        workspace = studio.workspace(request)
        await studio.expire()
        if studio.settings.warm_up:
            await studio.jobs.warm_up()
        return studio.page(request, "start.html", projects=_listing(workspace))

    @app.get("/projects/{number}", include_in_schema=False)
    async def open_project(number: str) -> Response:
        return RedirectResponse(f"/projects/{number}/columns", 303)

    @app.get("/projects/{number}/{screen}", include_in_schema=False)
    async def screen(request: Request, number: str, screen: str) -> Response:
        project = studio.project(request, number)
        content = await views.show(screen, project, studio.jobs)
        return studio.page(request, f"{screen.replace('-', '_')}.html", **content)

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        files = pages.static_files()
        if name not in files:
            return Response(status_code=404)
        body, media_type = files[name]
        return Response(body, media_type=media_type, headers={"cache-control": "max-age=3600"})


def _listing(workspace: Workspace) -> list[dict[str, Any]]:
    return [
        {
            "id": project.id,
            "title": project.title,
            "created": project.fact("created"),
            "source": project.source.name,
            "releases": len(project.results()),
        }
        for project in workspace.projects()
    ]


def _add_projects(app: FastAPI, studio: _Studio) -> None:
    @app.get("/api/projects")
    async def list_projects(request: Request) -> list[dict[str, Any]]:
        """List all projects, the most recently changed first."""
        return _listing(studio.workspace(request))

    @app.put("/api/uploads")
    async def upload(request: Request, name: Annotated[str, Query(max_length=255)]) -> Any:
        """Upload a file; it is streamed to the disk under a generated name."""
        workspace = studio.workspace(request)
        path = workspace.incoming(_suffix(name))
        await store_upload(request, path, _room(studio.settings, workspace))
        return {"upload": path.name}

    @app.post("/api/projects", status_code=201)
    async def create(request: Request, new: Annotated[NewProject, Body()]) -> Any:
        """Create a project from an upload, a local file or the bundled example."""
        workspace = studio.workspace(request)
        title, source = _source_of(new, workspace, studio.settings)
        project = workspace.create(title, source, changes.first_run(None, {}))
        try:
            facts = await views.inspection_of(project, project.head, studio.jobs)
        except MicrocellError:
            # The screen on reading the file shows what is wrong with it.
            return {"id": project.id, "next": "read"}
        project.add_step("columns drafted", changes.first_run(facts["schema"], {}))
        return {"id": project.id, "next": "columns"}

    @app.get("/api/projects/{number}")
    async def describe(request: Request, number: str) -> Any:
        """Return the current state of a project."""
        return views.describe_project(studio.project(request, number), studio.jobs)

    @app.delete("/api/projects/{number}", status_code=204)
    async def delete(request: Request, number: str) -> Response:
        """Delete a project with its copy of the table and its releases, for good."""
        project = studio.project(request, number)
        await studio.jobs.forget(project.id)
        project.delete()
        return Response(status_code=204)

    @app.get("/api/projects/{number}/{screen}")
    async def screen(request: Request, number: str, screen: str) -> Any:
        """Return the content of a screen as data."""
        return await views.show(screen, studio.project(request, number), studio.jobs)


def _suffix(name: str) -> str:
    suffix = Path(name).suffix.lower()
    if suffix not in FORMATS:
        raise TableError(
            f"Files of this type cannot be read. Supported: {', '.join(sorted(FORMATS))}.",
            code="table.unknown_format",
        )
    return suffix


def _room(settings: Settings, workspace: Workspace) -> int:
    """Return how many bytes may be uploaded."""
    free = shutil.disk_usage(workspace.folder).free - RESERVE
    return min(free, settings.quota - workspace.size()) if settings.quota else free


async def store_upload(request: Request, path: Path, room: int) -> None:
    """Write the body of a request to a file, piece by piece; leave nothing behind if it fails."""
    written = 0
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            async for piece in request.stream():
                written += len(piece)
                if written > room:
                    raise TableError(
                        "There is not enough room for this file. Delete projects that you no "
                        "longer need.",
                        code="table.too_large",
                    )
                file.write(piece)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise unwritable(path.parent, error) from None
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _source_of(new: NewProject, workspace: Workspace, settings: Settings) -> tuple[str, Path]:
    """Return the title and the table of a new project."""
    if new.sample is not None:
        path = workspace.incoming(".csv")
        table = mc.sample_survey() if new.sample == "survey" else mc.sample_visits()
        mc.write(table, path)
        return {"survey": "people", "visits": "visits"}[new.sample], path
    if new.upload is not None:
        path = workspace.folder / "incoming" / Path(new.upload).name
        if not path.is_file():
            raise TableError(
                "The upload does not exist. Choose the file again.", code="table.not_found"
            )
        return Path(new.name or "table").stem or "table", path
    if new.path is None or settings.shared:
        raise OptionError(
            "Choose a file to upload." if settings.shared else "Name a file or choose one.",
            code="option.missing",
            option="path",
        )
    path = Path(new.path).expanduser().resolve()
    _suffix(path.name)
    if not path.is_file():
        raise TableError(
            "There is no file with this path. Check the spelling.", code="table.not_found"
        )
    return new.name or path.stem, path


def _add_steps(app: FastAPI, studio: _Studio) -> None:
    @app.patch("/api/projects/{number}")
    async def change(request: Request, number: str, change: Annotated[Change, Body()]) -> Any:
        """Change the settings of a project; every change is a step that can be undone."""
        project = studio.project(request, number)
        if change.title is not None:
            project.set_facts(title=change.title.strip() or project.title)
        head = project.head
        facts: Mapping[str, Any] = {}
        if any(entry.path[-1] == "role" for entry in change.edits):
            found = await views.inspection_of(project, head, studio.jobs)
            facts = {item["name"]: item for item in found["columns"]}
        edits: list[changes.Edit] = [(entry.path, entry.value) for entry in change.edits]
        for column, fields in change.fields.items():
            edits += [
                (["schema", "columns", column, name], changes.field_value(name, text))
                for name, text in fields.items()
            ]
        run, label = changes.apply_edits(
            head.run, edits, facts, allow_files=not studio.settings.shared
        )
        if change.preset is not None:
            run, label = changes.apply_preset(run, change.preset)
        if any(entry.path[0] == "read" for entry in change.edits):
            run = await _drafted_again(project, run, studio.jobs)
        project.add_step(label or "unchanged", run, parent=change.step)
        return views.describe_project(project, studio.jobs)

    @app.post("/api/projects/{number}/history")
    async def move(request: Request, number: str, move: Annotated[Move, Body()]) -> Any:
        """Undo, redo, or return to any step."""
        project = studio.project(request, number)
        if move.to == "undo":
            project.undo()
        elif move.to == "redo":
            project.redo()
        else:
            project.go_to(int(move.to))
        return views.describe_project(project, studio.jobs)

    @app.put("/api/projects/{number}/history/{step}/note")
    async def note(request: Request, number: str, step: int, note: Annotated[Note, Body()]) -> Any:
        """Write a note to a step."""
        project = studio.project(request, number)
        project.annotate(step, note.text)
        return views.describe_project(project, studio.jobs)


async def _drafted_again(project: Project, run: dict[str, Any], jobs: Jobs) -> dict[str, Any]:
    """Draft the columns again if the table is read in another way and has other columns."""
    arguments = {"path": str(project.source), "options": run.get("read", {})}
    with suppress(MicrocellError):
        facts = await jobs.ask(project.id, "inspect", arguments)
        names = set(facts["schema"]["columns"])
        if names != set(run.get("schema", {}).get("columns", {})):
            fresh = changes.first_run(facts["schema"], run.get("read", {}))
            return {**run, **{key: fresh[key] for key in ("schema", "require") if key in fresh}}
    return run


def _add_jobs(app: FastAPI, studio: _Studio) -> None:
    @app.post("/api/projects/{number}/jobs", status_code=202)
    async def start(request: Request, number: str, new: Annotated[NewJob, Body()]) -> Any:
        """Explore several k, or make a release of the current step."""
        project = studio.project(request, number)
        head = project.head
        arguments: dict[str, Any] = {
            "path": str(project.source),
            "options": dict(head.run.get("read", {})),
            "run": dict(head.run),
        }
        finish: Callable[[Mapping[str, Any]], None] = lambda _: None  # noqa: E731
        if new.kind == "make_release":
            arguments["folder"] = str(project.result_folder(head.id))
            arguments["name"] = views.release_name(project, head)
        else:
            key = views.exploration_key(project, head)
            finish = lambda result: project.cache("exploration", key, result)  # noqa: E731
        return studio.jobs.start(project.id, new.kind, head.id, arguments, finish).as_dict()

    @app.get("/api/jobs/{number}")
    async def describe(request: Request, number: str) -> Any:
        """Return the state of a job."""
        return studio.job(request, number).as_dict()

    @app.delete("/api/jobs/{number}")
    async def cancel(request: Request, number: str) -> Any:
        """Cancel a job. A release that its quick first search made remains."""
        job = studio.job(request, number)
        await studio.jobs.cancel(job)
        return job.as_dict()

    @app.get("/api/jobs/{number}/events")
    async def events(request: Request, number: str) -> Response:
        """Send the state of a job whenever it changes, as server-sent events."""
        job = studio.job(request, number)

        async def stream() -> AsyncIterator[str]:
            async for state in studio.jobs.events(job):
                yield f"data: {dumps(state)}\n\n"

        return StreamingResponse(stream(), media_type="text/event-stream")


def _add_files(app: FastAPI, studio: _Studio) -> None:
    @app.get("/projects/{number}/releases/{step}/{name}", include_in_schema=False)
    async def download(
        request: Request, number: str, step: int, name: str, show: Annotated[bool, Query()] = False
    ) -> Response:
        project = studio.project(request, number)
        folder = project.result_folder(step)
        present = {item.name for item in folder.iterdir()} if folder.is_dir() else set()
        if name not in present:
            raise TableError("There is no such file.", code="table.not_found")
        headers = {"content-security-policy": _SANDBOX}
        if show and Path(name).suffix in (".html", ".svg", ".pdf"):
            return FileResponse(folder / name, headers=headers)
        return FileResponse(folder / name, filename=name, headers=headers)
