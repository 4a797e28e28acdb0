"""Ctrl-C while a program is being loaded, or ends: exit code 130, and nothing to read."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

pytestmark = pytest.mark.starts_processes

# Presses Ctrl-C when the module is first looked for: sys.argv[1] of it, then the program's words.
AT_IMPORT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests in the background ignores it
module, entry, sys.argv[0:3] = sys.argv[1], sys.argv[2], []
sys.argv.insert(0, entry)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
package, function = entry.split(":")
getattr(__import__(package, fromlist=[function]), function)()
print("it went on")
"""
AT_END = """
import atexit, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(os.kill, os.getpid(), signal.SIGINT)
sys.argv = ["fikit", "--version"]
from fikit.entry import fikit
fikit()
"""


def pressed(code: str, *words: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("module", "entry", "words"),
    [
        ("click", "fikit.entry:fikit", ["--help"]),
        ("fikit.cli", "fikit.entry:fikit", ["--help"]),
        ("fikit.commands.top", "fikit.entry:fikit", ["top", "--help"]),
        ("fikit.api.node_use", "fikit.entry:fikit", ["top", "--help"]),
        ("fikitd.simulation.simulator", "fikit.entry:fikit", ["sim", "--help"]),
        ("rich.console", "fikit.entry:report", ["--help"]),
        ("fikitd.config.fikit_toml", "fikitd.entry:fikitd", ["--help"]),
    ],
)
def test_ctrl_c_while_a_program_is_being_loaded_is_quiet(module: str, entry: str, words: list[str]) -> None:
    assert pressed(AT_IMPORT, module, entry, *words) == (130, "")


def test_ctrl_c_after_all_has_been_done_is_quiet() -> None:
    assert pressed(AT_END) == (130, "")


def test_a_program_in_the_background_goes_on_ignoring_ctrl_c() -> None:
    ignoring = AT_IMPORT.replace("signal.default_int_handler", "signal.SIG_IGN", 1)
    assert pressed(ignoring, "click", "fikit.entry:fikit", "--version") == (0, "")


def test_every_program_begins_where_ctrl_c_is_quiet() -> None:
    ours = {
        entry.name: entry.value
        for entry in entry_points(group="console_scripts")
        if entry.dist and entry.dist.name == "fikit"
    }
    assert ours == {
        "fikit": "fikit.entry:fikit",
        "fikit-report": "fikit.entry:report",
        "fikitd": "fikitd.entry:fikitd",
    }


def test_the_help_page_loads_no_command() -> None:
    code = "import sys; sys.argv = ['fikit', '--help']\nfrom fikit.entry import fikit\ntry: fikit()\nfinally: print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "fikit.cli" in loaded
    assert [
        name for name in loaded if name.startswith(("fikit.commands.", "rich.", "numpy.", "importlib.metadata"))
    ] == []
