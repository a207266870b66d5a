"""Dominant-resource fairness between tenants, with quotas, borrowing and reclaim.

Of the pending jobs, those within their tenant's quota come before those that would borrow, and
among these the tenant with the lowest level: its dominant share (the largest part of any pool it
holds) now plus its decayed mean, over its weight. Any job that fits starts. Idle quota may be
borrowed; in rounds a job within its quota takes borrowed devices back, from the job that started
last. A job that started within its tenant's quota is not preempted.

Knobs: `half_life_s` (how long past usage counts; short forgives bursts, long evens out over
days), `round_s` (how soon borrowed devices come back), `preempt=never` (they come back as jobs
end), `ageing` and `priority_s` within a tenant. Quotas, limits and weights: `tenants` of the
cluster file.

It wins where tenants differ in demand and one of them floods the queue: the others keep their
share. It loses mean completion time against rules that use run times (`srtf`, `saf`), as it uses
none, and jobs of a tenant that stays beyond its quota are preempted often. With one tenant it is
`fifo-skip`.

Dominant-resource fairness: Ghodsi, Zaharia, Hindman, Konwinski, Shenker, Stoica, NSDI 2011.
"""

from __future__ import annotations

from flyball.core.knobs import Knobs, Order, Preempt
from flyball.schedule.policies.preset import Preset

POLICY = Preset(
    name="fair",
    summary="tenants by dominant share, within their quotas first; borrowed devices are taken back",
    knobs=Knobs(order=Order.FAIR, preempt=Preempt.ROUNDS),
)
