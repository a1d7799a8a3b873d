"""Tables beyond memory: data sets of files made k-anonymous on an engine of many workers (Dask)."""

from microcell.dask.audit import audit_dataset
from microcell.dask.cluster import is_dask
from microcell.dask.release import DatasetRelease, anonymize_dataset
from microcell.dask.stages import check_engine

__all__ = ["DatasetRelease", "anonymize_dataset", "audit_dataset", "check_engine", "is_dask"]
