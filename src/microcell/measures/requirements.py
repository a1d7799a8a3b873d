"""The measures that a requirement may name: which way is better, and which of them merging cells can mend.

Names alone, so that commands can read requirements without loading what measures them.
"""

from collections.abc import Mapping

__all__ = ["ENFORCED", "LOWER_IS_BETTER", "OF_CONFIDENTIAL", "OF_QUASI", "base_of"]

OF_CONFIDENTIAL: Mapping[str, bool] = {
    "p_sensitivity": False,
    "l_diversity": False,
    "l_entropy": False,
    "l_recursive": False,
    "t_closeness": True,
    "t_kullback": True,
    "delta_disclosure": True,
    "disclosed_bits": True,
    "homogeneous_classes": True,
    "homogeneous_records": True,
    "dependence_loss": True,
}
"""The measures of confidential columns, of all or (as ``t_closeness.income``) of one; True where less is better."""

OF_QUASI: Mapping[str, bool] = dict.fromkeys(
    ("distortion", "il1s", "mean_change", "deviation_change"), True
)
"""The measures of quasi-identifiers, of all or of one; True where less is better."""

ENFORCED = frozenset({"k", "prosecutor_worst", *OF_CONFIDENTIAL}) - {
    "disclosed_bits",
    "dependence_loss",
}
"""The measures of a class alone, which merging it with others can mend."""

LOWER_IS_BETTER: Mapping[str, bool] = {
    **dict.fromkeys(("k", "classes", "records"), False),
    **dict.fromkeys(
        ("records_dropped", "records_unaccounted", "identifiers_left", "columns_missing"), True
    ),
    **dict.fromkeys(("columns_unexpected", "values_changed"), True),
    **dict.fromkeys(
        ("records_below_2k", "prosecutor_worst", "prosecutor_average", "marketer"), True
    ),
    **OF_CONFIDENTIAL,
    "diversity_average": False,
    **dict.fromkeys(
        ("linkage", "linkage_one", "linkage_two", "linkage_some", "dld", "interval_disclosure"),
        True,
    ),
    **OF_QUASI,
    **dict.fromkeys(
        ("correlation_change", "correlation_change_average", "eigenvalue_change"), True
    ),
    "propensity_error": True,
}
"""Every measure of the audit of a fresh release, without the name of a column; True where less is better."""


def base_of(name: str) -> str | None:
    """The measure's name without that of a column, which only some can have; None if there is no such measure.

    Examples
    --------
    >>> base_of("t_closeness.income"), base_of("k"), base_of("k.income")
    ('t_closeness', 'k', None)
    """
    base, dot, column = name.partition(".")
    with_column = base in OF_CONFIDENTIAL or base in OF_QUASI
    if base not in LOWER_IS_BETTER or (dot and not (column and with_column)):
        return None
    return base
