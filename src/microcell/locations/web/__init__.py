"""Web interface of the service: routes and middleware."""

from microcell._server import listen_on, serve
from microcell.locations.web.app import create_app
from microcell.locations.web.middleware import Settings

__all__ = ["Settings", "create_app", "listen_on", "serve"]
