"""The account of a client's time: each instant is in one state, and the parts sum to the whole."""

from __future__ import annotations

from dataclasses import dataclass, field

from fikitd._core import JobWork, TimeAccount
from hypothesis import given
from hypothesis import strategies as st

PAUSE = 50_000_000
PARTS = ("start_ns", "end_ns", "pauses_ns", "waited_ns", "delayed_ns", "late_ns", "unexplained_ns")


def parts(account: TimeAccount, t_ns: int, others: int = 0) -> dict[str, int]:
    """Those that are not 0."""
    spent = account.spent(t_ns, others)
    assert sum(spent[part] for part in PARTS) <= spent["elapsed_ns"]
    return {part: ns for part in PARTS if (ns := spent[part])}


def test_alone_nothing_is_lost() -> None:
    account = TimeAccount(0)
    account.launched(100, 50, 20)
    account.complete(150, 110)
    account.launched(170, 50, 20)
    account.complete(220, 180)
    assert parts(account, 230) == {"start_ns": 100, "end_ns": 10}


def test_work_of_its_own_goes_before_its_wait_at_the_gate() -> None:
    account = TimeAccount(0)
    account.launched(0, 50, 0)
    account.at_gate(10)
    assert account.left_gate(90) == 40, "alone its kernel would have run until 50"
    account.launched(90, 50, 0)
    account.complete(140, 95)
    assert parts(account, 140) == {"waited_ns": 40}


def test_a_wait_before_the_first_launch_is_no_start() -> None:
    account = TimeAccount(0)
    account.at_gate(30)
    account.left_gate(50)
    account.launched(50, 10, 0)
    account.complete(60, 55)
    assert parts(account, 60) == {"start_ns": 30, "waited_ns": 20}


def test_a_wait_that_goes_on_is_counted_until_now() -> None:
    account = TimeAccount(0)
    account.launched(0, 10, 0)
    account.at_gate(10)
    assert parts(account, 45) == {"waited_ns": 35}


def test_work_that_was_late_beside_others_was_delayed_and_else_took_longer_by_itself() -> None:
    for others, said in ((3, {"delayed_ns": 70}), (0, {})):
        account = TimeAccount(0)
        account.launched(0, 50, 10)
        account.complete(120, 5, others=others)
        account.launched(130, 50, 10, others)
        account.complete(180, 135, others=others)
        assert parts(account, 180, others) == said


def test_a_kernel_of_others_that_was_there_before_is_there_until_it_is_known_to_be_complete() -> None:
    """None was launched meanwhile: one at the beginning, one that still runs at the end, or none at all."""
    for before, after, said in (
        (True, False, {"delayed_ns": 70}),
        (False, True, {"delayed_ns": 70}),
        (False, False, {}),
    ):
        account = TimeAccount(0)
        account.launched(0, 50, 10, under_way=before)
        account.complete(120, 5, under_way=after)
        assert parts(account, 120) == said


def test_a_measured_client_is_delayed_by_nobody() -> None:
    account = TimeAccount(0, None, True)
    account.launched(0, 50, 10)
    account.complete(120, 5, others=3)
    assert parts(account, 120, 3) == {}


def test_what_of_a_gap_the_host_waited_for_word_of_its_work_is_no_delay() -> None:
    """A profile's gap is the device's: 10, of which the host ran for 4, as it heard 6 later that its work was done."""
    account = TimeAccount(0)
    account.launched(0, 50, 10)
    account.complete(56, 5, others=1)
    account.launched(60, 50, 10, 1)
    account.complete(116 + 30, 65, others=2)
    account.launched(150, 50, 10, 2)
    account.complete(200, 155, others=3)
    assert parts(account, 200, 3) == {"delayed_ns": 30}


