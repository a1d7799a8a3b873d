"""From a table to a release: prepare, partition, enforce, aggregate, prove, describe, publish."""

from microcell.release.manifest import find_manifest, manifest_path, stored_reading

__all__ = ["find_manifest", "manifest_path", "stored_reading"]
