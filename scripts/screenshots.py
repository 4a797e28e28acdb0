"""The pictures of docs/user.md and docs/admin.md: `fikit top` and a page of `fikit report --html`, of two real programs on the emulated GPU.

    .venv/bin/python scripts/screenshots.py

Takes about two minutes; needs Debian's package chromium.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fikit.api import node_view
from fikit.errors import NoDaemon
from fikit.live.app import Top
from fikit.live.looks import Looks

from fikitd import paths

ROOT = Path(__file__).resolve().parent.parent
DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"
FIKIT = [sys.executable, "-m", "fikit"]
LOOKS = 24
STEPS, REQUESTS = "900", "400"


def main() -> None:
    os.environ["EMUCUDA_NAME"] = f"screenshots-{os.getpid()}"
    try:
        take()
    finally:
        subprocess.run([paths.emuctl(), "reset"], check=False, capture_output=True)


def take() -> None:
    with tempfile.TemporaryDirectory(prefix="fikit-screenshots-") as name:
        work = Path(name)
        os.environ |= {
            "XDG_STATE_HOME": str(work / "state"), "XDG_RUNTIME_DIR": str(work / "run"), "DEV": "CUDA:PTX", "NOOPT": "1",
            "EMUCUDA_CONFIG": str(EXAMPLES / "demo_gpu.toml"),
        }  # fmt: skip
        os.environ.pop("FIKIT_CONFIG", None)
        for directory in ("state", "run"):
            (work / directory).mkdir(mode=0o700)
        for arguments in (("classify.py", "--requests", "60", "--pause", "20"), ("train.py", "--steps", "60")):
            with started("--measure", *arguments):
                pass
        with (
            started("--priority", "low", "train.py", "--steps", STEPS) as low,
            started("--priority", "high", "classify.py", "--requests", REQUESTS, "--pause", "20"),
        ):
            asyncio.run(watched(work / "top.svg"))
        job = re.findall(r"fikit: job (\S+) low", low[0])[0]
        page = work / "page.html"
        subprocess.run([*FIKIT, "report", job, "--html", str(page)], check=True)
        photograph(page, DOCS / "pictures" / "report-page.png", 900, 1320)
        photograph(work / "top.svg", DOCS / "pictures" / "top.png", 1120, 330)


@contextmanager
def started(*arguments: str) -> Iterator[list[str]]:
    """A program of examples/ under `fikit run`; at the end what it said on stderr."""
    split = next(number for number, argument in enumerate(arguments) if argument.endswith(".py"))
    command = [*FIKIT, "run", "--emulated", *arguments[:split], "--", sys.executable, *arguments[split:]]
    said: list[str] = []
    with subprocess.Popen(
        command, cwd=EXAMPLES, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as program:
        yield said
        _, err = program.communicate()
    if program.returncode != 0:
        sys.exit(f"{' '.join(command)}: {err}")
    said.append(err)


async def watched(picture: Path) -> None:
    """`fikit top` without a terminal, until both programs have been there for so many looks."""
    while True:
        try:
            control, before = node_view.first_look()
        except NoDaemon:
            await asyncio.sleep(0.2)
            continue
        if len(before["clients"]) == 2 and all(client.get("kernels", 0) > 100 for client in before["clients"]):
            break
        await asyncio.sleep(0.2)
    app, looks = Top(None), Looks(control, before)
    async with app.run_test(size=(100, 10)) as pilot:
        for number in range(LOOKS):
            await asyncio.sleep(0.5)
            app.show(looks.next())
            if number % 8 == 0:
                await asyncio.to_thread(looks.ask_nvml)
        await pilot.pause()
        picture.write_text(app.export_screenshot(title="fikit top"))


def photograph(file: Path, picture: Path, width: int, height: int) -> None:
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as profile:
        command = [
            "chromium", "--headless", *sandbox, "--disable-gpu", "--hide-scrollbars", "--blink-settings=preferredColorScheme=1",
            f"--user-data-dir={profile}", f"--window-size={width},{height}", f"--screenshot={picture}", file.as_uri(),
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    print(f"{picture}: {picture.stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main()
