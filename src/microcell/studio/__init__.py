"""The studio: a local web application for releases without programming.

A project is a folder with the table, a history of every step and the releases made from it. The
state of a project is a run file, so whatever is clicked together can also be run on the command
line. Tables are read and releases are made in processes of their own.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from microcell._server import listen_on, serve
    from microcell.studio.app import Settings, create_studio
    from microcell.studio.projects import Project, Workspace
    from microcell.studio.security import Access

_MODULES = {
    "Access": "studio.security",
    "Project": "studio.projects",
    "Settings": "studio.app",
    "Workspace": "studio.projects",
    "create_studio": "studio.app",
    "listen_on": "_server",
    "serve": "_server",
}

__all__ = ["Access", "Project", "Settings", "Workspace", "create_studio", "listen_on", "serve"]


def __getattr__(name: str) -> Any:
    # The web framework is an extra and slow to import; workers do not need it.
    if name not in _MODULES:
        raise AttributeError(f"module 'microcell.studio' has no attribute {name!r}")
    return getattr(import_module(f"microcell.{_MODULES[name]}"), name)
