"""Fuzzing: releases of random tables, recounted with readers that are independent of the library.

``python -m benchmarks.fuzz N`` publishes N releases and recounts each of them from the bytes of its
files. Every case follows from one integer; a failure prints the command that repeats it.
"""
