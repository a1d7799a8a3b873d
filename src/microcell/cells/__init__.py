"""A partition as a function: cells that classify new points and can be saved as small files."""

from microcell.cells.balls import BallCells, ball_cells
from microcell.cells.base import Cells, load_cells
from microcell.cells.boxes import BoxCells
from microcell.cells.lookup import LookupCells, lookup_cells
from microcell.cells.power import AbsoluteCells, PowerCells, RegressionCells

__all__ = [
    "AbsoluteCells",
    "BallCells",
    "BoxCells",
    "Cells",
    "LookupCells",
    "PowerCells",
    "RegressionCells",
    "ball_cells",
    "load_cells",
    "lookup_cells",
]
