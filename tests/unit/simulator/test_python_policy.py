"""A policy written in Python: it is asked and told what a native one is, under the same names, and its faults are one sentence."""

from __future__ import annotations

import json
import random
import re
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from claims import DEVICES, lies_between, outcome, protects_and_feeds
from click.testing import CliRunner
from fikit.commands.sim import command
from fikitd.simulation import policy as api
from fikitd.simulation import policy_file, simulator
from fikitd.simulation.simulator import MPS, SLICES, Costs, Device, Scenario

from bench import recordings
from fikitd import _simulator

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "policies"
CORE = ROOT / "fikitd" / "core" / "policy" / "base"
HEAD = "from fikitd.simulation.policy import Launches, Policy\n\n\n"


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    """Made-up inference above made-up training."""
    high = simulator.parse("inference", recordings.inference(1).text().decode())
    low = simulator.parse("training", recordings.training(1).text().decode())
    return Scenario(high, [low], requests=10)


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], Path]:
    """A file with this policy, or with a class whose choose() has this body."""

    def write(text: str) -> Path:
        path = tmp_path / "mine.py"
        body = textwrap.dedent(text)
        if "class " not in body:
            body = f"class Mine(Policy):\n    def choose(self, now_ns):\n{textwrap.indent(body, ' ' * 8)}"
        path.write_text(HEAD + body + "\n")
        return path

    return write


def enumerators(kind: str) -> tuple[str, ...]:
    (body,) = re.findall(
        rf"enum class {kind} : std::uint8_t \{{(.*?)\n\}};", (CORE / "events.hpp").read_text(), re.DOTALL
    )
    return tuple(re.findall(r"^  (\w+),", body, re.MULTILINE))


def test_events_and_decisions_have_the_names_of_the_native_ones() -> None:
    assert get_args(api.EventKind) == _simulator.EVENTS == enumerators("EventKind")
    assert get_args(api.Decision) == _simulator.DECISIONS == enumerators("DecisionKind")
    assert tuple(api.DECIDED_BY) == _simulator.DECISIONS


def test_whatever_an_event_says_python_is_told() -> None:
    (body,) = re.findall(r"^struct Event \{(.*?)\n\};", (CORE / "events.hpp").read_text(), re.DOTALL | re.MULTILINE)
    fields = re.findall(r"^  [\w:<>]+ (\w+)(?: =|\{\}|;)", body, re.MULTILINE)
    assert {"kind", "time_ns", "outlook"} < set(fields)
    of_the_client = {"overlaps", "protection", "user", "job", "stands"}  # it has it from then on
    assert {field for field in fields if not hasattr(_simulator.Event, field)} == of_the_client
    assert all(hasattr(_simulator.Client, field) for field in of_the_client)


def test_each_question_of_a_native_policy_is_asked_in_python_too() -> None:
    asked = set(re.findall(r"^  virtual [\w:&* ]+?\b(\w+)\(", (CORE / "level_policy.hpp").read_text(), re.MULTILINE))
    methods = {name for name in vars(api.Policy) if not name.startswith("_")}
    assert asked == asked & methods
    assert {method for answers in api.DECIDED_BY.values() for method in answers} <= asked


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.sharing)
@pytest.mark.parametrize("changes", [{}, {"arrivals": "open30"}, {"cold": True}, {"lows": 2}], ids=str)
def test_prio_in_python_decides_as_the_native_one_to_the_nanosecond(
    scenario: Scenario, device: Device, changes: dict[str, Any]
) -> None:
    same = replace(scenario, device=device, **(changes | {"lows": list(scenario.lows) * changes.get("lows", 1)}))
    native, python = outcome("prio", same), outcome(EXAMPLES / "prio.py", same)
    assert native.grants > 0
    assert replace(python, policy="prio") == native


def test_the_example_protects_the_high_job_and_feeds_the_low_one(scenario: Scenario) -> None:
    purse = EXAMPLES / "purse.py"
    protects_and_feeds(purse, scenario, high_jct_ratio=1.05, harvest=0.4, devices=DEVICES)
    # With MPS prio holds copies and memsets back, too, and protects as much.
    lies_between(purse, scenario, protects_more_than="prio", feeds_more_than="excl", devices=[SLICES])


