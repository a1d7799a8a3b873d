"""``python -m benchmarks.load PORT ACCOUNTS OUTPUT``: send look-ups until stdin is closed.

Uses HTTP/1.1 on persistent connections, written by hand because a client library would be slower
than the service. Requests are sent either as fast as responses arrive (``--rate 0``), to measure
the throughput, or at a steady rate regardless of the responses. Waiting then counts from the time
a request was due, so that a service that stalls cannot hide it.
"""

import argparse
import asyncio
import csv
import itertools
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import numpy as np


class Connection(asyncio.Protocol):
    """A connection that sends one request at a time and queues those that are due."""

    def __init__(
        self, requests: Iterator[bytes], eager: bool, results: list[tuple[float, float, int]]
    ) -> None:
        self.requests, self.eager, self.results = requests, eager, results
        self.due: deque[float] = deque()
        self.buffer = b""
        self.asking = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start sending requests."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self.eager:
            self.ask(monotonic())

    def ask(self, due: float) -> None:
        """Send a request now, or after the pending response."""
        self.due.append(due)
        if not self.asking:
            self.asking = True
            self.transport.write(next(self.requests))

    def data_received(self, data: bytes) -> None:
        """Record a response and send the next request that is due."""
        self.buffer += data
        head, actual, body = self.buffer.partition(b"\r\n\r\n")
        if not actual:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return
        now, self.buffer, self.asking = monotonic(), b"", False
        self.results.append((now, now - self.due.popleft(), int(head[9:12])))
        if self.eager:
            self.ask(now)
        elif self.due:
            self.asking = True
            self.transport.write(next(self.requests))


async def drive(
    port: int, requests: Iterator[bytes], count: int, rate: float
) -> list[tuple[float, float, int]]:
    """Send requests until stdin is closed; return time, duration and status of each response."""
    results: list[tuple[float, float, int]] = []
    loop = asyncio.get_running_loop()
    created = [
        await loop.create_connection(
            lambda: Connection(requests, rate == 0, results), "127.0.0.1", port
        )
        for _ in range(count)
    ]
    turns = itertools.cycle([protocol for _, protocol in created])
    ended = loop.run_in_executor(None, sys.stdin.read)
    began, sent = monotonic(), 0
    while not ended.done():
        if rate:
            while sent < (monotonic() - began) * rate:
                next(turns).ask(began + sent / rate)
                sent += 1
        await asyncio.sleep(0.001 if rate else 0.05)
    for transport, _ in created:
        transport.close()
    return results


def main() -> None:
    """Run the load generator and save its measurements."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("accounts", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--rate", type=float, default=0.0)
    options = parser.parse_args()
    with options.accounts.open(encoding="utf-8", newline="") as file:
        requests = [
            f"GET /devices/{row['pseudonym']}/location HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {row['token']}\r\n\r\n".encode()
            for row in csv.DictReader(file)
        ]
    np.random.default_rng(0).shuffle(requests)
    results = asyncio.run(
        drive(options.port, itertools.cycle(requests), options.connections, options.rate)
    )
    np.save(options.output, np.array(results).reshape(-1, 3))


if __name__ == "__main__":
    main()
