"""Findings, tables and figures of an experiment, stored as files for the results page."""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

__all__ = ["Finding", "Shown", "Study", "read_study", "show_number"]

VERDICTS = ("reproduced", "better", "differs")


@dataclass(frozen=True)
class Finding:
    """A published result and ours, with a verdict.

    ``item`` is the paper's number ("Table III", "Fig. 9"). ``verdict`` is "reproduced", "better" or
    "differs"; ``why`` explains it and may be empty only for reproduced values.
    """

    item: str
    what: str
    theirs: str
    ours: str
    verdict: str
    why: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict must be one of {', '.join(VERDICTS)}, not {self.verdict!r}")
        if self.verdict == "differs" and not self.why:
            raise ValueError(f"{self.item}, {self.what}: a difference needs its explanation")


@dataclass(frozen=True)
class Shown:
    """A table or figure on the page: file, the paper's item, caption."""

    file: str
    item: str
    caption: str


class Study:
    """Results of one paper, written as findings.json, CSV tables and SVG figures."""

    def __init__(self, name: str, title: str, profile: str) -> None:
        self.name, self.title, self.profile = name, title, profile
        self.findings: list[Finding] = []
        self.shown: list[Shown] = []
        self.headline: list[dict[str, Any]] = []
        self.seconds: float | None = None
        self._tables: dict[str, tuple[list[str], list[Sequence[Any]]]] = {}
        self._figures: dict[str, Figure] = {}

    def find(
        self, item: str, what: str, theirs: object, ours: object, verdict: str, why: str = ""
    ) -> None:
        """Add a finding; numbers are shown with four significant digits."""
        self.findings.append(
            Finding(item, what, show_number(theirs), show_number(ours), verdict, why)
        )

    def table(self, name: str, item: str, caption: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add a table; all rows have the same keys."""
        listed = [dict(row) for row in rows]
        header = list(listed[0])
        self._tables[f"{name}.csv"] = header, [[row[key] for key in header] for row in listed]
        self.shown.append(Shown(f"{name}.csv", item, caption))

    def figure(self, name: str, item: str, caption: str, figure: Figure) -> None:
        """Add a figure."""
        self._figures[f"{name}.svg"] = figure
        self.shown.append(Shown(f"{name}.svg", item, caption))

    def write(self, folder: Path) -> None:
        """Write all files, replacing earlier ones."""
        folder.mkdir(parents=True, exist_ok=True)
        for old in [*folder.glob("*.csv"), *folder.glob("*.svg"), *folder.glob("findings.json")]:
            old.unlink()
        for name, (header, rows) in self._tables.items():
            with (folder / name).open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(header)
                writer.writerows([[show_number(value) for value in row] for row in rows])
        for name, figure in self._figures.items():
            # Fixed identifiers and no date: the same results give the same bytes.
            with mpl.rc_context({"svg.hashsalt": "microcell", "svg.fonttype": "none"}):
                figure.savefig(
                    folder / name, format="svg", metadata={"Date": None, "Creator": "microcell"}
                )
        about = {
            "name": self.name,
            "title": self.title,
            "profile": self.profile,
            "seconds": self.seconds,
            "headline": self.headline,
            "shown": [asdict(item) for item in self.shown],
            "findings": [asdict(finding) for finding in self.findings],
        }
        (folder / "findings.json").write_text(
            json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )


def read_study(folder: Path) -> dict[str, Any]:
    """Read what :meth:`Study.write` wrote."""
    about: dict[str, Any] = json.loads((folder / "findings.json").read_text(encoding="utf-8"))
    return about


def show_number(value: object) -> str:
    """Format floats with four significant digits; leave other values unchanged.

    Examples
    --------
    >>> show_number(0.123456), show_number(12), show_number("-16 %")
    ('0.1235', '12', '-16 %')
    """
    return f"{value:.4g}" if isinstance(value, float) else str(value)
