"""`make install` below a DESTDIR, what it runs like, and that `make uninstall` leaves what it found."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fikitd.base import build
from fikitd.metrics import table

from scripts.build_id import build_id

pytestmark = pytest.mark.starts_processes

ROOT = Path(__file__).resolve().parents[3]


def make(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "-s", *map(str, words)], cwd=ROOT, text=True, capture_output=True, check=False)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    destdir = tmp_path_factory.mktemp("install") / "root"
    done = make("install", f"DESTDIR={destdir}", "PREFIX=/opt/site")
    assert done.returncode == 0, done.stderr
    yield destdir
    shutil.rmtree(destdir)  # a hundred megabytes


def run(installed: Path, name: str, *words: str) -> str:
    """An installed command, by the interpreter of the installation: its own first line names the final place."""
    application = installed / "opt/site/lib/fikit"
    clean = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    command = [application / "bin/python", "-I", application / "bin" / name, *words]
    done = subprocess.run(command, text=True, capture_output=True, check=False, env=clean, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_installed_commands_run_from_their_own_files_alone(installed: Path) -> None:
    assert run(installed, "fikit", "--version").startswith("fikit ")
    assert "--list" in run(installed, "fikit-report", "--help")
    assert 'run_dir = "/run/fikit"' in run(installed, "fikitd", "--check-config")
    application = installed / "opt/site/lib/fikit"
    where = "import click, prometheus_client, pynvml, tomlkit, fikit.commands.demo, fikitd.daemon.server, fikitd._core as c; print(c.__file__)"
    done = subprocess.run([application / "bin/python", "-I", "-c", where], text=True, capture_output=True, check=False)
    assert done.stdout.startswith(str(application)), done.stderr


def test_every_file_names_the_place_of_the_installation(installed: Path) -> None:
    lib, share = installed / "opt/site/lib", installed / "opt/site/share"
    assert "ExecStart=/opt/site/lib/fikit/bin/fikitd\n" in (lib / "systemd/system/fikitd.service").read_text()
    assert (
        "ExecStart=/opt/site/lib/fikit/bin/fikit place --clear\n"
        in (lib / "systemd/system/fikit-place-clear.service").read_text()
    )
    assert (lib / "systemd/system/fikit-place-clear.timer").is_file()
    line = (share / "doc/fikit/examples/plugstack.conf").read_text().splitlines()[-1]
    assert line.startswith(
        "required /opt/site/lib/fikit/native/slurm/spank_fikit.so daemon=/opt/site/lib/fikit/bin/fikitd"
    )
    assert (lib / "fikit/native/libfikit_shim.so").is_file()
    assert (lib / "fikit/bin/fikitd").read_text().startswith("#!/opt/site/lib/fikit/bin/python -I\n")
    mail = lib / "fikit/bin/fikit-mail"
    assert "/opt/site/lib/fikit/bin/fikit mail --wait 20 -- " in mail.read_text()
    assert "/usr/lib/fikit" not in mail.read_text()
    assert mail.stat().st_mode & 0o777 == 0o755
    assert (installed / "opt/site/sbin/fikitd").readlink() == Path("/opt/site/lib/fikit/bin/fikitd")
    assert (installed / "etc/fikit/fikit.toml").read_text() == (ROOT / "site/fikit.toml").read_text()


def test_who_installs_other_sources_than_were_built_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    install = importlib.import_module("install")
    for built, told in ((build_id(ROOT), ""), ("0123456789", "make build first")):
        monkeypatch.setattr(build, "identity", lambda built=built: f"0.1.0+{built}")
        said = install.changed_since_the_build()
        assert (bool(said), told in said) == (bool(told), True)


def test_uninstall_leaves_what_others_own_and_what_was_changed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    others, config = root / "opt/site/share/man/man1/other.1", root / "etc/fikit/fikit.toml"
    for path in (others, config):
        path.parent.mkdir(parents=True)
        path.write_text("# ours\n")
    assert make("install", f"DESTDIR={root}", "PREFIX=/opt/site").returncode == 0
    assert config.read_text() == "# ours\n"
    done = make("uninstall", f"DESTDIR={root}", "PREFIX=/opt/site")
    assert done.stderr == "fikit: /etc/fikit/fikit.toml was changed here and stays\n"
    assert sorted(path for path in root.rglob("*") if not path.is_dir()) == [config, others]
    config.write_text((ROOT / "site/fikit.toml").read_text())
    make("uninstall", f"DESTDIR={root}", "PREFIX=/opt/site")
    assert sorted(path for path in root.rglob("*") if not path.is_dir()) == [others]
    assert not (root / "etc").exists()


@pytest.mark.parametrize(
    ("command", "words", "offered"),
    [
        ("fikit", "fikit re", "report"),
        ("fikit", "fikit top --js", "--json"),
        ("fikit-report", "fikit-report --ht", "--html"),
    ],
)
def test_the_shell_completes_commands_and_options(
    installed: Path, tmp_path: Path, command: str, words: str, offered: str
) -> None:
    """bash, as the package bash-completion loads it: the file of the command's name."""
    application, share = installed / "opt/site/lib/fikit", installed / "opt/site/share"
    program = tmp_path / command  # its own first line names the final place, where nothing is here
    program.write_text(f'#!/bin/sh\nexec "{application}/bin/python" -I "{application}/bin/{command}" "$@"\n')
    program.chmod(0o755)
    script = f"""
      source "{share}/bash-completion/completions/{command}"
      COMP_WORDS=({words}); COMP_CWORD={len(words.split()) - 1}
      _{command.replace("-", "_")}_completion {command}; echo "${{COMPREPLY[*]}}"
    """
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LANG": "C.UTF-8"}
    done = subprocess.run(["bash", "-c", script], text=True, capture_output=True, check=False, cwd="/", env=env)
    assert (done.stdout.split(), done.stderr) == ([offered], "")
    for place in ("zsh/site-functions/_{}", "zsh/vendor-completions/_{}", "fish/vendor_completions.d/{}.fish"):
        assert command in (share / place.format(command)).read_text()


