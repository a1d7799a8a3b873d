"""Numerical kernels: arrays in, arrays out; no policy, no messages.

Ties go to the lowest row number, and results do not depend on the number of threads.
"""
