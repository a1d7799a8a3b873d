"""``python -m microcell.cli``, the same as ``microcell``."""

from microcell.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
