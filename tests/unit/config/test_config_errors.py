"""fikit.toml: what is accepted, and the one sentence for everything else."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from fikitd.config import access, fikit_toml, former_keys
from fikitd.config.fikit_toml import Config, ConfigError, load, parse
from fikitd.daemon import main
from fikitd.daemon.main import command

import fikitd

ROOT = Path(__file__).resolve().parents[3]


def fault(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text, "fikit.toml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_empty_file_is_the_defaults() -> None:
    assert parse("", "fikit.toml") == Config()


def test_the_sites_example_says_the_defaults_and_every_key() -> None:
    text = (ROOT / "site" / "fikit.toml").read_text()
    assert parse(text, "fikit.toml") == Config()
    assert {name: set(keys) for name, keys in tomllib.loads(text).items()} == {
        section.name: {key.name for key in dataclasses.fields(getattr(Config(), section.name))} - {"rule"}
        for section in dataclasses.fields(Config)
        if section.name != "warnings"
    }


def test_an_unknown_key_is_named_with_its_line_and_the_nearest_valid_one() -> None:
    text = '# site\n\n[daemon]\nidle_exit_s = 60\n\n[scheduler]\npolcy = "fifo"\n'
    assert fault(text) == 'fikit.toml:7: unknown key "polcy" in [scheduler]; did you mean "policy"?'


def test_an_unknown_section_is_named_with_its_line() -> None:
    assert fault("[daemon]\n[schedular]\n") == "fikit.toml:2: unknown section [schedular]; did you mean [scheduler]?"


def test_a_key_outside_every_section_is_named() -> None:
    assert fault('policy = "fifo"\n').startswith('fikit.toml:1: unknown key "policy" outside every section; known are')


def test_a_key_without_a_near_one_lists_the_known() -> None:
    assert fault("[slurm]\nxyzzy = 1\n").endswith(
        '; known are "gpu_memory_gib", "default_share_gib", "default_priority"'
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[scheduler]\nscheduler = """\n[daemon]\npolcy\n"""\npolcy = 1\n', 2),
        ("[scheduler]\nxs = [\n 1,\n 2,\n]\n", 2),
        ("scheduler.polcy = 1\n", 1),
        ('[scheduler]\nlease_ms = 10\n"polcy" = "fifo"\n', 3),
        ("[daemon]\n\n\n[scheduler] # comment\n\n  polcy = 1", 6),
        ("scheduler = {\n", 1),
    ],
)
def test_lines_are_right_in_odd_files(text: str, line: int) -> None:
    assert fault(text).startswith(f"fikit.toml:{line}: ")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[scheduler]\nlease_ms = 1", "lease_ms in [scheduler] must be a whole number from 5 to 10000, not 1"),
        ('[scheduler]\nlease_ms = "100"', 'must be a whole number from 5 to 10000, not "100"'),
        ("[scheduler]\nlease_ms = true", "must be a whole number from 5 to 10000, not true"),
        ("[scheduler]\nspin_us = 2.5", "must be a whole number from 0 to 10000, not 2.5"),
        ('[scheduler]\npolicy = "fair"', 'policy in [scheduler] must be one of fifo, prio, paper, budget, not "fair"'),
        ("[scheduler]\npolicy = []", "must be one of fifo, prio, paper, budget, not a list"),
        ('[daemon]\nrun_dir = "run"', 'run_dir in [daemon] must be an absolute path, not "run"'),
        (f'[daemon]\nrun_dir = "/{"x" * 100}"', "must be at most 94 bytes long, because a socket's path"),
        (
            "[scheduler]\nmax_slowdown = 5",
            'max_slowdown in [scheduler] must be a share of 0 to 100 %, as "5%", not 5',
        ),
        ('[scheduler]\nmax_slowdown = "120%"', 'must be a share of 0 to 100 %, as "5%", not "120%"'),
        ('[scheduler]\nmax_slowdown = "-1%"', 'must be a share of 0 to 100 %, as "5%", not "-1%"'),
        ("[scheduler]\nmax_delay_us = -1", "max_delay_us in [scheduler] must be a whole number from 0 to 10000000"),
        ('[scheduler]\nmin_allowed_slowdown = "nan"', 'must be a share of 0 to 100 %, as "5%", not "nan"'),
        ("[slurm]\ndefault_priority = 12", "default_priority in [slurm] must be"),
        ("[access]\nhighest_priority = 10", 'must be "high", "normal", "low", or a number from 0 (highest) to 9'),
        ('[[access.rule]]\nqos = "a"', "fikit.toml:1: highest_priority is missing in [access]: say what the jobs may"),
        (
            '[access]\nhighest_priority = 1\n[[access.rule]]\nqso = "a"',
            'fikit.toml:3: rule in [access] number 1: unknown key "qso"; did you mean "qos"?',
        ),
        (
            "[access]\nhighest_priority = 1\n[[access.rule]]\nhighest_priority = 1",
            "number 1: it names no account, qos, partition or group",
        ),
        ('[access]\nhighest_priority = """high"""', "knows no strings of several lines"),
        (
            '[metrics]\nlisten = "localhost:9836"',
            'listen in [metrics] must be an address of numbers and a port, as "127.0.0.1:9836"',
        ),
        ('[metrics]\nlisten = "::1:9836"', 'or "[::1]:9836", not "::1:9836"'),
        ('[metrics]\nlisten = "127.0.0.1:0"', 'not "127.0.0.1:0"'),
        ('[metrics]\nlisten = "127.0.0.1:65536"', 'not "127.0.0.1:65536"'),
        ('[metrics]\nlisten = "[127.0.0.1]:80"', 'not "[127.0.0.1]:80"'),
        ("[metrics]\nlisten = 9836", "must be an address of numbers and a port"),
        (
            '[metrics]\ntextfile = "/tmp/fikit.txt"',
            "textfile in [metrics] must be an absolute path that ends with .prom",
        ),
        ('[metrics]\ntextfile = "fikit.prom"', 'not "fikit.prom"'),
        ("daemon = 1", 'fikit.toml:1: "daemon" must be a section, [daemon]'),
        ("[daemon]\nrun_dir = /run", "fikit.toml:2: this is not TOML: the value is neither a number"),
        ("[daemon]\nidle_exit_s = ", "fikit.toml:2: this is not TOML: the value is neither a number"),
        ("[daemon\n", "fikit.toml:1: this is not TOML: "),
    ],
)
def test_wrong_values_get_one_sentence(text: str, sentence: str) -> None:
    assert sentence in fault(text)


def test_check_config_lists_every_fault_in_order_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "fikit.toml"
    path.write_text('[scheduler]\npolcy = 1\nlease_ms = 0\n[deamon]\nrun_dir = "x"\n')
    result = CliRunner().invoke(command, ["--config", str(path), "--check-config"])
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert [line.split(":")[1] for line in lines] == ["2", "3", "4"]
    assert all(line.startswith(str(path)) for line in lines)


def test_check_config_prints_a_configuration_that_is_the_one_in_force(tmp_path: Path) -> None:
    path = tmp_path / "fikit.toml"
    path.write_text('[scheduler]\npolicy = "prio"\n[daemon]\nreport_dir = "/odd \\" \\\\ \\u0001"\n')
    result = CliRunner().invoke(command, ["--config", str(path), "--run-dir", "/other", "--check-config"])
    assert result.exit_code == 0
    expected = load(path).with_run_dir("/other")
    assert parse(result.output, "out") == expected
    assert expected.scheduler.policy == "prio"


def test_a_policy_by_its_former_name_is_the_same_and_one_sentence_says_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "fikit.toml"
    path.write_text('[daemon]\n[scheduler]\npolicy = "fikit"\n')
    sentence = f'{path}:3: policy "fikit" is called "paper" now: write "paper", the old name will not be known for ever'
    assert load(path).scheduler.policy == "paper"
    assert load(path).warnings == (sentence,)
    result = CliRunner().invoke(command, ["--config", str(path), "--check-config"])
    assert result.exit_code == 0
    assert result.stderr == f"{sentence}\n"
    assert parse(result.stdout, "out").warnings == ()


FORMER = """[daemon]
forget_s = 7
[scheduler]
epsilon_us = 11
mark_every = 12
ageing_ms = 13
lowest_max_slowdown = "14%"
[access]
highest_priority = 1
[[access.rule]]
qos = "urgent"
lowest_max_delay_us = 15
"""


def test_keys_by_their_former_names_are_read_and_each_is_said_once(tmp_path: Path) -> None:
    now = {former: key for names in former_keys.FORMER_KEYS.values() for former, key in names.items()}
    today = FORMER
    for former, key in now.items():
        today = today.replace(former, key)
    config = parse(FORMER, "f")
    assert config == parse(today, "f")
    assert (config.daemon.orphan_timeout_s, config.scheduler.min_gap_us, config.scheduler.marker_interval) == (
        7,
        11,
        12,
    )
    assert access.rules_of(config.access)[0].limits.min_allowed_delay_us == 15
    assert parse(today, "f").warnings == ()
    assert config.warnings[1].startswith(
        "f:2: forget_s in [daemon] is called orphan_timeout_s now: write orphan_timeout_s"
    )
    assert sorted(line.split()[1] for line in config.warnings) == sorted(
        ["forget_s", "epsilon_us", "mark_every", "ageing_ms", "lowest_max_slowdown", "lowest_max_delay_us"]
    )


def test_every_former_key_leads_to_one_that_is_there() -> None:
    for section, names in former_keys.FORMER_KEYS.items():
        keys = {key.name for key in dataclasses.fields(type(getattr(Config(), section)))}
        assert set(names.values()) <= keys
        assert not keys & set(names)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[daemon]\nforget_s = -1\n", "f:2: orphan_timeout_s in [daemon] must be a whole number"),
        (
            "[daemon]\norphan_timeout_s = 1\nforget_s = 1\n",
            "f:3: forget_s in [daemon] is orphan_timeout_s, which stands there, too",
        ),
        ("[access]\nlowest_max_slowdown = 5\n", "f:2: min_allowed_slowdown in [access] must be a share"),
        ("daemon = 1\n", 'f:1: "daemon" must be a section'),
        ("access = [1]\n", 'f:1: "access" must be a section'),
    ],
)
def test_a_fault_of_a_former_key_is_said_on_its_line(text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(text, "f")
    assert str(raised.value).startswith(fault)


def test_the_daemon_says_such_a_sentence_when_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "fikit.toml"
    path.write_text('[scheduler]\npolicy = "fikit"\n')
    monkeypatch.setattr(main, "serve", lambda config: 0 if config.scheduler.policy == "paper" else 1)
    result = CliRunner().invoke(command, ["--config", str(path)])
    assert result.exit_code == 0
    assert result.stderr.startswith(f'fikitd: warning: {path}:2: policy "fikit" is called "paper" now')


def test_a_named_file_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fikit_toml.ENV_CONFIG, str(tmp_path / "none.toml"))
    with pytest.raises(ConfigError, match=r"none\.toml does not exist"):
        load()


def test_the_default_file_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(fikit_toml.ENV_CONFIG, raising=False)
    monkeypatch.setattr(fikit_toml, "DEFAULT_PATH", tmp_path / "none.toml")
    assert load() == Config()


def test_a_directory_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path} could not be read: Is a directory"):
        load(tmp_path)


def test_the_package_and_the_daemon_have_one_version() -> None:
    """What pip says was installed: pyproject.toml has the number from the daemon's package."""
    assert importlib.metadata.version("fikit") == fikitd.__version__


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[scheduler]\npolicy = budget\n", "fikit.toml:2: this is not TOML: the value is neither a number, true or false, nor text in "
         'quotes, as "budget"'),
        ("[daemon]\n[slurm]\n[daemon]\n", "fikit.toml:3: this is not TOML: section [daemon] begins a second time; write its keys where it "
         "begins first"),
        ("[slurm]\ngpu_memory_gib = 1\ngpu_memory_gib = 2\n",
         "fikit.toml:3: this is not TOML: the key of this line stands there a second time"),
    ],
)  # fmt: skip
def test_mistakes_of_form_that_people_make_are_told_in_plain_words(text: str, sentence: str) -> None:
    assert fault(text) == sentence


def test_collective_kernels_are_names_that_fit_into_a_page() -> None:
    assert parse('[scheduler]\ncollective_kernels = ["*ring*", "x"]\n', "f").scheduler.collective_kernels == (
        "*ring*",
        "x",
    )
    assert parse(
        parse('[scheduler]\ncollective_kernels = ["a\\\\b"]\n', "f").toml(), "f"
    ).scheduler.collective_kernels == ("a\\b",)
    for value in ('"x"', "[1]", '[""]', r'["a\u0000b"]'):
        assert fault(f"[scheduler]\ncollective_kernels = {value}\n") == (
            "fikit.toml:2: collective_kernels in [scheduler] must be a list of names or patterns of kernels, "
            'as ["*my_all_reduce*"]'
        )
    many = ", ".join(['"0123456789"'] * 200)
    assert fault(f"[scheduler]\ncollective_kernels = [{many}]\n").endswith("must have at most 2046 bytes of names")
