"""`make slow`: which tests it has beside those with the mark `slow`, and why they are not in `make test`.

A path is a folder or a file of tests. Whoever adds a test that needs one of these things adds its file here, or marks the test.
"""

from __future__ import annotations

from pathlib import Path

BENCH = "the whole run of a bench"
BROWSER = "a browser"
EMULATOR = "qemu, and a cross-build for aarch64"
SANITIZERS = "a second build, under the sanitizers"
STORM = "a storm of connections, for a while"
SYSTEM = "a copy of the machine's system, or packages"
FETCHED = "packages of another suite of Debian's"
REAL_TIME = "seconds of real time on quiet cores"
OWN_SLURM = "a Slurm of its own beside the one that all share"

SLOW = {
    "tests/packages": SYSTEM,
    "tests/attacks": REAL_TIME,
    "tests/native/wrapper/test_page_in_browser.py": BROWSER,
    "tests/native/core/test_core_sanitized.py": SANITIZERS,
    "tests/native/shim/test_fuzz_targets.py": SANITIZERS,
    "tests/device/bench/test_bench_pairs_live.py": BENCH,
    "tests/device/bench/test_gpu_bench.py": BENCH,
    "tests/device/bench/test_gpu_second_call.py": BENCH,
    "tests/device/bench/test_gpu_first_call.py": BENCH,
    "tests/device/bench/test_gpu_pairs.py": BENCH,
    "tests/device/clients/test_shim_aarch64.py": EMULATOR,
    "tests/device/daemon/test_storm.py": STORM,
    "tests/device/loading/test_shim_sanitized.py": SANITIZERS,
    "tests/device/mps/test_mps_real.py": FETCHED,
    "tests/cluster/failures/test_clock_steps.py": OWN_SLURM,
    "tests/cluster/failures/test_contain.py": OWN_SLURM,
    "tests/cluster/failures/test_nodes.py": OWN_SLURM,
    "tests/cluster/failures/test_reboot.py": OWN_SLURM,
    "tests/cluster/failures/test_sandbox.py": OWN_SLURM,
    "tests/cluster/jobs/test_accounting.py": OWN_SLURM,
    "tests/cluster/jobs/test_admin_comment_jobs.py": OWN_SLURM,
    "tests/cluster/jobs/test_auto_jobs.py": OWN_SLURM,
    "tests/cluster/jobs/test_load.py": OWN_SLURM,
    "tests/cluster/jobs/test_mig_jobs.py": OWN_SLURM,
    "tests/cluster/placement/test_packing.py": OWN_SLURM,
    "tests/cluster/placement/test_place_faults.py": OWN_SLURM,
    "tests/cluster/placement/test_place_jobs.py": OWN_SLURM,
    "tests/cluster/placement/test_place_pairs.py": OWN_SLURM,
    "tests/cluster/requests/test_access_jobs.py": OWN_SLURM,
    "tests/cluster/requests/test_request_forms.py": OWN_SLURM,
    "tests/cluster/requests/test_site_rules.py": OWN_SLURM,
}


def why_slow(path: Path) -> str | None:
    """What the tests of this file need (path: from the checkout's root), or None where the table has nothing of it."""
    return next((why for name, why in SLOW.items() if path.is_relative_to(name)), None)