@pytest.mark.parametrize(("policy", "fails"), [("exclusive", "the low job is starved"), ("fifo", "the high job takes")])
def test_a_claim_in_pairs_fails_by_either_half(scenario: Scenario, policy: str, fails: str) -> None:
    with pytest.raises(AssertionError, match=fails):
        protects_and_feeds(policy, scenario, high_jct_ratio=1.05, harvest=0.5)
    with pytest.raises(AssertionError, match="takes"):
        lies_between("prio", scenario, protects_more_than="prio", feeds_more_than="exclusive")


def test_without_gates_it_is_the_devices_own_sharing(scenario: Scenario, written: Callable[[str], Path]) -> None:
    mine = written("""
        class Open(Policy):
            def gates(self):
                return False
    """)
    assert replace(outcome(mine, scenario), policy="fifo") == outcome("fifo", scenario)


def test_one_grant_may_cover_the_launches_that_are_likely_to_follow(
    scenario: Scenario, written: Callable[[str], Path]
) -> None:
    one = outcome(EXAMPLES / "prio.py", scenario)
    runs = written("""
        class Runs(Policy):
            def looks_ahead(self):
                return True

            def choose(self, now_ns):
                first = self.first_waiting(now_ns)
                busy = self.highest(lambda client: client.progress.busy(now_ns))
                return first if first is not None and first.waits_here() and busy is None else None

            def granted(self, client):
                return Launches(client.run_launches, client.run_ns)
    """)
    several = outcome(runs, scenario)
    assert 0 < several.grants < 0.8 * one.grants
    assert several.kernels > 0.9 * one.kernels


def test_runs_are_extended_and_ended(scenario: Scenario, written: Callable[[str], Path]) -> None:
    mine = written("""
        SAID = {"extended": 0, "ended": 0}

        class Runs(Policy):
            def looks_ahead(self):
                return True

            def choose(self, now_ns):
                first = self.first_waiting(now_ns)
                busy = self.highest(lambda client: client.progress.busy(now_ns) and not client.closed)
                free = first is not None and first.waits_here() and first.in_flight(now_ns) < 8
                return first if free and busy is None else None

            def granted(self, client):
                return Launches(min(client.run_launches, 2), client.run_ns)

            def extended(self, now_ns):
                for client in self.clients:
                    run = client.run
                    if client.decided == "here" and run.taken and 0 < run.launches < run.next.launches:
                        SAID["extended"] += 1
                        return client, run.next
                return None

            def overstaying(self, now_ns):
                if not self.highest(lambda client: client.progress.busy(now_ns) and not client.closed):
                    return None
                for client in self.clients:
                    if client.decided == "here" and client.run.launches:
                        SAID["ended"] += 1
                        return client
                return None
    """)
    loaded = simulator.load_policy(str(mine))
    assert simulator.simulate(scenario, loaded).harvest > 0.1
    said = sys.modules[loaded.kind.__module__].SAID
    assert min(said.values()) > 0, said


def test_copies_ask_where_they_matter_and_go_when_they_are_chosen(written: Callable[[str], Path]) -> None:
    high = recordings.Made(random.Random(1))
    low = recordings.Made(random.Random(2))
    for made in (high, low):
        for _ in range(20):
            made.work("Memcpy HtoD (Pinned -> Device)", 400, size=4_000_000)
            made.work("gemm", 20)
            made.synchronize()
    pair = [simulator.parse(name, made.text().decode()) for name, made in (("high", high), ("low", low))]
    shared = Scenario(pair[0], pair[1:], requests=5)
    asks = """
        class Asks(Policy):
            def choose(self, now_ns):
                return next((client for client in self.clients if client.waits_here()), None)

            def copies_that_matter(self, client):
                return {"to_device"}
    """
    never = (
        asks
        + """
            def choose_copy(self, now_ns):
                return None
    """
    )
    assert outcome(written(asks), shared).grants > 50
    assert outcome(written(never), shared).grants < 2


