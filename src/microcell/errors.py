"""Exceptions, and the stable codes that they carry.

::

    MicrocellError
    ├── SchemaError          the schema does not fit the table or contradicts itself
    ├── TableError           a table or file cannot be read or written
    ├── DataError            the table contains values that cannot be used
    ├── OptionError          an option is unknown, unsupported or out of range
    ├── ServiceError         a service cannot be reached or cannot answer now
    ├── UnknownDeviceError   no device has this pseudonym and token
    └── GuaranteeError       the requested guarantee cannot be given, so nothing is released
        ├── TooFewRecordsError   fewer records than k, in the table or in a stratum
        └── RequirementError     a release does not meet a requirement

A message says what is wrong, where, and what to do. It names columns and row numbers (counted from
1, without the header) and never contains a value of the table. Messages may be reworded in any
release; :attr:`MicrocellError.code` is stable, so programs should test that.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

__all__ = [
    "CODES",
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

CODES: Mapping[str, str] = {
    # The schema.
    "schema.invalid": "The schema contradicts itself or is not a schema.",
    "schema.unknown_column": "The schema names a column that the table does not have.",
    "schema.duplicate_role": "A column has more than one role.",
    "schema.wrong_kind": "A column cannot be used as the kind that the schema declares.",
    "schema.no_quasi_identifier": "The schema declares no quasi-identifier.",
    "schema.person_required": "People have several rows, and the schema names no person column.",
    "schema.category_order": "The order of an ordinal column is missing or incomplete.",
    "schema.bad_hierarchy": "A hierarchy is empty or puts a value into two groups.",
    "schema.unknown_category": "A column contains a value that its hierarchy does not have.",
    "schema.bad_file": "A schema or run file is not valid TOML or has an unknown or invalid key.",
    # Tables and files.
    "table.unreadable": "A table or file cannot be read.",
    "table.not_found": "A file does not exist.",
    "table.malformed": "A file is malformed; the message names the row.",
    "table.too_large": "A compressed file would expand to far more than its own size.",
    "table.bad_encoding": "A text file is not in the expected encoding.",
    "table.unknown_format": "The file format is not supported.",
    "table.unsupported_type": "A column has a type that is not supported.",
    "table.bad_names": "Column names are empty, duplicated or not text.",
    "table.incomplete": "The files of a release do not belong together; publish it again.",
    "table.mismatch": "Two tables or files that belong together do not match.",
    "table.unwritable": "A file cannot be written.",
    "table.exists": "An output file exists already, or an output would overwrite an input.",
    "table.locked": "Another process is using the file or folder.",
    "table.format_limit": "The file format cannot hold this table without changing it.",
    # Values.
    "data.invalid": "The table contains values that cannot be used.",
    "data.empty": "The table has no records.",
    "data.missing_values": "Values are missing where they are required.",
    "data.not_finite": "A column contains infinity, NaN or numbers too large to compute with.",
    "data.out_of_range": "Numbers of a column are outside its range: degrees or probabilities.",
    "data.not_a_number": "A column contains values that are not numbers.",
    "data.unknown_category": "A column contains a category that is not declared or not known.",
    "data.bad_weight": "Sampling weights are missing, negative or all zero.",
    "data.weight_ratio": "The largest sampling weight is more than 1e12 times the smallest.",
    "data.repeated": "People or rows of a batch are already in the session.",
    "data.bad_key": "A key column has missing, repeated or unmatched values.",
    # Options.
    "option.invalid": "An option has an invalid value.",
    "option.unknown": "An option, method, measure or other name is not known.",
    "option.out_of_range": "A number is outside the allowed range.",
    "option.wrong_type": "An option has the wrong type.",
    "option.conflict": "Two options cannot be combined.",
    "option.unsupported": "An option is not supported by this method, engine or kind of cells.",
    "option.missing": "A required option or argument is missing.",
    "option.duplicate_batch": "A session already contains exactly the records of this batch.",
    "option.extra_missing": "A package of an optional extra is not installed.",
    # The guarantee.
    "guarantee.failed": "The guarantee cannot be given, so nothing is released.",
    "guarantee.too_few_records": "The table has fewer records than k.",
    "guarantee.stratum_too_small": "A stratum has fewer records than k.",
    "guarantee.session_finished": "A session is finished, so nothing can be added to it.",
    "guarantee.design_released": "A survey's design has been released with other answers.",
    "guarantee.requirement_not_met": "The release does not meet a requirement.",
    "guarantee.findings": "Strict mode: a danger or a warning was found.",
    # Services.
    "service.unavailable": "The service cannot be reached or cannot answer now.",
    "service.unknown_device": "No device has this pseudonym and token.",
    "service.unauthorized": "The token is missing or not accepted.",
    "service.bad_request": "The request is malformed, too large, too slow or for an unknown path.",
    "service.invalid_field": "A field of the request is missing, unknown or out of range.",
    "service.rate_limited": "Too many requests; try again after the time in Retry-After.",
    "service.failed": "The service failed while handling the request; its log says where.",
    # The machine (reported by the command line).
    "system.io_error": "The operating system could not read or write a file.",
    "system.out_of_memory": "There is not enough memory for the table.",
    "internal.bug": "An unexpected exception, which is a bug in microcell.",
}
"""Every error code and its meaning. Codes are stable: they are never renamed or reused."""


class MicrocellError(Exception):
    """Base class of the errors that microcell raises on purpose.

    Parameters
    ----------
    message
        What is wrong, where, and what to do.
    code
        One of :data:`CODES`; the default is that of the class.
    details
        Facts for programs, such as ``column="age"`` or ``row=3``. Never a value of the table.

    Examples
    --------
    >>> error = SchemaError("No column 'agee'.", code="schema.unknown_column", column="agee")
    >>> error.code, error.details
    ('schema.unknown_column', {'column': 'agee'})
    """

    default_code: ClassVar[str] = "data.invalid"

    def __init__(self, message: str = "", *, code: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.code = code or self.default_code
        self.details = details


class SchemaError(MicrocellError, ValueError):
    """The schema does not fit the table or contradicts itself."""

    default_code = "schema.invalid"


class TableError(MicrocellError, ValueError):
    """A table or file cannot be read or written."""

    default_code = "table.unreadable"


class DataError(MicrocellError, ValueError):
    """The table contains values that the chosen kind or method cannot use."""

    default_code = "data.invalid"


class OptionError(MicrocellError, ValueError):
    """An option is unknown, unsupported or out of range."""

    default_code = "option.invalid"


class ServiceError(MicrocellError, RuntimeError):
    """A service cannot be reached or cannot answer now."""

    default_code = "service.unavailable"


class UnknownDeviceError(MicrocellError, LookupError):
    """No device has this pseudonym and token. The error does not say which of the two is wrong."""

    default_code = "service.unknown_device"


class GuaranteeError(MicrocellError, ValueError):
    """The requested guarantee cannot be given, so nothing is released.

    Examples
    --------
    >>> import microcell as mc
    >>> try:
    ...     mc.anonymize({"age": [31, 52]}, mc.Schema(quasi=["age"]), k=5)
    ... except mc.GuaranteeError as error:
    ...     error.code
    'guarantee.too_few_records'
    """

    default_code = "guarantee.failed"


class TooFewRecordsError(GuaranteeError):
    """Fewer records than k, in the table or in one of its strata."""

    default_code = "guarantee.too_few_records"


class RequirementError(GuaranteeError):
    """A release does not meet a requirement.

    Examples
    --------
    >>> import microcell as mc
    >>> people, schema = mc.sample_survey(100), mc.sample_schema()
    >>> try:
    ...     mc.audit(people, people, schema).require(k=5)
    ... except mc.RequirementError as error:
    ...     "k" in error.details["measures"]
    True
    """

    default_code = "guarantee.requirement_not_met"
