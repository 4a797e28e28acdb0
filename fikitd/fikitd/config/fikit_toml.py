"""fikit.toml: every key optional, every mistake reported with file, line and what to write instead."""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from fikitd.base import priorities, quantities
from fikitd.base.protocol import COLLECTIVES_BYTES, CONTROL_NAME, DEFAULT_RUN_DIR
from fikitd.config import access, address, former_keys, oversubscribe

DEFAULT_PATH: Final = Path("/etc/fikit/fikit.toml")
ENV_CONFIG: Final = "FIKIT_CONFIG"
POLICIES: Final = ("fifo", "prio", "paper", "budget")
FORMER_POLICIES: Final = {"fikit": "paper"}
"""Names that policies had once, by which they are still known."""
MPS_MODES: Final = ("off", "multi-user")
PLACEMENT_MODES: Final = ("off", "advise", "order", "pair")
SOCKET_PATH_BYTES: Final = 107  # unix(7): sun_path, without the NUL

Check = Callable[[Any], str | None]  # the fault of a value, as the end of the sentence `KEY ...`; None = none


class ConfigError(Exception):
    """fikit.toml cannot be used. `str()` is one sentence, about the first fault; `sentences` has all of them."""

    def __init__(self, sentences: list[str]) -> None:
        super().__init__(sentences[0])
        self.sentences = sentences


def _whole(minimum: int, maximum: int) -> Check:
    def check(value: Any) -> str | None:
        if type(value) is int and minimum <= value <= maximum:
            return None
        return f"must be a whole number from {minimum} to {maximum}, not {_shown(value)}"

    return check


def _directory(value: Any) -> str | None:
    if isinstance(value, str) and value.startswith("/") and "\0" not in value:
        return None
    return f"must be an absolute path, not {_shown(value)}"


def _directory_or_none(value: Any) -> str | None:
    return None if value == "" else _directory(value)


def _listen(value: Any) -> str | None:
    if value == "":
        return None
    try:
        address.parse(value if isinstance(value, str) else "")
    except ValueError:
        return f'must be an address of numbers and a port, as "127.0.0.1:9836" or "[::1]:9836", not {_shown(value)}'
    return None


def _textfile(value: Any) -> str | None:
    if value == "" or (_directory(value) is None and value.endswith(".prom")):
        return None
    return f"must be an absolute path that ends with .prom, or node_exporter does not read it, not {_shown(value)}"


def _name(value: Any) -> str | None:
    if isinstance(value, str) and value and value.isprintable():
        return None
    return f"must be a user's name, not {_shown(value)}"


def _run_directory(value: Any) -> str | None:
    limit = SOCKET_PATH_BYTES - len(CONTROL_NAME) - 1
    if (fault := _directory(value)) is None and len(os.fsencode(value)) > limit:
        return f"must be at most {limit} bytes long, because a socket's path may not be longer, not {_shown(value)}"
    return fault


def _policy(value: Any) -> str | None:
    return (
        None if value in (*POLICIES, *FORMER_POLICIES) else f"must be one of {', '.join(POLICIES)}, not {_shown(value)}"
    )


def _mps(value: Any) -> str | None:
    return None if value in MPS_MODES else f"must be one of {', '.join(MPS_MODES)}, not {_shown(value)}"


def _placement(value: Any) -> str | None:
    return None if value in PLACEMENT_MODES else f"must be one of {', '.join(PLACEMENT_MODES)}, not {_shown(value)}"


def _oversubscribe(value: Any) -> str | None:
    return (
        None
        if value in oversubscribe.MODES
        else f"must be one of {', '.join(oversubscribe.MODES)}, not {_shown(value)}"
    )


def _share(value: Any) -> str | None:
    try:
        quantities.share(value if isinstance(value, str) else "")
    except ValueError:
        return f'must be a share of 0 to 100 %, as "5%", not {_shown(value)}'
    return None


def _names(value: Any) -> str | None:
    if not isinstance(value, list) or not all(isinstance(name, str) and name and name.isprintable() for name in value):
        return 'must be a list of names or patterns of kernels, as ["*my_all_reduce*"]'
    if sum(len(name.encode()) + 1 for name in value) > COLLECTIVES_BYTES - 2:
        return f"must have at most {COLLECTIVES_BYTES - 2} bytes of names"
    return None


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    return f'"{value}"' if isinstance(value, str) else f"a {type(value).__name__}"


