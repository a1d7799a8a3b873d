"""Fuzzing: releases of random tables, recounted by other readers than those of the library.

``python -m benchmarks.fuzz N`` publishes N releases and recounts each of them from the bytes of its
files. Every case follows from one integer; a failure prints the command that repeats it.
"""
