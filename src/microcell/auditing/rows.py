"""What is found where it is known which record of the original each published record comes from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from microcell.auditing.attacks import link_records
from microcell.auditing.distortion import ColumnDistortion, average, distort_columns
from microcell.auditing.learning import measure_learning
from microcell.auditing.linkage import read_linkage_points
from microcell.auditing.notes import unreadable_notes
from microcell.auditing.projection import project
from microcell.auditing.propensity import measure_propensity
from microcell.auditing.utility import study_utility
from microcell.model import Correlations, Floats, Integers, Measure, Projection, Quantiles, Schema, Table
from microcell.progress import report

__all__ = ["Compared", "compare_rows"]


@dataclass(frozen=True, eq=False)
class Compared:
    """What comparing rows found: measures and notes, and what is for the eye."""

    measures: tuple[Measure, ...] = ()
    notes: tuple[str, ...] = ()
    projection: Projection | None = None
    quantiles: tuple[Quantiles, ...] = ()
    correlations: Correlations | None = None
    linkage_by_known: Floats | None = None


def compare_rows(
    original: Table, released: Table, schema: Schema, classes: Integers, *, pairs: Integers, target: str | None
) -> Compared:
    """Linkage and utility of a release of one row or more, published row i being original row ``pairs[i]``."""
    columns = distort_columns(original, released, schema, pairs=pairs)
    report("measuring utility")
    utility = study_utility(original, released, schema, pairs=pairs)
    propensity = measure_propensity(original, released, schema, pairs=pairs)
    learning: tuple[Measure, ...] = ()
    if target is not None:
        report("learning a task")
        learning = measure_learning(original, released, schema, pairs=pairs, target=target)
    report("linking records")
    links = link_records(read_linkage_points(original, released, schema, pairs), classes)
    return Compared(
        measures=(*links.measures, *_distortions(columns), *utility.measures, *propensity, *learning),
        notes=tuple(unreadable_notes(columns)),
        projection=project(original, released, schema, pairs=pairs, classes=classes),
        quantiles=utility.quantiles,
        correlations=utility.correlations,
        linkage_by_known=links.by_known,
    )


def _distortions(columns: Sequence[ColumnDistortion]) -> Iterator[Measure]:
    if not columns:
        return
    yield Measure(
        "distortion",
        average(columns),
        "share",
        True,
        "Information lost in all: 0 is nothing, 1 as much as if all records were published alike.",
    )
    for item in columns:
        name = item.column.name
        yield Measure(f"distortion.{name}", item.loss.share, "share", True, f"Information lost of {name}.")