def test_manual_pages_have_every_option_and_key(installed: Path) -> None:
    man = installed / "opt/site/share/man"
    pages = {path.name: path.read_text().replace("\\", "") for path in man.rglob("*.[1-9]")}
    assert sorted(pages) == [
        "fikit-metrics.7",
        "fikit-report.1",
        "fikit.1",
        "fikit.toml.5",
        "fikitd.8",
        "spank_fikit.8",
    ]
    for command in ("run", "report", "profile show", "doctor", "demo", "sandbox", "sim"):
        assert f"fikit {command}" in pages["fikit.1"], command
    for metric in table.METRICS:
        (head, text) = re.findall(
            rf"^\.TP\n\\?fB{metric.name}\\?fR(.*)\n(.*)$", pages["fikit-metrics.7"], re.MULTILINE
        )[0]
        assert head == f"{'{' + ','.join(metric.labels) + '}' if metric.labels else ''} ({metric.kind})"
        assert text == f"{metric.help}."
    source = ROOT / "slurm_plugin" / "src"
    keys = re.findall(r'KEY\("(\w+)"\)', (source / "site" / "fikit_config.c").read_text())
    options = re.findall(r'\{"(fikit-[a-z-]+)"', (source / "job" / "fikit_args.c").read_text())
    variables = re.findall(r'\[\w+\] = "(FIKIT_\w+)"', (source / "job" / "fikit_args.c").read_text())
    assert "run_dir" in keys
    assert len(options) == len(variables) > 5
    for word in (*(f"{key}=" for key in keys), *(f"--{option}" for option in options), *variables):
        assert word in pages["spank_fikit.8"], word


def test_the_manual_page_of_the_configuration_has_every_key_with_its_default_and_a_text(installed: Path) -> None:
    page = (installed / "opt/site/share/man/man5/fikit.toml.5").read_text().replace("\\", "")
    entries = re.findall(r"^\.T[PQ]\nfB(\w+) = (.*)fR\n(?=(.+)$)", page, re.MULTILINE)
    sections = re.findall(r"^\.SH ([A-Z]+)$", page, re.MULTILINE)
    said = tomllib.loads((ROOT / "site/fikit.toml").read_text())
    assert [each for each in sections if each.lower() in said] == [each.upper() for each in said]
    assert [key for key, _, _ in entries] == [key for section in said.values() for key in section]
    assert [tomllib.loads(f"x = {value}")["x"] for _, value, _ in entries] == [
        value for section in said.values() for value in section.values()
    ]
    assert not [key for key, _, text in entries if text.startswith((".SH", ".TP"))]


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_manual_pages_are_what_groff_expects(installed: Path) -> None:
    for page in (installed / "opt/site/share/man").rglob("*.[1-9]"):
        done = subprocess.run(["groff", "-man", "-ww", "-z", page], text=True, capture_output=True, check=False)
        assert (page.name, done.stderr) == (page.name, "")


def test_upgrade_in_place_leaves_running_programs_what_they_have(
    installed: Path, cc: Callable[..., Path], emulator_env: Callable[..., dict[str, str]]
) -> None:
    native = installed / "opt/site/lib/fikit/native"
    shim = (native / "libfikit_shim.so").resolve()
    client = cc(ROOT / "tests/device/programs/daemon/daemon_client.c")
    env = emulator_env(LD_PRELOAD=str(shim), LD_LIBRARY_PATH=str(native / "emulator"))
    with subprocess.Popen(
        [client, "20", "20000", "hold"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "done 20\n"
        assert make("install", f"DESTDIR={installed}", "PREFIX=/opt/site").returncode == 0
        mapped = Path(f"/proc/{program.pid}/maps").read_text()
        assert f"{shim} (deleted)" in mapped
        assert program.communicate("x", timeout=60)[0] == "done 20\n"
    assert program.returncode == 0
    assert list(installed.rglob(".*.new")) == []


def test_a_python_that_others_cannot_run_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "home"
    closed.mkdir(mode=0o700)
    ask = "import sys, install, pathlib; print(install.closed_to_others(pathlib.Path(sys.argv[1])))"

    def said_of(python: Path) -> str:
        words = [sys.executable, "-c", ask, str(python)]
        return subprocess.run(words, cwd=ROOT / "scripts", text=True, capture_output=True, check=True).stdout.strip()

    assert said_of(Path("/usr/bin/python3")) == ""
    assert said_of(closed / "python3").startswith("install: other users cannot run the installed commands, because")