def test_work_that_was_over_sooner_pays_for_work_that_took_longer() -> None:
    account = TimeAccount(0)
    account.launched(0, 50, 0)
    account.complete(30, 5, others=1)
    account.launched(30, 50, 0, 1)
    account.complete(100, 35, others=2)
    assert parts(account, 100, 2) == {}, "20 sooner, 20 later: its kernels vary"


def test_a_delay_is_counted_once() -> None:
    """What comes after work that was late is reckoned from when that was over."""
    account = TimeAccount(0)
    account.launched(0, 50, 0)
    account.launched(1, 50, 0)
    account.complete(80, 10, left_ns=50, all=False, others=1)
    account.complete(130, 90, others=1)
    assert parts(account, 130, 1) == {"delayed_ns": 30}


def test_a_host_that_takes_longer_than_its_profile_is_late_and_a_long_pause_is_its_own() -> None:
    account = TimeAccount(0)
    account.launched(0, 10, 5)
    account.complete(10, 2)
    account.launched(35, 10, 5)
    account.complete(45, 37)
    account.launched(45 + PAUSE, 10, 5)
    account.complete(55 + PAUSE, 50 + PAUSE)
    assert parts(account, 55 + PAUSE) == {"late_ns": 20, "pauses_ns": PAUSE}