def _key(default: Any, check: Check) -> Any:
    return field(default=default, metadata={"check": check})


@dataclass(frozen=True)
class DaemonConfig:
    run_dir: str = _key(DEFAULT_RUN_DIR, _run_directory)
    report_dir: str = _key("/var/lib/fikit/reports", _directory)
    profile_dir: str = _key("/var/lib/fikit/profiles", _directory)
    idle_exit_s: int = _key(0, _whole(0, 31_536_000))
    trace_events: int = _key(16_384, _whole(0, 1_048_576))
    unmanaged_s: int = _key(10, _whole(0, 3600))
    orphan_timeout_s: int = _key(60, _whole(0, 86_400))
    keep_reports: int = _key(0, _whole(0, 1_000_000))
    keep_traces: int = _key(0, _whole(0, 1_000_000))
    keep_profiles: int = _key(0, _whole(0, 1_000_000))
    admin_comment_s: int = _key(0, _whole(0, 3600))
    outcomes_dir: str = _key("", _directory_or_none)
    outcomes_user: str = _key("slurm", _name)
    status_dir: str = _key("", _directory_or_none)
    gpu_use_s: int = _key(0, _whole(0, 3600))


@dataclass(frozen=True)
class SchedulerConfig:
    policy: str = _key("budget", _policy)
    lease_ms: int = _key(100, _whole(5, 10_000))
    min_gap_us: int = _key(20, _whole(0, 1_000_000))
    run_ahead_us: int = _key(500, _whole(0, 10_000_000))
    idle_after_us: int = _key(2000, _whole(1, 10_000_000))
    spin_us: int = _key(20, _whole(0, 10_000))
    sample_every: int = _key(64, _whole(0, 1_000_000))
    marker_interval: int = _key(32, _whole(0, 1_000_000))
    max_slowdown: str = _key("5%", _share)
    max_delay_us: int = _key(0, _whole(0, 10_000_000))
    starvation_timeout_ms: int = _key(1000, _whole(0, 3_600_000))
    min_allowed_slowdown: str = _key("0%", _share)
    min_allowed_delay_us: int = _key(0, _whole(0, 10_000_000))
    collective_kernels: Sequence[str] = _key((), _names)

    def share(self, key: str) -> float:
        """A key whose value is a share, as a number: 0.05 for "5%"."""
        return quantities.share(getattr(self, key))


@dataclass(frozen=True)
class GpuConfig:
    """How jobs share a GPU; docs/admin.md has what each choice gives and risks."""

    mps: str = _key("off", _mps)
    mps_clients: int = _key(48, _whole(1, 1024))


@dataclass(frozen=True)
class SlurmConfig:
    gpu_memory_gib: int = _key(16, _whole(1, 65_536))
    default_share_gib: int = _key(4, _whole(1, 65_536))
    default_priority: str | int = _key("normal", access.priority_fault)


@dataclass(frozen=True)
class OversubscribeConfig:
    """Whose GPU memory may be more than the GPU has; docs/memory.md has what that costs."""

    allow: str = _key("no", _oversubscribe)
    host_gib: int = _key(64, _whole(1, 65_536))
    max_factor: int = _key(2, _whole(1, 16))
    epoch_s: int = _key(30, _whole(1, 3600))


@dataclass(frozen=True)
class PlacementConfig:
    """For the agent on the controller, `fikit place`; fikitd only checks the section. docs/placement-agent.md has what each mode does."""

    mode: str = _key("off", _placement)
    max_wait_s: int = _key(1_209_600, _whole(1, 315_360_000))
    span: int = _key(1000, _whole(2, 100_000_000))
    run_dir: str = _key("/run/fikit-place", _directory)


@dataclass(frozen=True)
class MetricsConfig:
    """Figures for Prometheus; "" = not published in this way. docs/admin.md has them all, and who can read them."""

    listen: str = _key("", _listen)
    textfile: str = _key("", _textfile)
    job_map_dir: str = _key("", _directory_or_none)


