"""Knobs: what users may set, and what the kernel gets."""

from __future__ import annotations

import pytest

from flyball.core.errors import BadInput, UnknownName
from flyball.core.knobs import Backfill, Knobs, Order, Place, Preempt, choices
from flyball.core.records import CAP_LEVELS
from flyball.core.units import FOREVER_US


def test_settings_as_users_write_them() -> None:
    knobs = Knobs().with_settings(["order=shortest", "place=best-fit", "depth=5", "hold-s=1.5"])
    assert knobs.order is Order.SHORTEST
    assert knobs.place is Place.BEST_FIT
    assert knobs.depth == 5
    assert knobs.hold_s == 1.5


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("depth", "has no '='"),
        ("dept=5", "did you mean 'depth'"),
        ("order=shortes", "did you mean 'shortest'"),
        ("depth=five", "is not a number"),
        ("depth=0", "out of range"),
        ("hold_s=nan", "out of range"),
        ("cap=0.2", "use 0.5 to 1"),
    ],
)
def test_bad_settings_say_what_to_do(setting: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        Knobs().with_settings([setting])


def test_an_unknown_knob_is_an_unknown_name() -> None:
    with pytest.raises(UnknownName, match="known: ageing"):
        Knobs().with_settings(["zzz=1"])


@pytest.mark.parametrize(
    "change", [{"backfill": Backfill.EASY}, {"backfill": Backfill.STRICT}, {"place": Place.HOLD}]
)
def test_rounds_go_with_skip_only(change: dict[str, object]) -> None:
    with pytest.raises(BadInput, match="does not go with"):
        Knobs(preempt=Preempt.ROUNDS, **change)  # type: ignore[arg-type]


def test_as_dict_speaks_as_users_do() -> None:
    plain = Knobs().as_dict()
    assert plain["order"] == "submit"
    assert plain["place"] == "best-fit"
    assert plain["depth"] == 1000
    again = Knobs().with_settings([f"{name}={value}" for name, value in plain.items()])
    assert again == Knobs()


def test_choices_are_the_members() -> None:
    assert choices(Backfill) == ["strict", "skip", "easy"]


def test_packed_for_the_kernel() -> None:
    row = Knobs(hold_s=2.0, round_s=30.0, attained_s=1.0).pack()[0]
    assert row.hold_us == 2e6
    assert row.round_us == 30_000_000
    assert row.attained_us == 1e6
    assert row.sleep_us == FOREVER_US
    assert Knobs(sleep_s=5.0).pack()[0].sleep_us == 5_000_000


@pytest.mark.parametrize(("cap", "level"), [(1.0, 0), (0.95, 1), (0.75, 5), (0.5, CAP_LEVELS - 1)])
def test_cap_levels(cap: float, level: int) -> None:
    assert Knobs(cap=cap).pack()[0].cap == level
