"""Numerical kernels: arrays in, arrays out; no policy and no messages.

Ties go to the lowest row number, and results do not depend on the number of threads. Arguments that
a kernel modifies are marked OUT in its docstring.
"""
