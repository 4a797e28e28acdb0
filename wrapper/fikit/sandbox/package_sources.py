"""This machine's own package sources: which of them has a suite, and a mirror on the loopback that fetches from it as apt does.

apt itself makes every request (apt-helper), so that proxies, certificates, passwords and whatever else the machine's apt is told
hold here too. Sources are read in both of sources.list(5)'s forms, mirror lists included.
"""

from __future__ import annotations

import base64
import re
import secrets
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

APT_HELPER = "/usr/lib/apt/apt-helper"
FETCH_TIMEOUT_S = 600
COMPONENT = "main"


@dataclass(frozen=True)
class Source:
    """signed_by: keyring files, or one key's text; empty for the keys that apt trusts. trusted: unsigned is enough."""

    uri: str
    signed_by: str = ""
    trusted: bool = False

    def at(self, path: str) -> str:
        return f"{self.uri.rstrip('/')}/{path.lstrip('/')}"


def machine() -> list[Source]:
    """Every archive that this machine's apt installs packages from, in apt's order."""
    places = _setting("Dir::Etc::sourcelist/f", "Dir::Etc::sourceparts/d")
    if len(places) < 2:
        return []
    whole, parts = map(Path, places)
    files = [whole, *sorted(path for pattern in ("*.list", "*.sources") for path in parts.glob(pattern))]
    found = [source for file in files if file.is_file() for source in _sources(file)]
    return list(dict.fromkeys(each for source in found for each in _mirrors(source)))


def _setting(*names: str) -> list[str]:
    """What apt is told by its configuration, whole paths for /f and /d."""
    asked = [word for index, name in enumerate(names) for word in (f"V{index}", name)]
    try:
        done = subprocess.run(["apt-config", "shell", *asked], capture_output=True, text=True, check=False)
    except OSError:
        return []
    return [shlex.split(line.partition("=")[2])[0] for line in done.stdout.splitlines() if "=" in line]


def _sources(file: Path) -> Iterator[Source]:
    text = file.read_text(errors="replace")
    return _stanzas(text) if file.suffix == ".sources" else _lines(text)


def _lines(text: str) -> Iterator[Source]:
    """One-line form: deb [option=value ...] URI SUITE COMPONENT..."""
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[([^\]]*)\]\s*)?([a-z][\w+.-]*:\S*)\s+(\S+)", line.partition("#")[0])
        if match and not match[3].endswith("/"):
            options = dict(re.findall(r"([\w-]+)[+-]?=(\S+)", (match[1] or "").lower()))
            exact = dict(re.findall(r"([\w-]+)[+-]?=(\S+)", match[1] or ""))
            keys = next((value for name, value in exact.items() if name.lower() == "signed-by"), "")
            yield Source(match[2], keys.replace(",", " "), options.get("trusted") == "yes")


def _stanzas(text: str) -> Iterator[Source]:
    """deb822 form."""
    for stanza in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1].isspace():
                fields[name] = f"{fields.get(name, '')}\n{line.strip()}"
            else:
                name, _, value = line.partition(":")
                name = name.strip().lower()
                fields[name] = value.strip()
        off = fields.get("enabled", "yes").lower() in {"no", "false", "0", "off"}
        if off or "deb" not in fields.get("types", "").split():
            continue
        if all(suite.endswith("/") for suite in fields.get("suites", "/").split()):
            continue
        for uri in fields.get("uris", "").split():
            yield Source(uri, fields.get("signed-by", "").strip(), fields.get("trusted", "").lower() == "yes")


def _mirrors(source: Source) -> Iterator[Source]:
    """The source, or those that its mirror list names. A CD would have to be put in."""
    scheme, _, rest = source.uri.partition(":")
    if scheme == "cdrom":
        return
    if scheme != "mirror" and not scheme.startswith("mirror+"):
        yield source
        return
    listed = f"{scheme.partition('+')[2] or 'http'}:{rest}"
    for line in (fetch(listed) or b"").decode(errors="replace").splitlines():
        words = line.partition("#")[0].split()
        if words:
            yield from _mirrors(Source(words[0], source.signed_by, source.trusted))


