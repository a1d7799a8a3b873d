"""Attacks on the location anonymizer: sums, differences, own devices, histories."""

import numpy as np
import pytest

pytest.importorskip("sqlalchemy", reason="the extra locations is not installed")

from benchmarks.adversary.locations import (
    Town,
    differencing_attack,
    fewest_combined,
    history_attack,
    linear_attack,
    mechanisms,
    remaining_variances,
    sum_attack,
    sybil_attack,
)

from microcell.locations import make_city
from microcell.locations.clustering import cluster, great_circle, to_points


@pytest.fixture(scope="module")
def town():
    town = Town(400, 10, 2)
    yield town
    town.service.close()


def test_the_attack_works_on_exact_means_and_sizes():
    """The defence is tested by attacks that succeed without it."""
    homes = to_points(*make_city(61))
    sums = []
    for points in (homes[:60], homes):
        clustering, labels = cluster(points, 10)
        means = np.array([points[labels == cell].mean(axis=0) for cell in range(len(clustering))])
        sums.append(np.bincount(labels) @ means)
    guess = (sums[1] - sums[0])[np.newaxis]
    assert great_circle(guess, homes[60:])[0] < 1e-6


def test_sums_of_published_lists_recover_no_home(town):
    attack = sum_attack(town, 12)
    assert (attack.victims, attack.recovered) == (12, 0)
    assert attack.median_error > 3


def test_differences_of_published_cells_recover_no_home(town):
    attack = differencing_attack(town, 12)
    assert (attack.victims, attack.recovered) == (12, 0)


def test_own_devices_around_a_victim_do_not_isolate_it():
    attack = sybil_attack(120, 10, 2, 5)
    assert attack.victims == 5
    assert (attack.recovered, attack.closer) == (0, 0)


def test_a_client_cannot_cause_a_publication(town):
    """Neither sign-ups, moves nor cancellations of an attacker's devices change what is public."""
    service = town.service
    before = service.overview()
    mine = [service.sign_up(*town.home()) for _ in range(town.colluders)]
    for account in mine:
        service.move(account.pseudonym, account.token, *town.home())
    assert service.overview() is before
    for account in mine:
        service.cancel(account.pseudonym, account.token)
    assert service.overview() is before


@pytest.mark.parametrize("colluders", [0, 1])
def test_histories_are_shared_by_k(colluders):
    """Also between publications, and for aliases that have ended."""
    result = history_attack(400, 10, days=8, colluders=colluders)
    assert (result.below, result.ended_below) == (0, 0)
    assert result.smallest >= 10
    assert result.distance < 1.25 * result.free_distance


def test_rounding_hides_a_mean_at_less_cost_than_noise():
    exact, grid, noise, _ = mechanisms(25, rounds=4, trials=40)
    assert exact.single < 1e-6
    assert grid.single > 0.3
    assert grid.added < 0.01
    assert grid.added < noise.added


def test_the_linear_attack_works_on_cells_that_differ_in_one_device():
    shares = np.array([[1 / 10] * 10 + [0.0], [1 / 11] * 11])
    assert remaining_variances(shares)[-1] < 0.5
    assert remaining_variances(shares[:1])[0] > 0.85


def test_the_combination_attack_finds_sums_over_several_publications():
    first, second = np.arange(9) < 4, (np.arange(9) >= 4) & (np.arange(9) < 8)
    every = np.ones(9, dtype=bool)
    assert fewest_combined(np.array([first, every])) == 4
    assert fewest_combined(np.array([first, second, every])) == 1
    assert fewest_combined(np.array([first, first])) == 4


def test_no_combination_of_all_publications_sharpens_a_home():
    """Cells are rebuilt as often as the rules allow, and colluders sit next to their victims."""
    result = linear_attack(300, 10, days=6, changes=0.25, share=0.05)
    assert result.builds > 40
    assert result.with_colluders <= result.sharpest <= result.ideal
    assert result.with_colluders > 0.7
    assert result.fewest >= 10
