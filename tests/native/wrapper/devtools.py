"""A page in chromium, asked through its DevTools protocol by pipe: no port, no package, nothing of the page's own."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")
TIMEOUT_S = 120.0
# Chromium takes requests from descriptor 3 and gives answers to 4: both ends of ours lie above.
LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)


class Tab:
    """One page. `said`: what the browser's console has of it, refused styles, scripts and pictures too."""

    def __init__(self, to: int, answers: int) -> None:
        self._to, self._answers, self._rest = to, answers, b""
        self._numbers = count(1)
        self._session: str | None = None
        self.said: list[str] = []
        self._loaded = False
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Log", "Runtime", "Accessibility"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to one command; AssertionError with what chromium says where it refuses."""
        number = next(self._numbers)
        session = {} if self._session is None else {"sessionId": self._session}
        request = {"id": number, "method": method, "params": parameters, **session}
        os.write(self._to, json.dumps(request).encode() + b"\0")
        while (message := self._next()).get("id") != number:
            self._hear(message)
        assert "error" not in message, f"{method}: {message['error']}"
        result: dict[str, Any] = message["result"]
        return result

    def open(self, file: Path, width: int = 1000, height: int = 1400, scheme: str = "light") -> None:
        """The file as a person opens it from disk, on a screen of that many pixels."""
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self._loaded = False
        self.ask("Page.navigate", url=file.as_uri())
        while not self._loaded:
            self._hear(self._next())

    def value(self, expression: str) -> Any:
        """Of JavaScript that the test brings: the page has none."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press_tab(self) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)

    def named(self, role: str) -> list[str]:
        """The names under which a screen reader offers what has that role, in the page's order."""
        nodes = self.ask("Accessibility.getFullAXTree")["nodes"]
        return [
            node.get("name", {}).get("value", "")
            for node in nodes
            if not node["ignored"] and node["role"]["value"] == role
        ]

    def _hear(self, message: dict[str, Any]) -> None:
        if message.get("method") == "Page.loadEventFired":
            self._loaded = True
        elif message.get("method") in ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            self.said.append(json.dumps(message["params"]))

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + TIMEOUT_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], max(end - time.monotonic(), 0))
            assert ready, "chromium says nothing"
            data = os.read(self._answers, 1 << 20)
            assert data, "chromium has ended"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message


@contextmanager
def tab(home: Path) -> Iterator[Tab]:
    """A browser with one page, without a network; `home` is all that it writes to."""
    requests, to = _pipe()
    answers, back = _pipe()
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe",
        "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={home}/profile",
    ]  # fmt: skip
    launched = [sys.executable, "-I", "-c", LAUNCH, str(requests), str(back), *command]
    env = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": f"{home}/config"}
    with (home / "chromium.log").open("wb") as log:
        browser = subprocess.Popen(launched, pass_fds=(requests, back), stdout=log, stderr=log, env=env)
    os.close(requests)
    os.close(back)
    try:
        yield Tab(to, answers)
    finally:
        os.close(to)  # chromium ends with its pipe
        try:
            browser.wait(10)
        except subprocess.TimeoutExpired:
            browser.kill()
            browser.wait()
        os.close(answers)


def _pipe() -> list[int]:
    ends = os.pipe()
    above = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return above
