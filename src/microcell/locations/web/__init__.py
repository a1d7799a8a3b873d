"""The service on the web: routes, what stands before them, and the server."""

from microcell.locations.web._app import create_app
from microcell.locations.web._serving import listen_on, serve
from microcell.locations.web._settings import Settings

__all__ = ["Settings", "create_app", "listen_on", "serve"]
