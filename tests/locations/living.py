"""What processes of the tests do with a database of the service."""

import json

import numpy as np

from microcell.locations import Anonymizer
from microcell.locations.store import Store


def live(database, seed, known):
    """Change devices, and report what is acknowledged, until the process is killed."""
    service = Anonymizer.open(database, 4, key=bytes(range(32)), share=0.05, period=0.2)
    rng = np.random.default_rng(seed)

    def report(*words):
        print(json.dumps(words), flush=True)

    report("ready")
    while True:
        turn = rng.random()
        if turn < 0.6 or len(known) < 8:
            account = service.sign_up(*rng.normal([41.4, 2.2], 0.1))
            known.append([account.pseudonym, account.token])
            report("in", account.pseudonym, account.token)
        elif turn < 0.85:
            name, token = known.pop(int(rng.integers(len(known))))
            report("leaving", name)
            service.cancel(name, token)
            report("out", name)
        elif turn < 0.9:
            service.publish()
        else:
            name, token = known[int(rng.integers(len(known)))]
            service.move(name, token, *rng.normal([41.4, 2.2], 0.1))


def open_store(database):
    """Open the database."""
    Store.open(database)
