"""Tables beyond memory: data sets of files made k-anonymous on an engine of many workers (Dask)."""

from microcell.engines._datasets import DatasetRelease, anonymize_dataset

__all__ = ["DatasetRelease", "anonymize_dataset"]