def fetch(uri: str) -> bytes | None:
    """A file of an archive, as apt gets it; None where it is not to be had."""
    if uri.startswith("file:"):
        try:
            return Path("/" + unquote(uri.removeprefix("file:")).lstrip("/")).read_bytes()
        except OSError:
            return None
    with tempfile.TemporaryDirectory(prefix="fikit-fetch-") as directory:
        target = Path(directory) / "file"
        command = [
            APT_HELPER,
            "-o",
            "APT::Sandbox::User=root",
            "-o",
            "Acquire::Retries=2",
            "download-file",
            uri,
            str(target),
        ]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=FETCH_TIMEOUT_S
            )
            return target.read_bytes() if done.returncode == 0 else None
        except (OSError, subprocess.TimeoutExpired):
            return None


def with_suite(sources: Iterable[Source], suite: str, architecture: str) -> Source | None:
    """The one that has most packages of a suite: a vendor's archive may have a suite of that name, too."""
    best: tuple[int, Source] | None = None
    for source in sources:
        release = fetch(source.at(f"dists/{suite}/InRelease")) or fetch(source.at(f"dists/{suite}/Release")) or b""
        pattern = rf"^ [0-9a-f]{{64}} +(\d+) {COMPONENT}/binary-{architecture}/Packages$"
        size = max(
            (int(found) for found in re.findall(pattern, release.decode(errors="replace"), re.MULTILINE)), default=0
        )
        if size and (best is None or size > best[0]):
            best = size, source
    return best[1] if best else None


def keyring(source: Source, standard: Path) -> bytes | None:
    """The keys that sign a source, as gpgv reads them; None where the suite's own keyring is right, or there are none."""
    if "BEGIN PGP" in source.signed_by:
        return dearmored(source.signed_by.encode())
    named = [Path(word) for word in source.signed_by.split() if word.startswith("/")]
    if (not named and standard.is_file()) or named == [standard]:
        return None
    if not named:
        places = _setting("Dir::Etc::trusted/f", "Dir::Etc::trustedparts/d")
        named = [
            path for place in map(Path, places) for path in ([place] if place.is_file() else sorted(place.glob("*.*")))
        ]
    return b"".join(dearmored(path.read_bytes()) for path in named if path.is_file()) or None


def dearmored(key: bytes) -> bytes:
    """A key without its armour (RFC 9580, section 6.2); one that has none is as it was. Lines may be as deb822 has them."""
    lines = [line.strip() for line in key.decode(errors="replace").splitlines()]
    if not any(line.startswith("-----BEGIN PGP") for line in lines):
        return key
    blocks, body, inside = b"", "", False
    for line in lines:
        if line.startswith("-----BEGIN PGP"):
            body, inside = "", False
        elif line.startswith("-----END PGP"):
            blocks += base64.b64decode(body)
        elif line in ("", "."):  # the end of the headers, as deb822 writes an empty line
            inside = True
        elif inside and not line.startswith("="):
            body += line
    return blocks


@contextmanager
def served(source: Source) -> Iterator[str]:
    """A mirror of the source on the loopback, for programs that know less than apt: its address, which nobody can guess.

    Other users could read by it what only root's apt may, and a path that leaves the archive is not in it.
    """
    secret = f"/{secrets.token_urlsafe(16)}/"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            inside = self.path.startswith(secret) and ".." not in unquote(self.path).split("/")
            content = fetch(source.at(self.path.removeprefix(secret))) if inside else None
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, format: str, *args: object) -> None:
            """Whoever asks has a log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}{secret.rstrip('/')}"
        finally:
            server.shutdown()
            thread.join()


def architecture() -> str:
    asked = ["dpkg", "--print-architecture"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() or "amd64"
    except OSError:
        return "amd64"


def main() -> None:
    """SUITE CMD...: runs CMD with the address of a mirror that has the suite as its last word, and prints where that gets it from."""
    suite, *command = sys.argv[1:]
    source = with_suite(machine(), suite, architecture())
    if source is None:
        sys.exit(f"none of this machine's package sources has {suite}: give apt one that has it")
    with served(source) as mirror:
        done = subprocess.run([*command, mirror], stdout=sys.stderr, check=False)
    print(source.uri)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
