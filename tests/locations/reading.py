"""Direct access to the database, independent of the service."""

from dataclasses import dataclass

import sqlalchemy as sa


@dataclass(frozen=True)
class Seen:
    """Content of the database: cells and sealed bytes by pseudonym, places by cell, and k."""

    cell_of: dict
    places: dict
    k: int | None
    sealed: dict
    sites: list


def read_database(database):
    address = (
        database.replace("postgresql://", "postgresql+psycopg://")
        if "://" in database
        else f"sqlite:///{database}"
    )
    engine = sa.create_engine(address, poolclass=sa.pool.NullPool)
    try:
        with engine.connect() as connection:
            devices = connection.exec_driver_sql(
                "SELECT pseudonym, cell, sealed FROM location_devices"
            ).all()
            cells = connection.exec_driver_sql(
                "SELECT id, latitude, longitude FROM location_cells"
            ).all()
            sites = connection.exec_driver_sql("SELECT cell FROM location_sites").all()
            k = connection.exec_driver_sql("SELECT k FROM location_state").scalar_one_or_none()
    finally:
        engine.dispose()
    return Seen(
        {name: cell for name, cell, _ in devices},
        {cell: place for cell, *place in cells},
        k,
        {name: bytes(sealed) for name, _, sealed in devices},
        [cell for (cell,) in sites],
    )
