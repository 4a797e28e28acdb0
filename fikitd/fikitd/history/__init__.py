"""What is known of a job before it runs, and while it does: from the earlier runs of its user and name.

`known`: the answers (`JobHistory`), pure. `pairs`: how much two slowed each other, pure. `speeds`: that for the rules of placement.
`spool`: the outcomes of all nodes, read again only where they changed (`SpoolHistory`).
`accounting`: the same from AdminComments, by sacct. `own_reports`: the same from a user's own reports. README.md has the rules.
"""

from __future__ import annotations

from fikitd.history.known import JobHistory, Known, Rest
from fikitd.history.spool import SpoolHistory

__all__ = ["JobHistory", "Known", "Rest", "SpoolHistory"]
