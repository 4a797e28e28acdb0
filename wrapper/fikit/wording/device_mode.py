"""How the programs of a job shared their GPU (`device_mode`), in words for people."""

from __future__ import annotations

from typing import Final

from fikitd.api.report_format import MIXED, MPS, OTHER_MPS, SLICES

WORDS: Final = {
    SLICES: "time slices",
    MPS: "MPS",
    OTHER_MPS: "an MPS that is not fikit's",
    MIXED: "partly MPS",
}
SENTENCES: Final = {
    SLICES: "in time slices: one program at a time has it",
    MPS: "under MPS: kernels of all its programs overlap",
    OTHER_MPS: "under an MPS that is not fikit's: the job's own, or one that was there",
    MIXED: "some programs of the job under MPS, others in time slices of their own",
}
