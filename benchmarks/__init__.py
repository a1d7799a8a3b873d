"""Benchmarks of time, memory and distortion; ratios come from one run, results are JSON."""
