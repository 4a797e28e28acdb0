"""The machine's own package sources, of whatever form, are what another release line of Slurm is installed from."""

from __future__ import annotations

import base64
import http.server
import re
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from fikit.sandbox import package_sources
from fikit.sandbox.package_sources import Source

ROOT = Path(__file__).resolve().parents[3]
ARCHIVE = "http://mirror.example/debian"
KEY = base64.b64encode(b"a key of forty-five bytes, which is one line.").decode()
ARMOURED = f"-----BEGIN PGP PUBLIC KEY BLOCK-----\n{{0}}\n{KEY}\n=abcd\n-----END PGP PUBLIC KEY BLOCK-----"


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """apt's directory, empty."""
    (tmp_path / "sources.list.d").mkdir()
    monkeypatch.setattr(package_sources, "_setting", lambda *names: [str(tmp_path / "sources.list"), str(tmp_path / "sources.list.d")])  # fmt: skip
    return tmp_path


@pytest.mark.parametrize(
    ("name", "text", "sources"),
    [
        ("sources.list", f"deb {ARCHIVE} bookworm main contrib # ours\ndeb-src {ARCHIVE} bookworm main\n", [Source(ARCHIVE)]),
        ("sources.list", f"# deb http://old.example/debian bookworm main\n\tdeb\t{ARCHIVE}/\tstable  main\n", [Source(ARCHIVE + "/")]),
        ("sources.list.d/a.list", f"deb [ arch=amd64 signed-by=/keys/a.gpg,/keys/B.asc Trusted=yes ] {ARCHIVE} bookworm main\n",
         [Source(ARCHIVE, "/keys/a.gpg /keys/B.asc", True)]),
        ("sources.list.d/a.list", f"deb [signed-by=/keys/a.gpg] https://user:secret@{ARCHIVE[7:]} bookworm main\n",
         [Source(f"https://user:secret@{ARCHIVE[7:]}", "/keys/a.gpg")]),
        ("sources.list", "deb file:/srv/debian bookworm main\ndeb cdrom:[Debian 12]/ bookworm main\ndeb http://flat.example/ ./\n",
         [Source("file:/srv/debian")]),
        ("sources.list.d/a.sources", f"Types: deb deb-src\nURIs: {ARCHIVE} https://b.example/debian\nSuites: bookworm bookworm-updates\n"
         "Components: main\nSigned-By: /keys/a.gpg\n", [Source(ARCHIVE, "/keys/a.gpg"), Source("https://b.example/debian", "/keys/a.gpg")]),
        ("sources.list.d/a.sources", f"# ours\nTypes: deb\nURIs:\n {ARCHIVE}\n# and no other\nSuites: stable\nComponents: main\nTrusted: yes\n"
         "\nEnabled: no\nTypes: deb\nURIs: http://off.example/\nSuites: stable\n\nTypes: deb-src\nURIs: http://src.example/\nSuites: a\n"
         "\nTypes: deb\nURIs: http://flat.example/\nSuites: ./\n", [Source(ARCHIVE, "", True)]),
        ("sources.list.d/a.list.disabled", f"deb {ARCHIVE} bookworm main\n", []),
    ],
)  # fmt: skip
def test_sources_of_every_form_are_found(apt: Path, name: str, text: str, sources: list[Source]) -> None:
    (apt / name).write_text(text)
    assert package_sources.machine() == sources


def test_a_key_in_the_source_itself_is_its_key(apt: Path) -> None:
    indented = "\n".join(f" {line}" for line in ARMOURED.replace("{0}", ".").splitlines())
    (apt / "sources.list.d" / "a.sources").write_text(
        f"Types: deb\nURIs: {ARCHIVE}\nSuites: a\nSigned-By:\n{indented}\n"
    )
    [source] = package_sources.machine()
    assert package_sources.keyring(source, Path("/none")) == b"a key of forty-five bytes, which is one line."


def test_keys_are_those_that_apt_believes(apt: Path, tmp_path: Path) -> None:
    standard, other, armoured = tmp_path / "standard.gpg", tmp_path / "other.gpg", tmp_path / "other.asc"
    other.write_bytes(b"other")
    armoured.write_text(ARMOURED.format("Comment: x\n"))
    assert package_sources.keyring(Source(ARCHIVE, f"{other} {armoured}"), standard) == b"other" + base64.b64decode(KEY)
    assert package_sources.keyring(Source(ARCHIVE), standard) is None
    standard.write_bytes(b"standard")
    assert package_sources.keyring(Source(ARCHIVE), standard) is None
    assert package_sources.keyring(Source(ARCHIVE, str(standard)), standard) is None


