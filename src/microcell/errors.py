"""The exceptions of microcell, one tree.

::

    MicrocellError
    ├── SchemaError          the schema does not fit the table, or contradicts itself
    ├── TableError           a table or file cannot be read or written
    ├── DataError            values that the chosen kind or method cannot use
    ├── OptionError          an option is unknown, unused by the method, or out of range
    ├── ServiceError         a service cannot be reached, or cannot answer now
    ├── UnknownDeviceError   no device has this pseudonym and token
    └── GuaranteeError       what was asked for cannot be promised, so nothing is released
        ├── TooFewRecordsError   fewer records than k, in the table or in a stratum
        └── RequirementError     an audited release misses a requirement

Messages say what was given, what was expected and what to do. They name columns and row numbers (counted
from 1, header not counted), and never print a value of the table.
"""

__all__ = [
    "DataError",
    "GuaranteeError",
    "MicrocellError",
    "OptionError",
    "RequirementError",
    "SchemaError",
    "ServiceError",
    "TableError",
    "TooFewRecordsError",
    "UnknownDeviceError",
]


class MicrocellError(Exception):
    """Anything that microcell refuses to do, with the reason and what to do about it."""


class SchemaError(MicrocellError, ValueError):
    """The schema does not fit the table, or contradicts itself."""


class TableError(MicrocellError, ValueError):
    """A table or file cannot be read or written."""


class DataError(MicrocellError, ValueError):
    """The table holds values that the chosen kind or method cannot use."""


class OptionError(MicrocellError, ValueError):
    """An option is unknown, unused by the method, or out of range."""


class ServiceError(MicrocellError, RuntimeError):
    """A service cannot be reached, or cannot answer now."""


class UnknownDeviceError(MicrocellError, LookupError):
    """No device has this pseudonym and token; which of the two is wrong is not said."""


class GuaranteeError(MicrocellError, ValueError):
    """What was asked for cannot be promised, so nothing is released."""


class TooFewRecordsError(GuaranteeError):
    """Fewer records than k, in the table or in one of its strata."""


class RequirementError(GuaranteeError):
    """An audited release misses a requirement."""