def test_an_object_decides_about_one_priority_and_hears_nothing_of_those_below(
    scenario: Scenario, written: Callable[[str], Path]
) -> None:
    """Three priorities: the middle one's object begins with what it may know, and is told of the lowest by its grants alone."""
    mine = written("""
        HEARD, GIVEN = set(), set()

        class Mine(Policy):
            def __init__(self):
                self.launches = {}

            def noted(self, event, client):
                if event.kind not in ("client_added", "client_removed"):
                    HEARD.add((self.level, client.priority))
                self.launches[client] = self.launches.get(client, 0) + 1

            def noted_given(self, given, client, now_ns):
                GIVEN.add((self.level, client.priority, given.kind))

            def choose(self, now_ns):
                first = self.first_waiting(now_ns)
                busy = self.highest(lambda client: client.progress.busy(now_ns))
                return first if first is not None and first.waits_here() and busy is None else None
    """)
    loaded = simulator.load_policy(str(mine))
    traces = (scenario.high, scenario.lows[0], scenario.lows[0])
    jobs = [_simulator.Job(t.native, priority=p, profile=t.profile) for t, p in zip(traces, (1, 5, 8), strict=True)]
    with loaded.running():
        result = _simulator.simulate(loaded.make, jobs, requests=5, costs=Costs(), device=SLICES.native())
        middle, lowest = sorted((m for m in loaded.made if hasattr(m, "_level")), key=lambda m: len(m.launches))[-2:]
    assert all(job["kernels"] > 0 for job in result["jobs"])
    module = sys.modules[loaded.kind.__module__]
    assert {(5, 1), (5, 5), (8, 8)} <= module.HEARD
    assert all(priority <= level for level, priority in module.HEARD)
    assert (5, 8, "launches") in module.GIVEN
    assert middle.launches is not lowest.launches


def test_a_client_of_a_simulation_that_is_over_says_so(scenario: Scenario, written: Callable[[str], Path]) -> None:
    mine = written("""
        SEEN = []

        class Keeps(Policy):
            def choose(self, now_ns):
                SEEN.extend(self.clients)
                return None
    """)
    loaded = simulator.load_policy(str(mine))
    simulator.simulate(replace(scenario, requests=2), loaded)
    (kept, *_) = sys.modules[loaded.kind.__module__].SEEN
    assert kept.id == 0
    with pytest.raises(AttributeError, match="the simulation is over"):
        _ = kept.priority


FAULTS = {
    "return self.clients[0]": r"choose\(\) chose client 0 \(priority 1\), whose gate is open",
    "return 3": r"choose\(\) must return a client or None, not 3",
    "return 1 // 0": r"line 6, in choose\(\): ZeroDivisionError: integer division or modulo by zero",
    "import sys; sys.exit('bye')": r"line 6, in choose\(\): SystemExit: bye",
    "self.hold(self.clients[0], 'because')": r'line 6, in choose\(\): ValueError: there is no reason "because"',
    "idle = [client for client in self.clients if client.closed and not client.waiting]\n"
    "return idle[0] if idle else self.first_waiting(now_ns)": r"client 1 \(priority 8\), which asks for nothing",
    "class Empty(Policy):\n    pass": r"the policy has no choose\(\)",
    "class Past(Policy):\n    def choose(self, now_ns): pass\n    def next_change_ns(self, now_ns): return now_ns": "is not after now",
    "class Word(Policy):\n    def choose(self, now_ns): pass\n    def next_change_ns(self, now_ns): return 'soon'": "must return a time",
    "class Gates(Policy):\n    def gates(self): return 1": r"gates\(\) must return True or False, not 1",
    "class Many(Policy):\n    def choose(self, now_ns): return self.first_waiting(now_ns)\n"
    "    def granted(self, client): return Launches(1000)": "1000 launches; 1 to 256 may be covered",
    "class More(Policy):\n    def choose(self, now_ns): return self.first_waiting(now_ns)\n"
    "    def granted(self, client): return Launches(2)\n"
    "    def extended(self, now_ns): return self.clients[-1], Launches(1)": "whose run already covers as many launches",
    "class End(Policy):\n    def choose(self, now_ns): return self.first_waiting(now_ns)\n"
    "    def granted(self, client): return Launches(2)\n    def overstaying(self, now_ns): return self.clients[0]": "whose gate is open",
    "class Copy(Policy):\n    def choose(self, now_ns): pass\n    def copies_that_matter(self, client): return ['sideways']": "named 'sideways'",
    "class Init(Policy):\n    def __init__(self, size): pass": "missing 1 required positional argument: 'size'; its __init__ takes nothing",
}


