"""Benchmarks: time and distortion together, ratios from one run, results as JSON."""
