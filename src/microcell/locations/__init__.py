"""Location anonymizer: devices exchange an exact location for one that at least k devices share.

Names are imported on first use; the service requires the extra ``locations``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from microcell._extras import missing_extra

if TYPE_CHECKING:
    from microcell.locations.anonymizer import Anonymizer
    from microcell.locations.client import Client
    from microcell.locations.clustering import Clustering, cluster, merge
    from microcell.locations.exchange import (
        ExportSummary,
        ImportSummary,
        check_output,
        export_places,
        import_people,
    )
    from microcell.locations.polygons import cell_polygons
    from microcell.locations.records import (
        Account,
        Alarm,
        Answer,
        CellSummary,
        Overview,
        Place,
        Publication,
        Status,
        WhatIf,
    )
    from microcell.locations.scenarios import what_if
    from microcell.locations.simulation import Demonstration, SimulationResult, make_city, simulate
    from microcell.locations.vault import new_key, read_key
    from microcell.locations.web import Settings, create_app, listen_on, serve

_HOMES = {
    "anonymizer": ("Anonymizer",),
    "client": ("Client",),
    "clustering": ("Clustering", "cluster", "merge"),
    "exchange": (
        "ExportSummary",
        "ImportSummary",
        "check_output",
        "export_places",
        "import_people",
    ),
    "polygons": ("cell_polygons",),
    "records": (
        "Account",
        "Alarm",
        "Answer",
        "CellSummary",
        "Overview",
        "Place",
        "Publication",
        "Status",
        "WhatIf",
    ),
    "scenarios": ("what_if",),
    "simulation": ("Demonstration", "SimulationResult", "make_city", "simulate"),
    "vault": ("new_key", "read_key"),
    "web": ("Settings", "create_app", "listen_on", "serve"),
}
_MODULE_OF = {
    name: f"microcell.locations.{module}" for module, names in _HOMES.items() for name in names
}

__all__ = [
    "Account",
    "Alarm",
    "Anonymizer",
    "Answer",
    "CellSummary",
    "Client",
    "Clustering",
    "Demonstration",
    "ExportSummary",
    "ImportSummary",
    "Overview",
    "Place",
    "Publication",
    "Settings",
    "SimulationResult",
    "Status",
    "WhatIf",
    "cell_polygons",
    "check_output",
    "cluster",
    "create_app",
    "export_places",
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

_EXTRA = (
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
"""Packages of the extra ``locations``."""


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'microcell.locations' has no attribute {name!r}")
    try:
        value = getattr(import_module(_MODULE_OF[name]), name)
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in _EXTRA:
            raise
        raise missing_extra("Location services", package, extra="locations") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
