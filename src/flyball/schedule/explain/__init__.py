"""Explains why a job waits and why an action was taken: a token, a sentence, a remedy."""

from flyball.schedule.explain.actions import reason_text, reason_token
from flyball.schedule.explain.answer import Explanation
from flyball.schedule.explain.tuned import gain_unit, is_tuned
from flyball.schedule.explain.why import explain, explain_by, explain_pending
from flyball.schedule.explain.wording import Names

__all__ = [
    "Explanation",
    "Names",
    "explain",
    "explain_by",
    "explain_pending",
    "gain_unit",
    "is_tuned",
    "reason_text",
    "reason_token",
]