def test_a_host_without_a_processor_core_is_late_and_no_pause_of_its_programs() -> None:
    """Half of PAUSE of its own and as much without a core: a gap as any other. Where PAUSE is left, that is the program's own."""
    for own, expected, said in (
        (PAUSE // 2, 5, {"late_ns": PAUSE - 5}),
        (PAUSE, 5, {"late_ns": PAUSE // 2, "pauses_ns": PAUSE}),
        (PAUSE // 2, None, {}),
    ):
        account = TimeAccount(0)
        account.launched(0, 10, expected)
        account.complete(10, 2)
        t_ns = 10 + own + PAUSE // 2
        account.launched(t_ns, 10, 0, no_core_ns=PAUSE // 2)
        assert parts(account, t_ns) == said


def test_no_gap_is_longer_without_a_core_than_it_is() -> None:
    account = TimeAccount(0)
    account.launched(0, 10, 0)
    account.complete(10, 2)
    account.launched(40, 10, 0, no_core_ns=2**62)
    assert parts(account, 40) == {"late_ns": 30}


def test_what_no_profile_knows_is_unexplained_beside_others_only() -> None:
    for others, said in ((0, {}), (1, {"unexplained_ns": 20 + 100})):
        account = TimeAccount(0)
        account.launched(0, None, None)
        account.complete(100, 0, others=others)
        account.launched(120, 10, 0, others)
        account.complete(130, 121, others=2 * others)
        assert parts(account, 130, 2 * others) == said


def test_at_the_gate_behind_work_of_unknown_length_alone_it_might_have_waited_as_long() -> None:
    for others, said in ((1, {"unexplained_ns": 70, "waited_ns": 20}), (0, {"waited_ns": 20})):
        account = TimeAccount(0)
        account.launched(0, None, None)
        account.at_gate(10)
        account.complete(80, others=others)  # by a mark
        assert account.left_gate(100) == 20, "what is known to be for others"
        account.launched(100, 10, 0, others)
        account.complete(110, 105, others=others)
        assert parts(account, 110, others) == said


def test_once_what_was_granted_is_complete_the_gate_is_waited() -> None:
    account = TimeAccount(0)
    account.launched(0, None, None)
    account.at_gate(0)
    account.grant_done(30)
    assert account.left_gate(100) == 70
    account.launched(100, None, None, 1)
    account.at_gate(100)
    assert account.left_gate(150) == 0, "the next one is not known to be complete"
    account.launched(150, 10, 0, 2)
    account.complete(160, 155, others=2)
    assert parts(account, 160, 2)["waited_ns"] == 70


def test_a_gate_behind_many_known_and_an_unknown_launch_is_waited_but_for_its_part() -> None:
    account = TimeAccount(0)
    for number in range(9):
        account.launched(number, 10, 0)
    account.launched(9, None, None)
    account.at_gate(10)
    assert account.left_gate(190) == 90, "its known work is done at 90"
    account.launched(190, 10, 0, 1)
    account.complete(200, 195, others=1)
    assert parts(account, 200, 1) == {"waited_ns": 90, "unexplained_ns": 10}


def test_a_host_that_is_sooner_beside_others_pays_for_one_that_is_later_alone() -> None:
    account = TimeAccount(0)
    account.launched(0, 10, 30)
    account.complete(10, 2)
    account.launched(50, 10, 30)
    account.complete(60, 52, others=1)
    account.launched(75, 10, 30, 1)
    account.complete(85, 77, others=2)
    assert parts(account, 85, 2) == {}, "10 late by itself, 15 sooner beside others"
    account.launched(120, 10, 30, 2)
    account.complete(130, 122, others=3)
    assert parts(account, 130, 3) == {}
    account.launched(180, 10, 30, 3)
    assert parts(account, 180, 3) == {"late_ns": 20 - 15 + 10 + 5}


def test_an_unknown_launch_among_many_leaves_no_more_unexplained_than_its_part() -> None:
    account = TimeAccount(0)
    for number in range(99):
        account.launched(number, 10, 0)
    account.launched(99, None, None)
    account.complete(1990, 100, others=1)
    assert parts(account, 1990, 1) == {"delayed_ns": 990, "unexplained_ns": 10}


def test_the_device_works_for_a_job_while_it_works_for_a_sibling() -> None:
    """Four ranks that share a GPU wait for each other alone, too."""
    job = JobWork()
    one, other = TimeAccount(0, job), TimeAccount(0, job)
    one.launched(0, 50, 0)
    other.launched(0, 50, 0)
    one.complete(50, 5, others=1)
    other.complete(100, 5, others=1)
    assert parts(other, 100, 1) == {}
    other.launched(100, 50, 0, 1)
    other.complete(180, 105, others=2)
    assert parts(other, 180, 2) == {"delayed_ns": 30}


def test_where_kernels_overlap_a_job_waits_for_none_of_a_sibling() -> None:
    """By MPS: what each of them needs, it needs at the same time."""
    job = JobWork()
    one, other = TimeAccount(0, job, overlaps=True), TimeAccount(0, job, overlaps=True)
    one.launched(0, 50, 0)
    other.launched(0, 50, 0)
    one.complete(50, 5, others=1)
    other.complete(90, 5, others=1)
    assert parts(other, 90, 1) == {"delayed_ns": 40}
    other.launched(90, 50, 0, 1)
    one.launched(90, 50, 0, 1)
    one.at_gate(100)
    assert one.left_gate(180) == 40, "at the gate, too"


def test_kernels_that_overlap_with_siblings_take_alone_as_long_as_they_took_without_others() -> None:
    """A fifth longer beside its siblings, and a half beside others, too: the rest is a delay."""
    account = TimeAccount(0, JobWork(), overlaps=True)
    t_ns = others = 0
    for took_ns, more in ((60, 0), (60, 0), (75, 1), (75, 1)):
        account.launched(t_ns, 50, 0, others)
        others += more
        account.complete(t_ns + took_ns, t_ns + 5, others=others)
        t_ns += took_ns
    assert parts(account, t_ns, others) == {"delayed_ns": 2 * (75 - 60)}


def test_after_lost_reports_the_time_until_the_next_one_is_unexplained() -> None:
    account = TimeAccount(0)
    account.launched(0, 10, 0)
    account.complete(10, 5)
    account.lost()
    account.launched(70, 10, 0)
    account.complete(80, 75)
    assert parts(account, 80) == {"unexplained_ns": 60}


@dataclass
class Oracle:
    """The states by their precedence, instant by instant, of a client whose kernels and gaps are exactly as in its profile."""

    t: int = 0
    dry: int = 0
    begun: bool = False
    waited: int = 0
    late: int = 0
    start: int = 0
    gap: int = 0
    after: int = 0
    account: TimeAccount = field(default_factory=lambda: TimeAccount(0))

    def passes(self, length: int, state: str) -> None:
        for _ in range(length):
            if self.t >= self.dry:
                if state == "gate":
                    self.waited += 1
                elif not self.begun:
                    self.start += 1
                else:
                    self.gap += 1
            self.t += 1

    def launch(self, wait: int, work: int, gap: int) -> None:
        if wait:
            self.account.at_gate(self.t)
            self.passes(wait, "gate")
            self.account.left_gate(self.t)
        self.account.launched(self.t, work, gap)
        if self.begun:
            self.late += self.gap - self.after
        self.gap, self.after = 0, gap
        self.begun = True
        self.dry = max(self.dry, self.t) + work


STEPS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 40), st.integers(1, 40), st.integers(0, 20), st.booleans()),
    max_size=30,
)


@given(STEPS)
def test_the_parts_are_those_that_the_precedence_says(steps: list[tuple[int, int, int, int, bool]]) -> None:
    oracle = Oracle()
    for thinks, waits, work, gap, syncs in steps:
        oracle.passes(thinks, "host")
        oracle.launch(waits, work, gap)
        if syncs and oracle.t < oracle.dry:  # its host waits until its work is done, which is when it was reckoned
            began = oracle.t
            oracle.passes(oracle.dry - oracle.t, "sync")
            oracle.account.complete(oracle.t, began, others=oracle.t)
    spent = oracle.account.spent(oracle.t, oracle.t)
    assert spent["elapsed_ns"] == oracle.t
    assert (spent["waited_ns"], spent["start_ns"]) == (oracle.waited, oracle.start)
    assert (spent["delayed_ns"], spent["unexplained_ns"]) == (0, 0)
    assert spent["end_ns"] == (oracle.gap if oracle.begun else 0)
    assert spent["late_ns"] == max(oracle.late, 0), (
        "a host that is sooner alone pays for one that is later beside others"
    )


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["launch", "unknown", "gate", "leave", "sync", "query", "lost"]),
            st.integers(0, PAUSE),
            st.integers(0, 3),
        ),
        max_size=40,
    )
)
def test_whatever_happens_no_instant_counts_twice(events: list[tuple[str, int, int]]) -> None:
    """Also of a liar, whose words come in any order."""
    account, t_ns, others = TimeAccount(0), 0, 0
    for what, ns, more in events:
        t_ns, others = t_ns + ns, others + more
        match what:
            case "launch" | "unknown":
                account.launched(t_ns, ns if what == "launch" else None, ns // 2 if more else None, others)
            case "gate":
                account.at_gate(t_ns)
            case "leave":
                assert account.left_gate(t_ns - ns // 2) >= 0
            case "sync" | "query":
                account.complete(
                    t_ns, t_ns - ns if what == "sync" else None, left_ns=ns // 3, all=more > 0, others=others
                )
            case "lost":
                account.lost()
        spent = account.spent(t_ns, others)
        assert all(spent[part] >= 0 for part in PARTS)
        assert sum(spent[part] for part in PARTS) <= spent["elapsed_ns"] <= max(t_ns, 0)


def test_a_stopped_host_is_suspended_wherever_it_stands() -> None:
    """At the gate, in a wait for work that is done, or by itself: only its own work on the device goes before."""
    for where in ("gate", "wait", "gap"):
        account = TimeAccount(0)
        account.launched(0, 50, 10)
        if where == "gate":
            account.at_gate(20)
        account.stood(20, 1000)
        account.stood(20, 2000)
        if where == "gate":
            account.left_gate(2010)
        account.complete(2010, 10 if where == "wait" else None)
        spent = account.spent(2010, 3)
        assert spent["suspended_ns"] == 1950
        assert sum(spent[part] for part in PARTS) <= 10
