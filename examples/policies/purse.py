"""Low work pays for the delay that it is expected to cause, from a purse that the high job's work fills.

`fikit sim --policy examples/policies/purse.py --policy prio --policy excl --high infer.csv.gz --low train.csv.gz`

It stands between `prio`, which lets low work go whenever the high job has nothing on the device, and `excl`, which does so between
requests only. docs/write-a-policy.md says how a policy is written, fikitd.simulation.policy what it is asked and may look at.
"""

from __future__ import annotations

from fikitd.simulation.policy import Client, Event, Policy

SWITCH_NS = 50_000  # assumed, as `fikit sim` does; 0 with MPS
REACTION_NS = 20_000  # from a decision to its launch, and from the launch's end to the next decision
UNKNOWN_NS = 200_000  # a kernel that nobody has timed
PURSE_NS = 10_000_000  # it holds no more: so much delay at once
DOUBT = 1 / 3  # of a delay that slack is said to take up, so much is paid all the same
QUANTILE = 1  # of the eight in which a time to come is told: nearly always it is longer


class Purse(Policy):
    """Low work goes where the high job has nothing on the device and the purse covers the delay that is to be expected."""

    def __init__(self) -> None:
        self.purse_ns = 0.0
        self.slack_ns: dict[int, int] = {}  # by client: its next kernel may be so late, and its host waits no longer
        self.idle_ns: dict[int, int] = {}  # by client: so long will it be at rest

    def looks_ahead(self) -> bool:
        return True

    def noted(self, event: Event, client: Client) -> None:
        if client.priority >= self.level:
            return
        if event.kind == "launched":
            work_ns = (event.duration_ns or 0) + (event.gap_ns or 0)
            self.purse_ns = min(PURSE_NS, self.purse_ns + client.protection.max_slowdown * work_ns)
            self.slack_ns[client.id] = min(self.slack_ns.get(client.id, 0), event.outlook.slack[QUANTILE])
        elif event.kind == "drained" and client.at_rest:
            self.slack_ns[client.id] = event.outlook.slack[QUANTILE]
            self.idle_ns[client.id] = event.outlook.idle[QUANTILE]

    def choose(self, now_ns: int) -> Client | None:
        first = self.first_waiting(now_ns)
        low = sum(client.in_flight(now_ns) for client in self.clients if client.closed)
        if first is None or not first.waits_here() or low > 1:
            return None
        high = self.highest(lambda client: client.outranks(first) and client.progress.busy(now_ns))
        if high is not None:
            self.hold(first, "behind", high)
            return None
        length_ns = UNKNOWN_NS if first.waiting_duration_ns is None else first.waiting_duration_ns
        switches_ns = SWITCH_NS * (1 if low else 2)  # in, and back
        end_ns = max(now_ns, self.queue_free_ns) + REACTION_NS + length_ns + switches_ns
        late_ns = {client: self.late_ns(client, end_ns, now_ns) for client in self.clients if client.outranks(first)}
        cost_ns = max(max(late - self.slack_ns.get(client.id, 0), DOUBT * late) for client, late in late_ns.items())
        full = self.purse_ns / PURSE_NS  # the fuller, the more may low work cost
        if cost_ns > min(self.purse_ns, length_ns * full / (1.001 - full)):
            self.hold(first, "budget_spent", self.clients[0])
            return None
        self.purse_ns -= cost_ns
        for client, late in late_ns.items():
            self.slack_ns[client.id] = max(0, self.slack_ns.get(client.id, 0) - late)
        return first

    def late_ns(self, high: Client, end_ns: int, now_ns: int) -> int:
        """So much later than alone its next kernel begins, if low work keeps the device until then."""
        away_ns = self.idle_ns.get(high.id, 0) if high.at_rest else high.gap_ns or 0
        return max(0, end_ns - max(now_ns, high.progress.dry_ns() + away_ns))
