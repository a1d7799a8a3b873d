"""k-anonymous tables by microaggregation."""

__version__ = "0.1.0"
