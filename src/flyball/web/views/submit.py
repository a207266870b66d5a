"""The dialog that submits a job, with what would happen to it as one types."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

from nicegui import ui

from flyball.core.units import duration_text
from flyball.sdk.submitter import user_name
from flyball.web.calls import Refused
from flyball.web.frame import Page, tag
from flyball.web.job_form import FieldError, JobForm
from flyball.web.parts import button, say

PAUSE_S = 0.4
"""Pause in the typing after which the answer is computed."""


class SubmitDialog:
    """Submits jobs from a form."""

    def __init__(self, page: Page) -> None:
        self._page, self._key = page, secrets.token_urlsafe(16)
        self._waiting: asyncio.Task[None] | None = None
        with ui.dialog() as self._dialog, ui.element("div").classes("fb-card") as card:
            card.props('role=dialog aria-label="Submit a job"')
            tag("h2", "Submit a job")
            self._form = JobForm(self._later)
            self._answer = tag(
                "div", "Type a command; what would happen appears here.", "fb-notice"
            )
            self._answer.props("role=status").style("margin-top: 14px")
            with ui.element("div").classes("fb-row"):
                button("Submit", self._submit, "send", "main")
                button("Close", self._dialog.close)

    def open(self) -> None:
        """Show the dialog."""
        self._dialog.open()
        # Not away from a field in which somebody types already.
        ui.run_javascript(
            "setTimeout(() => document.activeElement?.matches('[name]') ||"
            " document.querySelector('[name=argv]')?.focus(), 250)"
        )

    def _later(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        self._waiting = asyncio.create_task(self._try_out())

    async def _try_out(self) -> None:
        await asyncio.sleep(PAUSE_S)
        try:
            answer = await self._page.calls.post("jobs/dry-run", self._body())
        except FieldError as error:
            self._say(str(error), "warn")
        except Refused as error:
            self._say(refusal_text(error), "bad")
        else:
            self._say(answer_text(answer), "")

    def _body(self) -> dict[str, Any]:
        self._form.mark()
        name = self._page.rights.caller.name  # the API fills in the name of a user's token
        return {**({} if name else {"user": user_name()}), **self._form.body()}

    def _say(self, text: str, kind: str) -> None:
        self._answer.set_text(text)  # type: ignore[attr-defined]
        self._answer.classes(replace=f"fb-notice {kind}")

    async def _submit(self) -> None:
        try:
            answer = await self._page.calls.post("jobs", self._body(), key=self._key)
        except FieldError as error:
            self._say(str(error), "warn")
            return
        except Refused as error:
            self._say(refusal_text(error), "bad")
            return
        self._key = secrets.token_urlsafe(16)
        count = len(answer["ids"])
        what = f"Job {answer['id']}" if count == 1 else f"{count} jobs from {answer['id']} on"
        notes = "; ".join(
            f"{note['field']} has no effect: {note['why']}" for note in answer["notes"]
        )
        say(f"{what} submitted{'. ' + notes if notes else ''}")
        self._dialog.close()


def answer_text(answer: dict[str, Any]) -> str:
    """Return what a dry run says, as a sentence."""
    devices = f"{answer['devices']} {answer['unit']}{'s' * (answer['devices'] != 1)}"
    if not answer["would_start"]:
        return f"It fits ({devices}), and would wait until it is released."
    p50, p90 = duration_text(answer["p50_s"]), duration_text(answer["p90_s"])
    if answer["p90_s"] < 1:
        return f"It fits ({devices}) and would start at once."
    return (
        f"It fits ({devices}). Half of such jobs start within {p50}, nine of ten within {p90}, by "
        f"{answer['method']}."
    )


def refusal_text(error: Refused) -> str:
    """Return why the API refused, with the first faults of single fields."""
    faults = "; ".join(f"{fault['where']}: {fault['why']}" for fault in error.errors[:3])
    return " ".join(part for part in (error.detail + ".", faults, error.remedy) if part)
