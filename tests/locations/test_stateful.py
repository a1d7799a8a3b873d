"""Stateful test: no sequence of changes and restarts serves a place shared by fewer than k."""

from collections import Counter
from dataclasses import astuple

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from microcell.errors import UnknownDeviceError
from microcell.locations import Anonymizer, Place
from microcell.locations.clustering import great_circle, to_points
from tests.locations.reading import read_database
from tests.raising import raises

KEY = bytes(range(32))
REACH = 100.0
SPOTS = [
    (90.0, 0.0),
    (-90.0, 12.0),
    (0.0, 180.0),
    (0.0, -180.0),
    (0.01, 179.99),
    (0.01, -179.99),
    (41.4, 2.2),
]
places = st.one_of(
    st.sampled_from(SPOTS),
    st.tuples(st.floats(41.0, 42.0), st.floats(2.0, 3.0)),
    st.tuples(st.floats(-90.0, 90.0), st.floats(-180.0, 180.0)),
)


def distance(one, other):
    """Return the distance of two places in kilometres."""
    points = to_points(*np.array([one, other]).T)
    return great_circle(points[:1], points[1:])[0]


class Service(RuleBasedStateMachine):
    """The model is a dictionary of acknowledged devices; everything else is read from outside."""

    make_database = None

    @initialize(
        k=st.integers(2, 4), share=st.sampled_from([0.05, 0.5, 1.0]), colluders=st.integers(0, 2)
    )
    def begin(self, k, share, colluders):
        self.k, self.share, self.colluders = k, share, colluders
        self.histories = {}
        self.database = type(self).make_database()
        self.devices = {}
        self.homes = {}
        self.shown = {}
        self.open()

    def open(self):
        self.service = Anonymizer.open(
            self.database,
            self.k,
            key=KEY,
            share=self.share,
            colluders=self.colluders,
            reach=REACH,
            background=False,
        )

    def pick(self, number):
        """Pick a device by order of sign-up; pseudonyms are random and would prevent replay."""
        return list(self.devices.items())[number % len(self.devices)]

    @rule(place=places)
    def sign_up(self, place):
        account = self.service.sign_up(*place)
        assert account.pseudonym not in self.devices
        self.devices[account.pseudonym] = account.token
        self.homes[account.pseudonym] = place
        self.shown[account.pseudonym] = account.location
        answer = self.service.look_up(account.pseudonym, account.token)
        assert answer.location == account.location

    @rule(some=st.lists(places, min_size=1, max_size=12))
    def sign_up_many(self, some):
        accounts = self.service.sign_up_many(*np.array(some).T)
        for account, place in zip(accounts, some, strict=True):
            self.homes[account.pseudonym] = place
            self.devices[account.pseudonym] = account.token
            self.shown[account.pseudonym] = account.location

    @precondition(lambda self: self.devices)
    @rule(number=st.integers(0, 999), place=places)
    def move(self, number, place):
        name, token = self.pick(number)
        before = read_database(self.database).sealed[name]
        assert self.service.move(name, token, *place) == self.service.look_up(name, token)
        # A location within ten metres of the present one is no move.
        changed = distance(self.homes[name], place) > 0.01
        assert (read_database(self.database).sealed[name] != before) == changed
        if changed:
            self.homes[name] = place

    @precondition(lambda self: self.devices)
    @rule(number=st.integers(0, 999))
    def cancel(self, number):
        name, token = self.pick(number)
        self.service.cancel(name, token)
        del self.devices[name]
        with raises(UnknownDeviceError, "service.unknown_device"):
            self.service.look_up(name, token)

    @precondition(lambda self: self.devices)
    @rule(number=st.integers(0, 999))
    def try_another_token(self, number):
        name, token = self.pick(number)
        for action in (
            self.service.look_up,
            self.service.cancel,
            lambda *who: self.service.move(*who, 1.0, 2.0),
        ):
            with raises(UnknownDeviceError, "service.unknown_device"):
                action(name, token + "x")

    @rule(rebuild=st.booleans())
    def publish(self, rebuild):
        """Publish, and extend what an observer of all aliases knows."""
        before = self.service.overview()
        if rebuild:
            self.service.rebuild()
        if not self.service.publish():
            assert self.service.overview() is before
            return
        generation, histories = self.service.overview().generation, {}
        for name, token in self.devices.items():
            answer = self.service.look_up(name, token)
            self.shown[name] = answer.location
            if answer.alias is not None:
                seen = self.histories.get(answer.alias, (generation,))
                histories[answer.alias] = (*seen, answer.location)
        self.histories = histories
        assert all(count >= self.k for count in Counter(histories.values()).values())

    @rule()
    def restart(self):
        self.service.close()
        self.open()

    @rule(k=st.integers(2, 6))
    def restart_with_another_k(self, k):
        self.service.close()
        self.k = k
        self.open()

    @invariant()
    def no_device_is_lost_or_below_k(self):
        if not hasattr(self, "service"):
            return
        seen = read_database(self.database)
        assert set(seen.cell_of) == set(self.devices)
        answers = {name: self.service.look_up(name, token) for name, token in self.devices.items()}
        served = {name: answer.location for name, answer in answers.items()}
        aliases = [answer.alias for answer in answers.values() if answer.alias is not None]
        assert len(set(aliases)) == len(aliases)
        for name, place in served.items():
            cell = seen.cell_of[name]
            assert place == (None if cell is None else Place(*seen.places[cell]))
        users = Counter(place for place in served.values() if place is not None)
        assert all(count >= self.k for count in users.values())
        sizes = Counter(cell for cell in seen.cell_of.values() if cell is not None)
        assert all(count >= self.k for count in sizes.values())
        assert set(sizes) == set(seen.places) == set(seen.sites) - {None}
        self.nobody_is_dragged_away(served)
        waiting = sum(place is None for place in served.values())
        assert seen.k == self.k
        self.views_agree(sizes, waiting)

    def nobody_is_dragged_away(self, served):
        """Between publications a device waits or uses a place within reach of the one before."""
        for name, place in served.items():
            before = self.shown[name]
            assert place is None or before is not None
            if place is not None:
                assert distance(astuple(before), astuple(place)) <= REACH

    def views_agree(self, sizes, waiting):
        view, status = self.service.overview(), self.service.status()
        assert (status.devices, status.waiting) == (len(self.devices), waiting)
        assert (status.cells, len(view.cells)) == (len(sizes), len(sizes))
        assert status.smallest_cell == min(sizes.values(), default=None)
        assert status.k_over_history is None or status.k_over_history >= self.k
        assert view.devices % self.k == view.waiting % self.k == 0
        assert all(
            np.isfinite([cell.place.latitude, cell.place.longitude, cell.radius]).all()
            for cell in view.cells
        )
        assert dict(self.service.placements()).keys() == self.devices.keys()

    def teardown(self):
        if hasattr(self, "service"):
            self.service.close()


def test_no_history_serves_a_cell_below_k(new_database):
    class OnThisDatabase(Service):
        make_database = staticmethod(new_database)

    run_state_machine_as_test(
        OnThisDatabase,
        settings=settings(
            max_examples=3 if new_database().startswith("postgresql") else 10,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