@dataclass(frozen=True)
class AccessConfig:
    """Enforced by slurmctld, not by the daemon; fikitd.config.access says what it means."""

    highest_priority: str | int = _key(0, access.priority_fault)
    min_allowed_slowdown: str = _key("0%", _share)
    min_allowed_delay_us: int = _key(0, _whole(0, access.LONGEST_DELAY_US))
    rule: Sequence[Mapping[str, Any]] = _key((), access.rules_fault)


@dataclass(frozen=True)
class Config:
    """`warnings`: a sentence for each thing that the file says in a way that will not be known for ever."""

    daemon: DaemonConfig = DaemonConfig()
    scheduler: SchedulerConfig = SchedulerConfig()
    gpu: GpuConfig = GpuConfig()
    slurm: SlurmConfig = SlurmConfig()
    oversubscribe: OversubscribeConfig = OversubscribeConfig()
    placement: PlacementConfig = PlacementConfig()
    metrics: MetricsConfig = MetricsConfig()
    access: AccessConfig = AccessConfig()
    warnings: tuple[str, ...] = field(default=(), compare=False)

    def with_run_dir(self, run_dir: str) -> Config:
        """The same with another run_dir; ConfigError when it cannot be one."""
        if fault := _run_directory(run_dir):
            raise ConfigError([f"run_dir {fault}"])
        return replace(self, daemon=replace(self.daemon, run_dir=run_dir))

    def mark(self) -> str:
        """Digits that differ where fikitd would go by something else after its next start: not by what others read of the file."""
        own = replace(self, slurm=SlurmConfig(), placement=PlacementConfig(), access=AccessConfig())
        text = own.with_run_dir(DEFAULT_RUN_DIR).toml()  # run_dir may be an option's
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def toml(self) -> str:
        """This configuration as fikit.toml with every key."""
        lines: list[str] = []
        for name in _SECTIONS:
            lines.append(f"[{name}]")
            values = getattr(self, name)
            for key in fields(values):
                if key.name != "rule":
                    lines.append(f"{key.name} = {_literal(getattr(values, key.name))}")
        for rule in self.access.rule:
            lines += ["[[access.rule]]", *(f"{key} = {_literal(value)}" for key, value in rule.items())]
        return "\n".join(lines) + "\n"


_SECTIONS: Final[dict[str, type]] = {
    "daemon": DaemonConfig, "scheduler": SchedulerConfig, "gpu": GpuConfig, "slurm": SlurmConfig,
    "oversubscribe": OversubscribeConfig, "placement": PlacementConfig, "metrics": MetricsConfig, "access": AccessConfig,
}  # fmt: skip


def load(path: Path | str | None = None) -> Config:
    """Read `path`, else the file that FIKIT_CONFIG names, else /etc/fikit/fikit.toml, else the defaults.

    Only the last of the three may be missing. ConfigError for anything that cannot be used.
    """
    named = path or os.environ.get(ENV_CONFIG)
    file = Path(named or DEFAULT_PATH)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        if named is None:
            return Config()
        raise ConfigError([f"{file} does not exist; name another file with --config or {ENV_CONFIG}"]) from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError([f"{file} could not be read: {why}"]) from None
    return parse(text, str(file))


