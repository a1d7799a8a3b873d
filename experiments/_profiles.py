"""Profiles, data and command line shared by the experiments."""

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from experiments._findings import Study
from microcell.model import Floats

__all__ = ["RESULTS", "classic", "has_classics", "run_alone", "run_study"]

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
DATA = Path(os.environ.get("MICROCELL_DATA", ROOT.parent / "shared" / "data"))
PROFILES = ("quick", "full")


def has_classics() -> bool:
    """Return True if the classic data sets are available."""
    return DATA.is_dir()


def classic(name: str, columns: list[str] | None = None) -> Floats:
    """Load a classic data set (optionally some columns), without rows with missing values."""
    path = DATA / f"{name}.csv"
    header = path.read_text(encoding="utf-8").partition("\n")[0].strip().split(",")
    use = None if columns is None else [header.index(column) for column in columns]
    values = np.genfromtxt(path, delimiter=",", skip_header=1, usecols=use)
    return np.ascontiguousarray(values[~np.isnan(values).any(axis=1)])


def run_study(study: Callable[[str], Study], profile: str, output: Path) -> Study:
    """Run one experiment, write its files and print a summary of its findings."""
    start = time.perf_counter()
    done = study(profile)
    done.seconds = round(time.perf_counter() - start)
    done.write(output / done.name)
    counts = {
        verdict: sum(f.verdict == verdict for f in done.findings)
        for verdict in ("reproduced", "better", "differs")
    }
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    print(f"{done.name}: {summary}, {done.seconds} s, in {output / done.name}", flush=True)
    return done


def parse(arguments: list[str]) -> tuple[str, Path]:
    """Parse the profile and the output directory."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--profile", choices=PROFILES, default="quick")
    parser.add_argument("--output", type=Path, help="folder for the results")
    options = parser.parse_args(arguments)
    if not has_classics():
        sys.exit("The classic data sets were not found: set MICROCELL_DATA to their directory.")
    return options.profile, options.output or RESULTS / options.profile


def run_alone(study: Callable[[str], Study]) -> None:
    """Entry point of a single experiment."""
    run_study(study, *parse(sys.argv[1:]))
