"""Rate limits: burst, rate and bounded memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.errors import OptionError
from microcell.locations.web.middleware import RateLimit, client_of
from tests.raising import raises


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def allowed(limit, client="a"):
    return limit.wait(client) == 0.0


def test_a_burst_and_then_the_rate():
    clock = Clock()
    limit = RateLimit(rate=4.0, burst=3, clock=clock)
    assert [allowed(limit) for _ in range(5)] == [True, True, True, False, False]
    clock.now += 0.25
    assert [allowed(limit) for _ in range(2)] == [True, False]
    clock.now += 1000.0
    assert [allowed(limit) for _ in range(4)] == [True, True, True, False]


def test_clients_have_separate_limits():
    limit = RateLimit(rate=1.0, burst=1, clock=Clock())
    assert allowed(limit, "a")
    assert not allowed(limit, "a")
    assert allowed(limit, "b")


def test_the_returned_wait_is_sufficient():
    clock = Clock()
    limit = RateLimit(rate=0.2, burst=1, clock=clock)
    assert allowed(limit)
    wait = limit.wait("a")
    assert wait == pytest.approx(5.0)
    clock.now += wait - 0.01
    assert not allowed(limit)
    clock.now += 0.02
    assert allowed(limit)


def test_without_a_limit_nothing_is_stored():
    limit = RateLimit(rate=0.0)
    assert all(allowed(limit, str(i)) for i in range(1000))
    assert len(limit) == 0


def test_memory_is_bounded_and_recent_clients_are_kept():
    limit = RateLimit(rate=1.0, burst=1, clock=Clock(), max_clients=10)
    for i in range(1000):
        limit.wait(str(i))
    assert len(limit) == 10
    assert not allowed(limit, "999")


@given(st.lists(st.floats(0.0, 3.0), max_size=60), st.floats(0.1, 5.0), st.integers(1, 6))
def test_never_more_than_burst_and_rate_allow(pauses, rate, burst):
    clock = Clock()
    limit = RateLimit(rate=rate, burst=burst, clock=clock)
    granted = []
    for pause in pauses:
        clock.now += pause
        if allowed(limit):
            granted.append(clock.now)
    for first, begin in enumerate(granted):
        for last, end in enumerate(granted[first:], start=first):
            assert last - first + 1 <= burst + rate * (end - begin) + 1e-6


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
def test_invalid_rates_are_rejected(rate):
    with raises(OptionError, "option.out_of_range", option="rate"):
        RateLimit(rate=rate)


def test_a_burst_of_zero_is_rejected():
    with raises(OptionError, "option.out_of_range", option="burst"):
        RateLimit(rate=1.0, burst=0)


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8:0:0:ffff::", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("a:b", "a:b"),
        ("", ""),
        ("testclient", "testclient"),
    ],
)
def test_an_ipv6_network_counts_as_one_client(address, client):
    assert client_of(address) == client
