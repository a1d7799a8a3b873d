"""Attacks on releases, with the share of values that they recover against guessing.

One module per attack. ``python -m benchmarks.adversary`` runs them over a grid of tables, methods
and outputs; ``tests/adversary`` runs the same attacks on tiny tables and on broken releases.
"""
