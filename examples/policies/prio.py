"""`prio` of fikitd/core/policy/baselines/prio.hpp, in Python: the same decisions, to the nanosecond. Start here, and change it.

`fikit sim --policy examples/policies/prio.py --policy prio --high infer.csv.gz --low train.csv.gz`
"""

from __future__ import annotations

from fikitd.simulation.policy import Client, Policy


class Prio(Policy):
    """A lower client launches while no higher one has anything waiting or running, one kernel at a time."""

    def choose(self, now_ns: int) -> Client | None:
        if any(client.closed and client.in_flight(now_ns) for client in self.clients):
            return None
        first = self.first_waiting(now_ns)
        holder = self.highest(lambda client: client.progress.busy(now_ns))
        if first is None or not first.waits_here() or (holder is not None and holder.outranks(first)):
            return None
        return first

    def next_change_ns(self, now_ns: int) -> int | None:
        moments = [moment for client in self.clients for moment in (client.progress.dry_ns(), client.forget_ns())]
        moments.append(self.next_idle_ns(now_ns))
        return min((moment for moment in moments if moment is not None and moment > now_ns), default=None)