def parse(text: str, file: str) -> Config:
    """The configuration that `text` says; `file` is only its name in ConfigError."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([_syntax_sentence(error, text, file)]) from None
    document, renamed, twice = former_keys.renamed(document)
    written: dict[tuple[str, ...], tuple[str, ...]] = {
        (key.section, key.now): (key.section, key.former) for key in renamed
    }
    faults = sorted((_line_of(text, written.get(keys, keys)), fault) for keys, fault in (*twice, *_faults(document)))
    if faults:
        raise ConfigError([f"{file}:{line}: {fault}" for line, fault in faults])
    said = {name: {key: _kept(value) for key, value in document.get(name, {}).items()} for name in _SECTIONS}
    warnings = [f"{file}:{_line_of(text, (key.section, key.former))}: {key.sentence}" for key in renamed]
    if (former := said["scheduler"].get("policy")) in FORMER_POLICIES:
        said["scheduler"]["policy"] = FORMER_POLICIES[former]
        line = _line_of(text, ("scheduler", "policy"))
        warnings.append(f"{file}:{line}: {renamed_policy(former)}")
    config = Config(**{name: section(**said[name]) for name, section in _SECTIONS.items()}, warnings=tuple(warnings))
    named = said["slurm"].get("default_priority")
    if priorities.site_default(text) != (None if named is None else priorities.parse(str(named))):
        line = _line_of(text, ("slurm", "default_priority"))
        raise ConfigError([f"{file}:{line}: default_priority is read by the nodes' prologs, too, which know no TOML: write it as a line "
                           'of its own below [slurm], as default_priority = "low"'])  # fmt: skip
    if config.access != AccessConfig() and (fault := access.text_fault(text)):
        raise ConfigError([f"{file}: {fault}"])
    return config


def renamed_policy(former: str) -> str:
    """What to tell who wrote a policy's former name."""
    now = FORMER_POLICIES[former]
    return f'policy "{former}" is called "{now}" now: write "{now}", the old name will not be known for ever'


def _kept(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _faults(document: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, content in document.items():
        if name not in _SECTIONS:
            what = f"section [{name}]" if isinstance(content, dict) else f'key "{name}" outside every section'
            yield (name,), f"unknown {what}{_nearest(name, list(_SECTIONS), '[{}]')}"
        elif not isinstance(content, dict):
            yield (name,), f'"{name}" must be a section, [{name}]'
        else:
            known = {key.name: key.metadata["check"] for key in fields(_SECTIONS[name])}
            for key, value in content.items():
                if key not in known:
                    yield (
                        (name, key),
                        f'unknown key "{key}" in [{name}]{_nearest(key, list(known), chr(34) + "{}" + chr(34))}',
                    )
                elif fault := known[key](value):
                    yield (name, key), f"{key} in [{name}] {fault}"
    section = document.get("access")
    if isinstance(section, dict) and "rule" in section and "highest_priority" not in section:
        yield ("access",), "highest_priority is missing in [access]: say what the jobs may that no rule is for"


def _nearest(word: str, known: list[str], form: str) -> str:
    close = get_close_matches(word, known, n=1)
    if close:
        return f"; did you mean {form.format(close[0])}?"
    return f"; known are {', '.join(form.format(name) for name in known)}"


def _line_of(text: str, keys: tuple[str, ...]) -> int:
    """Line (from 1) on which `keys` first appears.

    tomllib tells no positions, so it is asked again with ever more lines: statements end at line ends, hence the key's
    statement begins after the last prefix that was a document without it. Only ever done for a faulty file.
    """
    lines = text.splitlines()
    begin = 1
    for count in range(1, len(lines) + 1):
        try:
            content: Any = tomllib.loads("\n".join(lines[:count]) + "\n")
        except tomllib.TOMLDecodeError:
            continue  # inside a value of several lines
        for key in keys:
            if not isinstance(content, dict) or key not in content:
                break
            content = content[key]
        else:
            return begin
        begin = count + 1
    return begin


def _syntax_sentence(error: tomllib.TOMLDecodeError, text: str, file: str) -> str:
    match = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", str(error))
    line = match.group(1) if match and match.group(1) else max(1, len(text.splitlines()))
    what = str(error)[: match.start()] if match else str(error)
    return f"{file}:{line}: this is not TOML: {_in_plain_words(what)}"


def _in_plain_words(what: str) -> str:
    """What tomllib says of the mistakes that people make; anything else as it says it."""
    if what == "Invalid value":
        return 'the value is neither a number, true or false, nor text in quotes, as "budget"'
    if again := re.fullmatch(r"Cannot declare \((.*)\) twice", what):
        section = ".".join(re.findall("'([^']*)'", again.group(1)))
        return f"section [{section}] begins a second time; write its keys where it begins first"
    if what == "Cannot overwrite a value":
        return "the key of this line stands there a second time"
    return f"{what[:1].lower()}{what[1:]}"


def _literal(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    return _basic_string(value) if isinstance(value, str) else str(value)


def _basic_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda m: f"\\u{ord(m.group()):04x}", escaped) + '"'
