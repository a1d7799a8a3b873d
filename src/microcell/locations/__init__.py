"""The location anonymizer: devices sign up with an exact place and get one that at least k of them share.

Names are loaded when first used; the service needs the extra ``locations``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from microcell.errors import OptionError

if TYPE_CHECKING:
    from microcell.locations.anonymizer import Anonymizer
    from microcell.locations.client import Client
    from microcell.locations.clustering import Clustering, cluster, merge
    from microcell.locations.exchange import (
        Exported,
        Imported,
        check_output,
        export_places,
        import_people,
    )
    from microcell.locations.polygons import geometries
    from microcell.locations.records import Account, CellSummary, Overview, Place, Status, WhatIf
    from microcell.locations.scenarios import what_if
    from microcell.locations.simulation import Simulated, make_city, simulate
    from microcell.locations.store import new_key, read_key
    from microcell.locations.web import Settings, create_app, listen_on, serve

_HOMES = {
    "anonymizer": ("Anonymizer",),
    "client": ("Client",),
    "clustering": ("Clustering", "cluster", "merge"),
    "exchange": ("Exported", "Imported", "check_output", "export_places", "import_people"),
    "records": ("Account", "CellSummary", "Overview", "Place", "Status", "WhatIf"),
    "polygons": ("geometries",),
    "simulation": ("Simulated", "make_city", "simulate"),
    "store": ("new_key", "read_key"),
    "scenarios": ("what_if",),
    "web": ("Settings", "create_app", "listen_on", "serve"),
}
_MODULE_OF = {
    name: f"microcell.locations.{module}" for module, names in _HOMES.items() for name in names
}

__all__ = [
    "Account",
    "Anonymizer",
    "CellSummary",
    "Client",
    "Clustering",
    "Exported",
    "Imported",
    "Overview",
    "Place",
    "Settings",
    "Simulated",
    "Status",
    "WhatIf",
    "check_output",
    "cluster",
    "create_app",
    "export_places",
    "geometries",
    "import_people",
    "listen_on",
    "make_city",
    "merge",
    "new_key",
    "read_key",
    "serve",
    "simulate",
    "what_if",
]

_PACKAGES = (
    "sqlalchemy",
    "psycopg",
    "cryptography",
    "fastapi",
    "starlette",
    "pydantic",
    "uvicorn",
    "prometheus_client",
    "httpx",
)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'microcell.locations' has no attribute {name!r}")
    try:
        value = getattr(import_module(_MODULE_OF[name]), name)
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in _PACKAGES:
            raise
        raise OptionError(
            f"The location anonymizer needs {package}, which is not installed: pip install 'microcell[locations]'"
        ) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
