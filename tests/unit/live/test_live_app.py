"""`fikit top` on a terminal, by textual's pilot: keys, sizes, and what is shown where there is no colour."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import pytest
from cli_samples import REPORT
from fikit import jobs_known
from fikit.advice import reported
from fikit.errors import NoReport
from fikit.live import dialogs
from fikit.live.app import Top
from fikit.live.dialogs import Why
from live_samples import shared
from rich.cells import cell_len
from textual.pilot import Pilot
from textual.widgets import OptionList

Step = Callable[[Pilot[None], Top], Awaitable[None]]
HOSTILE = "[red]x[/] \x1b[2Jé漢字漢字漢字漢字漢字漢字"


def run(step: Step, size: tuple[int, int] = (80, 24)) -> Top:
    """The application without a fikitd, of one look, and what is done to it."""

    async def all_of_it() -> Top:
        app = Top(None, clock=lambda: datetime(2026, 11, 26, 10, 14, 7))
        async with app.run_test(size=size) as pilot:
            app.show(shared())
            await pilot.pause()
            await step(pilot, app)
        return app

    return asyncio.run(all_of_it())


def lines(app: Top) -> list[str]:
    """What is on the screen."""
    return ["".join(segment.text for segment in strip).rstrip() for strip in app.screen._compositor.render_strips()]


async def nothing(pilot: Pilot[None], app: Top) -> None:
    """No key."""


def shown(size: tuple[int, int], step: Step = nothing) -> list[str]:
    found: list[str] = []

    async def looked(pilot: Pilot[None], app: Top) -> None:
        await step(pilot, app)
        await pilot.pause()
        found.extend(lines(app))

    run(looked, size)
    return found


def test_eighty_columns_have_the_gpus_and_jobs() -> None:
    assert [line for line in shown((80, 24)) if line] == [
        "n1  10:14:07  policy budget  sorted by priority                  ? help · q quit",
        "GPU 0 H200  96 %               █  ~31.0/141 GiB  ~410 W  filled 93 %",
        "  12 serve.sh root     high     44 %        ▄  +3 % of 5 %   9.00/11.0 GiB",
        "  18 train.sh root     low      52 %        ▅  waits 38 %: behind 12",
        "GPU 1 H200  ~21 %               ▂  ~31.0/141 GiB  ~410 W",
        "  exclusive: job 31 root  21 % busy now",
        "GPU 2 H200  ~0 %               ▁  ~31.0/141 GiB  ~410 W  idle",
    ]


def test_two_hundred_columns_have_all_of_it() -> None:
    found = shown((200, 60))
    assert found[0].endswith("Enter why · s sort · ←→ GPU · ? help · q quit")
    row = next(line for line in found if " 18 train.sh" in line)
    assert row.split()[:6] == ["18", "train.sh", "root", "low", "52", "%"]
    assert row.endswith("-                   3.00 GiB  waits 38 %: behind 12")


@pytest.mark.parametrize(("width", "whole"), [(79, False), (100, True), (120, True), (200, True)])
def test_a_name_is_cut_only_where_there_is_no_room_and_ends_in_an_ellipsis(width: int, whole: bool) -> None:
    name = "resnet50-lr0.01-batch256-seed17"

    async def long(pilot: Pilot[None], app: Top) -> None:
        app.show(shared(names=(name, "train.sh")))

    first, second = (row for row in shown((width, 24), long) if " root " in row and not row.startswith("  excl"))
    assert (f"12 {name} root" in first) is whole
    assert whole or "… root" in first
    assert first.index(" root ") == second.index(" root ")


@pytest.mark.parametrize("size", [(20, 5), (40, 10), (79, 24), (116, 30), (140, 30), (300, 10)])
def test_no_line_is_longer_than_the_terminal(size: tuple[int, int]) -> None:
    async def hostile(pilot: Pilot[None], app: Top) -> None:
        app.show(shared(names=(HOSTILE, "x" * 300)))

    found = shown(size, hostile)
    assert len(found) == size[1]
    assert all(len(line) <= size[0] for line in found)


def test_a_name_is_text() -> None:
    async def hostile(pilot: Pilot[None], app: Top) -> None:
        app.show(shared(names=(HOSTILE, "[bold]y")))

    rows = shown((200, 20), hostile)
    columns = {cell_len(row[: row.index(" root ")]) for row in rows if " root " in row and not row.startswith("  excl")}
    assert len(columns) == 1, "a wide character takes two cells"
    found = "\n".join(rows)
    assert "12 [red]x[/] ?[2Jé漢字" in found
    assert "18 [bold]y " in found
    assert "\x1b" not in found


def test_a_resize_is_followed() -> None:
    seen: list[int] = []

    async def resized(pilot: Pilot[None], app: Top) -> None:
        for width in (200, 60, 120):
            await pilot.resize_terminal(width, 24)
            await pilot.pause()
            seen.append(max(len(line) for line in lines(app)))
            assert "10:14:07" in lines(app)[0]

    run(resized)
    assert seen[0] > 120
    assert seen[1] <= 60


def test_s_sorts_by_the_next_and_what_is_chosen_stays_chosen() -> None:
    async def sorted_(pilot: Pilot[None], app: Top) -> None:
        jobs = app.query_one(OptionList)
        assert jobs.highlighted == 1, "the first job"
        await pilot.press("s")
        await pilot.pause()
        assert app.sort == "GPU"
        assert "18 train.sh" in lines(app)[2]
        assert jobs.highlighted == 2, "the same job, which is the second now"
        for _ in range(5):
            await pilot.press("s")
        assert app.sort == "priority"

    run(sorted_)


def test_left_and_right_show_one_gpu_or_all() -> None:
    async def chosen(pilot: Pilot[None], app: Top) -> None:
        found = []
        for key in ("right", "right", "right", "right", "left"):
            await pilot.press(key)
            await pilot.pause()
            found.append([line.split()[1] for line in lines(app) if line.startswith("GPU")])
        assert found == [["0"], ["1"], ["2"], ["0", "1", "2"], ["2"]]
        app.show(shared(nvml=[]))
        await pilot.pause()
        assert app.chosen is None, "a GPU that is gone is not waited for"

    run(chosen)


def test_a_new_look_keeps_the_place_and_lengthens_the_history() -> None:
    async def looked(pilot: Pilot[None], app: Top) -> None:
        await pilot.press("down")
        for number in range(2, 6):
            app.show(shared(number))
        await pilot.pause()
        assert app.query_one(OptionList).highlighted == 2
        assert "52 %    ▅▅▅▅▅" in "\n".join(lines(app))

    run(looked)


def asked(monkeypatch: pytest.MonkeyPatch, find: Callable[..., dict[str, Any]]) -> str:
    monkeypatch.setattr(dialogs, "find", find)
    monkeypatch.setattr(jobs_known, "find", find)
    monkeypatch.setattr(reported, "advise", lambda run: [])
    found: list[str] = []

    async def entered(pilot: Pilot[None], app: Top) -> None:
        await pilot.press("down", "enter")
        await pilot.pause()
        assert isinstance(app.screen, Why)
        await app.screen.workers.wait_for_complete()
        await pilot.pause()
        found.extend(lines(app))
        await pilot.press("escape")
        await pilot.pause()
        assert len(app.screen_stack) == 1

    run(entered, (120, 40))
    return "\n".join(found)


def test_enter_says_why_with_the_jobs_report(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, int]] = []

    def find(job: str, uid: int) -> dict[str, Any]:
        calls.append((job, uid))
        return REPORT

    said = asked(monkeypatch, find)
    assert calls == [("18", 0)]
    assert "the promise was kept: 1.04x of its time alone" in said
    assert "9.00 ms behind job 17" in said


def test_enter_on_another_users_job_says_that_it_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(job: str, uid: int) -> dict[str, Any]:
        raise NoReport(f"there is no report of job {job}")

    assert "Only its own user and root see a job's report." in asked(monkeypatch, find)


def test_help_says_every_key_and_goes() -> None:
    async def helped(pilot: Pilot[None], app: Top) -> None:
        await pilot.press("question_mark")
        await pilot.pause()
        text = "\n".join(lines(app))
        assert all(key in text for key in ("up, down", "Enter", "left, right", " s ", " ? ", "q, Ctrl-C"))
        await pilot.press("right")
        assert app.chosen is None, "keys of the list are the list's"
        await pilot.press("q")
        await pilot.pause()
        assert len(app.screen_stack) == 1

    run(helped, (100, 30))


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_q_ends_it(key: str) -> None:
    async def pressed(pilot: Pilot[None], app: Top) -> None:
        await pilot.press(key)

    assert run(pressed).return_code == 0


def test_what_is_wrong_is_said_below_and_the_last_look_stays() -> None:
    async def lost(pilot: Pilot[None], app: Top) -> None:
        app.say("fikitd does not answer at [/run]: gone")
        await pilot.pause()
        assert lines(app)[-1] == "fikitd does not answer at [/run]: gone"
        assert "12 serve.sh" in lines(app)[2]
        app.show(shared())
        await pilot.pause()
        assert lines(app)[-1] == ""

    run(lost)


def test_without_colour_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = shown((120, 24))
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown((120, 24)) == coloured

    async def grey(pilot: Pilot[None], app: Top) -> None:
        for strip in app.screen._compositor.render_strips():
            for segment in strip:
                for color in (segment.style.color, segment.style.bgcolor) if segment.style else ():
                    assert color is None or color.triplet is None or len(set(color.triplet)) == 1, segment

    run(grey)