def test_mirror_lists_are_followed(apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mirrors").write_text(f"# near\n{ARCHIVE}\tpriority:1\nhttps://b.example/debian\n")
    (apt / "sources.list").write_text(f"deb [signed-by=/k] mirror+file:{tmp_path}/mirrors bookworm main\n")
    both = [Source(ARCHIVE, "/k"), Source("https://b.example/debian", "/k")]
    assert package_sources.machine() == both
    monkeypatch.setattr(package_sources, "fetch", {"http://list.example/m": (tmp_path / "mirrors").read_bytes()}.get)
    for scheme in ("mirror", "mirror+http"):
        (apt / "sources.list").write_text(f"deb [signed-by=/k] {scheme}://list.example/m bookworm main\n")
        assert package_sources.machine() == both


def release(packages: int) -> bytes:
    return f"SHA256:\n {'0' * 64} {packages} main/binary-amd64/Packages\n {'1' * 64} 5 main/binary-amd64/Packages.xz\n".encode()


def test_the_archive_that_has_the_suite_is_taken_and_no_vendors_of_the_same_suite(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vendor, security, debian, down = (
        Source(f"http://{name}.example") for name in ("vendor", "security", "debian", "down")
    )
    there = {vendor.at("dists/trixie/InRelease"): release(900), debian.at("dists/trixie/Release"): release(9_000_000),
             security.at("dists/trixie-security/InRelease"): release(70_000)}  # fmt: skip
    monkeypatch.setattr(package_sources, "fetch", there.get)
    every = [vendor, down, security, debian]
    assert package_sources.with_suite(every, "trixie", "amd64") == debian
    assert package_sources.with_suite(every, "trixie", "arm64") is None
    assert package_sources.with_suite([security, down], "trixie", "amd64") is None


class Web(http.server.BaseHTTPRequestHandler):
    """An archive, and a proxy: it answers with what it was asked."""

    def do_GET(self) -> None:
        self.send_response(404 if "missing" in self.path else 200)
        text = b"" if "missing" in self.path else self.path.encode()
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def web() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


needs_apt = pytest.mark.skipif(not Path(package_sources.APT_HELPER).exists(), reason="needs apt")


@pytest.mark.starts_processes
@needs_apt
def test_apt_fetches_through_the_machines_proxy(web: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "apt.conf"
    config.write_text(f'Acquire::http::Proxy "http://{web}";\n')
    monkeypatch.setenv("APT_CONFIG", str(config))
    monkeypatch.delenv("http_proxy", raising=False)
    assert package_sources.fetch(f"{ARCHIVE}/dists/a/Release") == f"{ARCHIVE}/dists/a/Release".encode()
    assert package_sources.fetch(f"{ARCHIVE}/missing") is None


@pytest.mark.starts_processes
@needs_apt
def test_the_loopback_mirror_gives_what_is_in_the_archive_and_to_nobody_else(web: str, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    def get(url: str) -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(url) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            error.close()
            return error.code, b""

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with package_sources.served(Source(f"http://{web}/debian/")) as mirror:
        assert get(f"{mirror}/pool/a%2b1.deb") == (200, b"/debian/pool/a%2b1.deb")
        assert get(f"{mirror}/missing") == (404, b"")
        for outside in (mirror.rpartition("/")[0] + "/pool/x", f"{mirror}/../x", f"{mirror}/pool/%2e%2e/%2e%2e/x", f"{mirror[:-1]}/x"):  # fmt: skip
            assert get(outside)[0] == 404, outside


def test_a_local_archive_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a+b").write_bytes(b"here")
    for uri in (f"file:{tmp_path}/a+b", f"file://{tmp_path}/a%2bb"):
        assert package_sources.fetch(uri) == b"here"
    assert package_sources.fetch(f"file:{tmp_path}/none") is None


def test_a_machine_without_apt_has_no_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*args: object, **options: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", missing)
    assert package_sources.machine() == []
    assert package_sources.fetch(ARCHIVE) is None


REGISTRY = re.compile(r"\b(?:(?:deb|ftp|archive|security|snapshot|ports)[.](?:debian|ubuntu)|pypi|pythonhosted|ghcr|quay|docker)[.](?:org|com|io)\b")  # fmt: skip


@pytest.mark.starts_processes
def test_no_registry_is_named_in_the_repository() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("needs a checkout")
    files = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    named = [
        str(file) for file in files if file.is_file() and REGISTRY.search(file.read_bytes().decode(errors="replace"))
    ]
    assert named == []


@pytest.mark.parametrize(
    "text", ["deb.debian" + ".org", "http://archive.ubuntu" + ".com/ubuntu", "files.pythonhosted" + ".org"]
)
def test_a_registry_would_be_found(text: str) -> None:
    assert REGISTRY.search(text)
