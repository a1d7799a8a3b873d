"""``python -m microcell``: the command line."""

from microcell.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
