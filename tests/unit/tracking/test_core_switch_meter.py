"""How long the device takes to change hands, from how late work begins; the lateness is drawn here."""

from __future__ import annotations

import random

import pytest
from fikitd._core import SwitchMeter

US = 1000
ENOUGH = 8


def feed(
    meter: SwitchMeter,
    switch_us: float,
    *,
    client: int = 1,
    level: int = 1,
    count: int = 60,
    seed: int = 1,
    by: int = 0,
) -> None:
    """Late beginnings as a launch's way makes them, 20 us and noise, one in ten much later for another reason."""
    draw = random.Random(seed)
    for number in range(2 * count):
        changed = number % 2 == 0
        late = 20 + draw.gauss(0, 8) + (switch_us if changed else 0) + (draw.choice([0] * 9 + [400]))
        meter.began(client, level, int(late * US), changed, by=by if changed else 0)


@pytest.mark.parametrize("switch_us", [0, 20, 50, 100, 200])
@pytest.mark.parametrize("seed", range(5))
def test_the_switch_is_found_within_15_us_or_a_fifth(switch_us: int, seed: int) -> None:
    meter = SwitchMeter()
    feed(meter, switch_us, seed=seed)
    found = meter.cost()
    assert found is not None
    switch_ns, spread_ns, count = found
    assert abs(switch_ns - switch_us * US) <= max(15 * US, 0.2 * switch_us * US)
    assert abs(switch_ns - switch_us * US) <= 2 * spread_ns
    assert count == 60


@pytest.mark.parametrize("switch_us", [0, 20, 50, 100, 200])
def test_where_turns_are_ten_times_as_long_all_is(switch_us: int) -> None:
    meter, slow = SwitchMeter(), SwitchMeter(turn_ns=10e6)
    draw = random.Random(switch_us)
    for number in range(120):
        late = round(20 + draw.gauss(0, 8)) + (switch_us if number % 2 == 0 else 0)
        meter.began(1, 1, late * US, number % 2 == 0)
        slow.began(1, 1, 10 * late * US, number % 2 == 0)
    found, stretched = meter.cost(), slow.cost()
    assert found is not None
    assert stretched is not None
    assert stretched[0] == 10 * found[0]
    assert abs(stretched[1] - 10 * found[1]) <= 10


def test_it_is_not_known_before_there_is_enough_of_both_kinds() -> None:
    meter = SwitchMeter()
    for _ in range(200):
        meter.began(1, 1, 70 * US, True)
    assert meter.cost() is None
    for _ in range(ENOUGH - 1):
        meter.began(1, 1, 20 * US, False)
    assert meter.cost() is None
    meter.began(1, 1, 20 * US, False)
    assert meter.cost() == (50 * US, 0, ENOUGH)


@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize("often", [20, 30, 40])
def test_who_is_late_now_for_one_reason_and_now_for_another_tells_nothing(changed: bool, often: int) -> None:
    meter = SwitchMeter()
    draw = random.Random(often)
    for number in range(60):
        late = 60 if number % 60 < often else 0
        meter.began(1, 1, int((late + draw.gauss(0, 1)) * US), changed)
        meter.began(1, 1, int(draw.gauss(0, 1) * US), not changed)
    assert meter.cost() is None


def test_a_word_as_unsure_as_an_eighth_of_what_it_says_is_none() -> None:
    unsure, sure = SwitchMeter(), SwitchMeter()
    for number in range(60):
        late = (number % 5 - 2) * 18 * US
        for meter, switch in ((unsure, 50), (sure, 200)):
            meter.began(1, 1, late, False)
            meter.began(1, 1, late + switch * US, True)
    assert unsure.cost() is None
    assert (sure.cost() or (0,))[0] == 200 * US


def test_it_is_never_less_than_nothing() -> None:
    meter = SwitchMeter()
    feed(meter, -30)
    assert (meter.cost() or (1,))[0] == 0


def test_a_lower_client_does_not_move_it_against_one_above() -> None:
    honest = SwitchMeter()
    feed(honest, 50)
    lied = SwitchMeter()
    feed(lied, 50)
    for liar in range(2, 40):
        feed(lied, 4000, client=liar, level=5)
    assert lied.cost() == honest.cost()


def test_each_level_knows_what_it_and_those_above_it_report_and_nothing_else() -> None:
    meter = SwitchMeter()
    feed(meter, 50, level=1, by=8)  # when a low client's work was over is what that client says
    assert meter.cost(1) is None
    assert meter.cost(7) is None
    assert abs((meter.cost(8) or (0,))[0] - 50 * US) <= 15 * US
    feed(meter, 100, level=1)
    before = meter.cost(1)
    assert abs((before or (0,))[0] - 100 * US) <= 15 * US
    feed(meter, 4000, client=2, level=8)
    feed(meter, 4000, level=1, by=8)
    assert meter.cost(1) == before
    assert meter.cost(8) == before  # the word of more important reports counts for those below


def test_a_client_above_is_heard_where_lower_ones_filled_every_place() -> None:
    meter = SwitchMeter()
    for lower in range(2, 40):
        feed(meter, 4000, client=lower, level=5)
    feed(meter, 50)
    assert abs((meter.cost() or (0,))[0] - 50 * US) <= 15 * US


def test_one_liar_among_three_of_its_level_does_not_decide() -> None:
    meter = SwitchMeter()
    for client, switch_us in enumerate((50, 50, 4000)):
        feed(meter, switch_us, client=client, seed=client)
    assert abs((meter.cost() or (0,))[0] - 50 * US) <= 15 * US


def test_a_beginning_that_is_absurdly_late_is_not_believed() -> None:
    meter = SwitchMeter()
    feed(meter, 50)
    before = meter.cost()
    for late in (6_000_000, -6_000_000, 2**62, -(2**63)):
        for _ in range(100):
            meter.began(1, 1, late, True)
    assert meter.cost() == before


def test_it_follows_a_device_that_changed() -> None:
    meter = SwitchMeter()
    feed(meter, 50, count=200)
    feed(meter, 200, count=70)
    assert abs((meter.cost() or (0,))[0] - 200 * US) <= 40 * US
