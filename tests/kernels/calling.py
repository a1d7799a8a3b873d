"""Call kernels that only other kernels call.

They have no Python wrapper. These are not cached, because numba's cache does not notice a change in
a called kernel.
"""

from microcell.kernels import _jit, random, scans

compiled = _jit.numba.njit(error_model="numpy")


@compiled
def draw(state):
    return random.draw(state)


@compiled
def pick(state, count):
    return random.pick(state, count)


@compiled
def offer(distances, rows, size, distance, row):
    return scans.offer(distances, rows, size, distance, row)


@compiled
def take_out(points, row):
    scans.take_out(points, row)


@compiled
def put_back(points, row, values):
    scans.put_back(points, row, values)


@compiled
def read_point(points, row, out):
    scans.read_point(points, row, out)


@compiled
def scan(points, target, scratch, k):
    return scans.scan(points, target, scratch, k)


def in_python(kernel):
    """Return a kernel as a Python function; only for kernels that call no others."""
    return getattr(kernel, "py_func", kernel)
