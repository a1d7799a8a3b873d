"""Draw docs/picture.svg: age and body-mass index of the sample survey, before and after.

Run ``python docs/make_picture.py`` from the root of the project.
"""

from io import BytesIO
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import microcell as mc

PICTURE = Path(__file__).with_name("picture.svg")
INK, PALE = "#1f3a5f", "#b9c4d3"
CELLS = ["#1b6ca8", "#c1502e", "#4d8b31", "#7d4e9e", "#b8860b", "#00777a"]


def main() -> None:
    PICTURE.write_bytes(picture())


def picture() -> bytes:
    """Return an SVG of 150 people and of their release, 5-anonymous in two columns."""
    people = {name: mc.sample_survey(150, seed=3)[name] for name in ("age", "bmi")}
    release = mc.anonymize(people, mc.Schema(quasi=["age", "bmi"]), k=5, method="mdav")
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    before, after = figure.subplots(1, 2, sharex=True, sharey=True)
    before.scatter(people["age"], people["bmi"], s=14, color=INK)
    before.set_title("original: 150 distinct people", fontsize=11)
    draw_cells(after, people, release)
    after.set_title("published: each record equals at least 4 others", fontsize=11)
    for axes in (before, after):
        axes.set_xlabel("age")
        axes.spines[["top", "right"]].set_visible(False)
    before.set_ylabel("body-mass index")
    file = BytesIO()
    # Makes the ids, and so the file, reproducible.
    with mpl.rc_context({"svg.hashsalt": "microcell"}):
        figure.savefig(file, format="svg", metadata={"Date": None}, facecolor="white")
    return file.getvalue()


def draw_cells(axes: object, people: dict[str, np.ndarray], release: mc.Release) -> None:
    """Draw lines from the people of each cell to the point that is published for all of them."""
    for cell in range(len(release.partition)):
        members = np.flatnonzero(release.partition.labels == cell)
        colour = CELLS[cell % len(CELLS)]
        x, y = release.table["age"][members[0]], release.table["bmi"][members[0]]
        for i in members:
            axes.plot(
                [people["age"][i], x], [people["bmi"][i], y], color=colour, linewidth=0.6, alpha=0.5
            )
        axes.scatter(people["age"][members], people["bmi"][members], s=6, color=PALE, zorder=1)
        axes.scatter(
            [x], [y], s=12 * len(members), color=colour, edgecolor="white", linewidth=0.8, zorder=3
        )


if __name__ == "__main__":
    main()