@pytest.mark.parametrize("body", FAULTS)
def test_a_faulty_policy_is_one_sentence_with_file_and_line(
    scenario: Scenario, written: Callable[[str], Path], body: str
) -> None:
    path = written(body)
    with pytest.raises(simulator.SimulatorError, match=FAULTS[body]) as raised:
        outcome(path, replace(scenario, lows=[*scenario.lows, *scenario.lows], requests=2))
    assert re.match(rf"couldn't (go on with|make the policy of) {path}: ", str(raised.value))
    assert "\n" not in str(raised.value)


def test_a_policy_that_does_not_answer_is_interrupted(
    scenario: Scenario, written: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_file, "ANSWER_S", 0.2)
    with pytest.raises(simulator.SimulatorError, match=r"in choose\(\): it has not answered for 0.2 s"):
        outcome(written("while True: pass"), scenario)


@pytest.fixture
def traces(tmp_path: Path) -> list[str]:
    high, low = tmp_path / "high.csv", tmp_path / "low.csv"
    high.write_bytes(recordings.inference(1).text())
    low.write_bytes(recordings.training(1).text())
    return ["--high", str(high), "--low", str(low), "--requests", "3"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (None, "couldn't read the policy {}: No such file or directory"),
        ("x = 1", "there is no policy in {}: write a class that derives from fikitd.simulation.policy.Policy"),
        ("def (", "couldn't read the policy {}: line 1: invalid syntax"),
        ("\nimport nothing_like_it", "couldn't run the policy {}: line 2: ModuleNotFoundError: No module named"),
        (HEAD + "class A(Policy): pass\nclass B(Policy): pass", "there are several policies in {}: say which one, as {}:A"),
    ],
)  # fmt: skip
def test_a_file_without_a_policy_is_one_sentence(
    traces: list[str], tmp_path: Path, text: str | None, what: str
) -> None:
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(text)
    done = CliRunner().invoke(command, [*traces, "--policy", str(path)])
    assert done.exit_code == 1
    assert what.format(path, path) in done.output
    assert done.output.count("\n") == 1


def test_one_of_several_policies_of_a_file_is_named_by_its_class(traces: list[str], tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        HEAD
        + "class A(Policy):\n    def gates(self): return False\nclass B(Policy):\n    def choose(self, now_ns): return None\n"
    )
    done = CliRunner().invoke(command, [*traces, "--policy", f"{path}:A", "--json"])
    assert json.loads(done.stdout)["policy"] == "mine.py:A"
    none = CliRunner().invoke(command, [*traces, "--policy", f"{path}:C"])
    assert f'there is no policy "C" in {path}, which has A, B' in none.output


def test_a_policy_that_lets_nobody_run_ends_and_says_so(traces: list[str], written: Callable[[str], Path]) -> None:
    done = CliRunner().invoke(command, [*traces, "--policy", str(written("return None")), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["harvest"] < 0.01
    assert done.stderr.startswith("fikit: warning: mine.py let no low job run in ")
    assert done.stderr.count("\n") == 1


def test_policies_stand_beside_each_other(traces: list[str]) -> None:
    mine = str(EXAMPLES / "purse.py")
    done = CliRunner().invoke(command, [*traces, "--policy", mine, "--policy", "prio", "--policy", mine])
    assert done.exit_code == 0, done.output
    assert [line.split()[0] for line in done.stdout.splitlines() if line.startswith((" purse.py", " prio"))] == [
        "purse.py",
        "prio",
    ]
    assert "simulated: slices of 1024 us, a switch of 50 us (assumed)" in done.stdout


def test_all_are_those_that_the_device_can_have(traces: list[str]) -> None:
    mine = str(EXAMPLES / "prio.py")
    done = CliRunner().invoke(command, [*traces, "--policy", mine, "--policy", "all", "--device", "mps", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["policies"]
    assert [each["policy"] for each in found] == ["prio.py", *simulator.policies_of(MPS)]
    assert all(each["emulated"] and each["device"] == "mps" for each in found)
