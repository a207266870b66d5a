"""Learning: the policy in use, its card, score, fall-backs and curve, and what jobs teach."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from nicegui import ui

from flyball.core.knobs import Knobs
from flyball.core.units import duration_text
from flyball.web.components.elements import Chart
from flyball.web.feed import Feed
from flyball.web.frame import PATIENCE_S, frame, tag
from flyball.web.learned_policy import (
    choice_options,
    choices_of,
    curve_options,
    describe,
    fall_backs,
    policy_in_use,
    score_text,
)
from flyball.web.parts import command, empty, facts, moment, panel, table

US = 1e6


def register(api: FastAPI, feed: Feed) -> None:
    """Add the page."""

    @ui.page("/learning", response_timeout=PATIENCE_S)
    async def learning_page(request: Request) -> None:
        with frame(api, feed, request, "Learning", "/learning") as page:
            opened = (await page.calls.get("events", kind="opened", limit=10_000))["events"]
            forecast = await page.feed.outlook()
            file = policy_in_use(opened[-1])
            about = await api.state.bridge.call(describe, file)
            with ui.element("div").classes("fb-two"):
                with panel("Policy in use"):
                    _policy(opened[-1], is_learned=file is not None)
                with panel("Card" if file else "Card of the shipped learned policy"):
                    _card(about, in_use=file is not None)
            if file is not None:
                decisions = (await page.calls.get("decisions", last=1000))["decisions"]
                with panel("Its choices here", "of the last 1,000 decisions"):
                    _choices(choices_of(decisions), forecast.get("learned") or {})
            with panel("Curve of training"):
                _curve(about, in_use=file is not None)
            with panel("Learnt beside the control plane"):
                _learnt(forecast["predictions"])
            with panel("Policies of earlier starts", "newest first"):
                rows = [
                    (moment(event["time_us"] / US), event["version"], event["policy"],
                     fingerprint(event), ", ".join(event.get("tuners") or []) or "none")
                    for event in reversed(opened[-20:])
                ]  # fmt: skip
                names = ("Start", "Version", "Policy", "Fingerprint", "Tuners")
                table(names, rows, (), "Policies of earlier starts")
            page.every_second(lambda picture: None)


def fingerprint(opened: Mapping[str, Any]) -> str:
    """Return a digest of what decides: policy, knobs, tuners and their settings."""
    parts = [opened["policy"], opened["knobs"], opened.get("tuners"), opened.get("tuner_settings")]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def _policy(opened: Mapping[str, Any], is_learned: bool) -> None:
    defaults = Knobs().as_dict()
    changed = {
        name: value for name, value in opened["knobs"].items() if defaults.get(name) != value
    }
    facts(
        {
            "Policy": opened["policy"], "Fingerprint": fingerprint(opened),
            "Since": moment(opened["time_us"] / US), "Version": opened["version"],
            "Tuners": ", ".join(opened.get("tuners") or []) or "none",
            "Settings of tuners": ", ".join(opened.get("tuner_settings") or []),
            "Pathways": opened.get("pathways") or "off",
        }
    )  # fmt: skip
    if changed:
        rows = [(name, str(value), str(defaults.get(name, ""))) for name, value in changed.items()]
        table(("Knob", "Value", "Default"), rows, (), "Knobs that differ from their defaults")
    if is_learned:
        tag("p", "A learned policy chooses other knobs in every epoch, within its guards.", "note")
        return
    text = "It is a preset of knobs: no learned policy decides here. "
    tag("p", text + "Compare policies on your own history under What if.", "note")


def _card(about: Mapping[str, Any], in_use: bool) -> None:
    """Add the card of a policy file."""
    if "card" not in about:
        with empty("The policy file cannot be read."):
            tag("div", about["error"])
        return
    card, made = about["card"], about["card"].get("made") or {}
    limits = ", ".join(f"{name} {value:g}" for name, value in (made.get("limits") or {}).items())
    facts(
        {
            "File": about["path"], "Hash": about["hash"],
            "Kind": f"{made.get('kind', '')}, served as {card['kind']}".removeprefix(", "),
            "Score": score_text(card), "Epoch": duration_text(card["epoch_s"]),
            "Trained for": f"{made['epochs']:,} epochs" if made.get("epochs") else "",
            "Trained on": (made.get("source") or {}).get("kind", ""), "Limits": limits,
            "Command": made.get("command", ""), "Version": made.get("version", ""),
        }
    )  # fmt: skip
    if not in_use:
        tag("div", "It does not decide here. Have it decide, guarded, with", "note")
        command("flyball up -p learned")


def _choices(choices: Sequence[Mapping[str, Any]], now: Mapping[str, Any]) -> None:
    """Add what the policy chose, how often it fell back, and what moved its last choice."""
    if not choices:
        with empty("It has not chosen yet."):
            tag("div", f"It chooses once an epoch ({duration_text(now.get('epoch_s', 1800))}), "
                "while jobs are there.")  # fmt: skip
        return
    rows = fall_backs(choices)
    fell = sum(count for _reason, count, _share in rows)
    text = f"{len(choices):,} choice{'s' * (len(choices) != 1)}; the incumbent decided instead in"
    tag("p", f"{text} {fell:,} ({fell / len(choices):.0%}).")
    with ui.element("div").classes("fb-two"):
        with ui.element("div"):
            Chart(choice_options(choices), "Expected gain of each choice over time")
        with ui.element("div"):
            cells = [(reason, f"{count:,}", f"{share:.0%}") for reason, count, share in rows]
            if cells:
                table(("Fall-back", "Choices", "Share"), cells, (1, 2), "Fall-backs by reason")
            last = choices[-1]
            moved = ", ".join(f"{name} {part:+.2g}" for name, part in last.get("features", []))
            facts(
                {
                    "Last choice": moment(last["time"]), "Strategy": last["strategy"],
                    "Knobs": ", ".join(f"{name} {value}" for name, value in last["knobs"].items()),
                    "Moved by": moved, "Fell back": last.get("detail", ""),
                }
            )  # fmt: skip


def _curve(about: Mapping[str, Any], in_use: bool) -> None:
    """Add the curves of training, or how to get one."""
    if about["curves"]:
        first = next(iter(about["curves"]))
        Chart(curve_options(about["curves"]), "Score on validation problems while training")
        text = f"{first} is the run of this policy; below zero is better than the incumbent."
        tag("div", text, "note")
        return
    with empty(
        "No curve lies beside the policy file." if in_use else "No run of training is used."
    ):
        tag("div", "A run of training keeps its curve beside the policy that it writes:")
        command("flyball learn train RUN --kind linear --minutes 20")
        command("flyball up -p learned:RUN/policy.safetensors")


def _learnt(report: Mapping[str, Any]) -> None:
    worker = report.get("worker", {})
    runs = report.get("run_times", {})
    loads = report.get("loads", [])
    fitted = [row["series"] for row in loads if row.get("leads")]
    facts(
        {
            "Worker": "runs" if worker.get("alive") else "does not run",
            "Run times": f"{runs['model']}, from {runs['learnt']:,} jobs" if runs else "",
            "Loads": f"{', '.join(fitted) or 'none yet'} fitted of {len(loads)}" if loads else "",
            "Remark": report.get("note", ""),
        }
    )  # fmt: skip
