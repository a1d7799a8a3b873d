"""The five papers again: each of their tables and figures, our figures beside theirs."""
