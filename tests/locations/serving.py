"""Helpers: an application on an in-memory anonymizer, and clients for it."""

import asyncio
from contextlib import contextmanager
from dataclasses import replace
from threading import Thread
from time import monotonic, sleep

import httpx
import numpy as np

from microcell._server import make_server
from microcell.locations import Anonymizer
from microcell.locations.web import Settings, create_app, listen_on

OPERATOR = "the operator of these tests"
KEY = bytes(range(32))
NO_LIMITS = {"rate": 0.0, "sign_up_rate": 0.0}


def open_anonymizer(k=3, database="sqlite://", **options):
    """Open a service that publishes when told, with cells of k and without a limit of distance."""
    defaults = {"background": False, "spare": 0.0, "colluders": 0, "reach": 20_000.0}
    return Anonymizer.open(database, k, key=KEY, **{**defaults, **options})


def where(service, account):
    """Return the location that a device uses."""
    return service.look_up(account.pseudonym, account.token).location


def sign_up(service, places):
    """Sign up devices and publish; return their accounts with the locations they use then."""
    accounts = service.sign_up_many(*np.asarray(places).T)
    service.publish()
    return [replace(account, location=where(service, account)) for account in accounts]


def make_app(anonymizer, **settings):
    return create_app(anonymizer, Settings(**{"operator": OPERATOR, **NO_LIMITS, **settings}))


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


class InProcess(httpx.BaseTransport):
    """Transport without a network, with one event loop for all requests."""

    def __init__(self, app, client=("192.0.2.1", 1234)):
        self._transport = httpx.ASGITransport(app, client=client)
        self._runner = asyncio.Runner()

    def handle_request(self, request):
        async def ask():
            response = await self._transport.handle_async_request(request)
            return httpx.Response(
                response.status_code,
                headers=response.headers,
                content=b"".join([part async for part in response.stream]),
            )

        return self._runner.run(ask())

    def close(self):
        self._runner.close()


def asking(app, **options):
    """Return an HTTP client of an application in this process."""
    return httpx.Client(transport=InProcess(app, **options), base_url="http://service")


def connect(url):
    """Return an HTTP client of a server, which may need seconds to answer on a busy machine."""
    return httpx.Client(base_url=url, trust_env=False, timeout=120.0)


def scatter(count, seed=0, around=(41.4, 2.2)):
    """Return places near a city as pairs of degrees."""
    rng = np.random.default_rng(seed)
    return (np.array(around) + rng.normal(scale=0.05, size=(count, 2))).round(6).tolist()


@contextmanager
def running(app, **options):
    """Run the application on a server thread and yield its URL."""
    listener = listen_on("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = make_server(app, **options)
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        limit = monotonic() + 120
        while not server.started and monotonic() < limit:
            sleep(0.01)
        yield url
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
