"""Web interface of the service: routes, middleware and server."""

from microcell.locations.web.app import create_app
from microcell.locations.web.middleware import Settings
from microcell.locations.web.server import listen_on, serve

__all__ = ["Settings", "create_app", "listen_on", "serve"]
