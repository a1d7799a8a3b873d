"""What each measure is called, where it belongs, and what it means in plain words."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from microcell.model import Audit, Measure

__all__ = ["GLOSSARY", "GROUPS", "Entry", "Group", "base_of", "defined", "grouped", "label_of"]

GROUPS: Mapping[str, str] = {
    "anonymity": "Anonymity",
    "checks": "What must be 0",
    "disclosure": "Attribute disclosure",
    "linkage": "Linkage",
    "utility": "Utility",
    "other": "Other",
}
"""The groups of measures, in the order in which they are told, and their headings."""


@dataclass(frozen=True)
class Entry:
    """A measure in words: its group, a name for people, and what it means.

    ``exact`` says that it rests on the published table and on counts alone, so that all its digits may be public.
    """

    group: str
    label: str
    definition: str
    exact: bool = False


@dataclass(frozen=True)
class Group:
    """The measures of a group: those of the whole table, and those of single columns."""

    key: str
    heading: str
    overall: tuple[Measure, ...]
    by_column: tuple[Measure, ...]


GLOSSARY: Mapping[str, Entry] = {
    "k": Entry(
        "anonymity",
        "k",
        "Records in the smallest class of the published table. A missing value counts as a value.",
        exact=True,
    ),
    "classes": Entry(
        "anonymity",
        "Classes",
        "Different combinations of published quasi-identifiers and strata.",
        exact=True,
    ),
    "records": Entry("anonymity", "Records", "Published records.", exact=True),
    "records_dropped": Entry(
        "anonymity",
        "Records dropped",
        "Records of the original that are not published.",
        exact=True,
    ),
    "records_below_2k": Entry(
        "anonymity",
        "Records in small classes",
        "Share of the records in classes of fewer than 2k records, k being the smallest class: the least hidden ones.",
        exact=True,
    ),
    "prosecutor_worst": Entry(
        "anonymity",
        "Re-identification, at worst",
        "Probability of picking a person's own record in the smallest class, for someone who knows that the person is "
        "in the release.",
        exact=True,
    ),
    "prosecutor_average": Entry(
        "anonymity",
        "Re-identification, on average",
        "The same probability on average over records: classes divided by records.",
        exact=True,
    ),
    "marketer": Entry(
        "anonymity",
        "Records traced in all",
        "Share of the records expected to be traced to the right person by someone who tries it for all of them.",
        exact=True,
    ),
    "journalist_worst": Entry(
        "anonymity",
        "Traced in the population, at worst",
        "Probability that a record of the smallest class is traced to its person in the population that the release "
        "is a sample of.",
        exact=True,
    ),
    "journalist_average": Entry(
        "anonymity",
        "Traced in the population, on average",
        "The same probability on average over records.",
        exact=True,
    ),
    "records_unaccounted": Entry(
        "checks",
        "Records unaccounted for",
        "Published records beyond those of the original.",
        exact=True,
    ),
    "identifiers_left": Entry(
        "checks", "Identifiers left", "Columns that should be gone and are not.", exact=True
    ),
    "columns_missing": Entry(
        "checks",
        "Columns missing",
        "Columns to be published unchanged that are not in the release.",
        exact=True,
    ),
    "columns_unexpected": Entry(
        "checks",
        "Columns unexpected",
        "Columns of the release that have no role in the schema.",
        exact=True,
    ),
    "values_changed": Entry(
        "checks",
        "Values changed",
        "Values to be published unchanged that are not the original's.",
        exact=True,
    ),
    "manifest_contradictions": Entry(
        "checks",
        "Manifest contradicted",
        "Statements of the manifest that do not hold.",
        exact=True,
    ),
    "l_diversity": Entry(
        "disclosure",
        "Distinct l-diversity",
        "Distinct values of a confidential column in the class with the fewest. At 1, a class gives its value away.",
        exact=True,
    ),
    "p_sensitivity": Entry(
        "disclosure",
        "p-sensitivity",
        "Another name for distinct l-diversity: the same number.",
        exact=True,
    ),
    "l_entropy": Entry(
        "disclosure",
        "Entropy l-diversity",
        "Number of equally frequent values that would be as diverse as the least diverse class: exp(entropy).",
        exact=True,
    ),
    "l_recursive": Entry(
        "disclosure",
        "Recursive l-diversity",
        "Largest l so that in each class the most frequent value occurs less than 3 times as often as the l-th and "
        "all rarer ones together.",
        exact=True,
    ),
    "diversity_average": Entry(
        "disclosure",
        "Average diversity",
        "Distinct confidential values in a class, numbers in steps of 0.2 deviations: the least over columns, on "
        "average over classes.",
        exact=True,
    ),
    "t_closeness": Entry(
        "disclosure",
        "t-closeness",
        "Largest distance between a confidential column in a class and in the table, from 0, the same distribution, "
        "to 1 (earth mover's distance).",
        exact=True,
    ),
    "t_kullback": Entry(
        "disclosure",
        "Divergence at worst",
        "Largest Kullback-Leibler divergence of a confidential column in a class from the table, in bits.",
        exact=True,
    ),
    "delta_disclosure": Entry(
        "disclosure",
        "δ-disclosure",
        "Largest |log2(share in the class / share in the table)| of a value that occurs in the class.",
        exact=True,
    ),
    "disclosed_bits": Entry(
        "disclosure",
        "Bits disclosed on average",
        "What the class of a record tells of a confidential column on average: their mutual information.",
        exact=True,
    ),
    "homogeneous_classes": Entry(
        "disclosure",
        "Classes with one value",
        "Classes in which all records share one confidential value.",
        exact=True,
    ),
    "homogeneous_records": Entry(
        "disclosure",
        "Records in one-value classes",
        "Records in classes that share one confidential value.",
        exact=True,
    ),
    "linkage": Entry(
        "linkage",
        "Records found again",
        "Share of the records expected to be found again by someone who knows all quasi-identifiers of the original "
        "and takes the nearest published ones.",
    ),
    "linkage_one": Entry(
        "linkage",
        "Found again by one column",
        "The same for someone who knows only the one column that tells most.",
    ),
    "linkage_two": Entry(
        "linkage",
        "Found again by two columns",
        "The same for someone who knows only the two columns that tell most.",
    ),
    "linkage_some": Entry(
        "linkage",
        "Found again by some columns",
        "The same for someone who knows some columns: the mean over sets of them.",
    ),
    "dld": Entry(
        "linkage",
        "Nearest to its own original",
        "Share of the published records whose own original is the nearest to them of all originals, both tables "
        "standardized (distance-based linkage disclosure).",
    ),
    "interval_disclosure": Entry(
        "linkage",
        "Values nearly kept",
        "Share of the original values whose rank is within 1 % of the records of that of what is published for them.",
    ),
    "distortion": Entry(
        "utility",
        "Information lost",
        "Share of a column's differences that publishing has removed: 0 if each record kept its value, 1 if all were "
        "published alike. The mean over columns.",
    ),
    "il1s": Entry(
        "utility",
        "Average displacement",
        "How far a published value is from the original one, in deviations of the column times √2, on average over "
        "records and columns (IL1s).",
    ),
    "mean_change": Entry(
        "utility",
        "Change of means",
        "How far the mean of a quasi-identifier has moved, in deviations of the original: the largest over columns.",
    ),
    "deviation_change": Entry(
        "utility",
        "Change of deviations",
        "How much the deviation of a quasi-identifier has changed, as a share of the original's: the largest over "
        "columns.",
    ),
    "correlation_change": Entry(
        "utility",
        "Change of correlations",
        "How much the correlation of two columns has changed: the largest over pairs of columns.",
    ),
    "correlation_change_average": Entry(
        "utility",
        "Change of correlations, average",
        "How much the correlation of two columns has changed, on average over pairs of columns.",
    ),
    "eigenvalue_change": Entry(
        "utility",
        "Change of eigenvalues",
        "How much the eigenvalues of the correlations have changed, as a share of their sum.",
    ),
    "dependence_loss": Entry(
        "utility",
        "Dependence lost",
        "How badly the class of a record predicts the confidential columns: 0 if it tells them, 1 if no better than "
        "the whole table does.",
        exact=True,
    ),
    "propensity_error": Entry(
        "utility",
        "Told apart from the original",
        "How well a model tells published from original records: 0 if not at all, 1 if always (propensity score "
        "mean squared error times 4).",
    ),
    "task_released": Entry(
        "utility",
        "Learned from the release",
        "How well a column is predicted for records held back, when learned from the published ones: the share of "
        "right answers, or R² for numbers.",
    ),
    "task_original": Entry(
        "utility", "Learned from the original", "The same when learned from the original records."
    ),
    "task_baseline": Entry(
        "utility",
        "Without learning",
        "The same for who always answers the most frequent value, or the mean.",
    ),
    "task_loss": Entry(
        "utility",
        "Learning lost",
        "How much worse the column is predicted when learned from the release instead of the original.",
    ),
}
"""The measures by the part of their name before the point, in the order in which they are told."""


def base_of(name: str) -> str:
    """The name without its column.

    Examples
    --------
    >>> base_of("distortion.body.mass"), base_of("k")
    ('distortion', 'k')
    """
    return name.partition(".")[0]


def label_of(name: str) -> str:
    """The measure's name for people, with its column; the name as it is where it is not known.

    Examples
    --------
    >>> label_of("t_closeness.tsh"), label_of("novelty")
    ('t-closeness of tsh', 'novelty')
    """
    base, _, column = name.partition(".")
    if base not in GLOSSARY:
        return name
    return f"{GLOSSARY[base].label} of {column}" if column else GLOSSARY[base].label


def grouped(audit: Audit) -> tuple[Group, ...]:
    """All measures of the audit by group, in the order of the glossary; one that is not known is under "Other"."""
    places = {base: place for place, base in enumerate(GLOSSARY)}
    ordered = sorted(
        audit.measures.values(), key=lambda measure: places.get(base_of(measure.name), len(places))
    )
    found: dict[str, list[Measure]] = {key: [] for key in GROUPS}
    for measure in ordered:
        entry = GLOSSARY.get(base_of(measure.name))
        found["other" if entry is None else entry.group].append(measure)
    return tuple(_split(key, measures) for key, measures in found.items() if measures)


def defined(measures: Iterable[Measure]) -> Mapping[str, Entry]:
    """The definition of each measure there is, in the order of the glossary."""
    bases = {base_of(measure.name) for measure in measures}
    return {base: entry for base, entry in GLOSSARY.items() if base in bases}


def _split(key: str, measures: list[Measure]) -> Group:
    overall = tuple(measure for measure in measures if "." not in measure.name)
    by_column = tuple(measure for measure in measures if "." in measure.name)
    return Group(key, GROUPS[key], overall, by_column)
