"""The service on the web: routes, what stands before them, and the server."""

from microcell.locations.web.app import create_app
from microcell.locations.web.serving import listen_on, serve
from microcell.locations.web.shield import Settings

__all__ = ["Settings", "create_app", "listen_on", "serve"]
