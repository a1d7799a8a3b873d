"""``python -m experiments [--profile quick|full]``: all five papers, one after the other."""

import sys

from experiments import aggregation, dependence, incremental, probabilistic, quantization
from experiments._profiles import parse, run_study

STUDIES = (aggregation, quantization, dependence, probabilistic, incremental)


def main() -> None:
    """Run all experiments in the chosen profile."""
    profile, output = parse(sys.argv[1:])
    for module in STUDIES:
        run_study(module.study, profile, output)


if __name__ == "__main__":
    main()
