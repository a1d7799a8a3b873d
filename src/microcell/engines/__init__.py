"""Tables beyond memory: data sets of files made k-anonymous on an engine of many workers (Dask)."""

from microcell.engines._audits import audit_dataset
from microcell.engines._clusters import is_dask
from microcell.engines._datasets import DatasetRelease, anonymize_dataset
from microcell.engines._requests import check_engine

__all__ = ["DatasetRelease", "anonymize_dataset", "audit_dataset", "check_engine", "is_dask"]
