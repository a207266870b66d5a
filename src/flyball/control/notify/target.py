"""Targets that are notified of a job's end: a URL to post to, or a command to run.

A target is a tuple of words: a URL alone, or a program with its arguments.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from urllib.parse import urlsplit

from flyball.core.errors import BadInput
from flyball.core.job_fields import MAX_TARGETS
from flyball.core.jobs import JobSpec

Target = tuple[str, ...]

MAX_URL = 2048
SCHEMES = ("http", "https")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_EXAMPLE = "e.g. https://example.org/hook, or a command such as 'notify-send done'"


def parse_target(value: str | Sequence[str]) -> Target:
    """Read a target: a URL, a command line, or the words of a command.

    A command line is split at spaces and quotes; no shell sees it.

    Raises:
        BadInput: empty, or a quotation is not closed.
    """
    if isinstance(value, str):
        text = value.strip()
        try:
            words = [text] if _URL.match(text) else shlex.split(text)
        except ValueError as error:
            raise BadInput(f"notify: {str(error).lower()}", "close the quotation") from None
    else:
        words = list(value)
    if not words or not words[0].strip():
        raise BadInput("notify: neither a URL nor a command", _EXAMPLE)
    return tuple(words)


def is_url(target: Target) -> bool:
    """Whether it is a URL, not a command."""
    return _URL.match(target[0]) is not None


def shown(target: Target) -> str:
    """Return a target for display. A URL's path may be secret, so only its host is shown."""
    if not is_url(target):
        return shlex.join(target)
    parts = urlsplit(target[0])
    return f"{parts.scheme}://{parts.netloc}" + ("/..." if parts.path.strip("/") else "")


def check_targets(spec: JobSpec) -> None:
    """Refuse targets that could never be notified.

    Raises:
        BadInput: one of them is invalid.
    """
    if len(spec.notify) > MAX_TARGETS:
        count = len(spec.notify)
        raise BadInput(f"notify: {count} targets", f"use at most {MAX_TARGETS}")
    for target in spec.notify:
        if not target or not target[0]:
            raise BadInput("notify: neither a URL nor a command", _EXAMPLE)
        if is_url(target):
            _check_url(target)
        elif problem := program_problem(target[0], spec):
            raise BadInput(f"notify: {problem}", "name a program on the job's PATH, or its path")


def _check_url(target: Target) -> None:
    url = target[0]
    if len(target) > 1:
        raise BadInput("notify: a URL has no arguments", "give every target a --notify of its own")
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url:
        remedy = f"use at most {MAX_URL:,} ASCII characters; write others as %20 and the like"
        raise BadInput("notify: not a URL", remedy)
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError as error:
        raise BadInput(f"notify: not a URL: {error}", _EXAMPLE) from None
    if parts.scheme not in SCHEMES:
        raise BadInput(f"notify: {parts.scheme}:// cannot be posted to", "use http:// or https://")
    if not host:
        raise BadInput("notify: a URL without a host", _EXAMPLE)
    if "@" in parts.netloc:
        remedy = "use a URL with a secret path, or a command that reads the password from a file"
        raise BadInput("notify: a URL with a user or a password", remedy)


def program_problem(program: str, spec: JobSpec) -> str:
    """Return why a program cannot run in a job's folder with its PATH; "" if it can."""
    if "/" in program:
        path = os.path.join(spec.cwd, program)
        if not os.path.isfile(path):
            return f"no file {path}"
        return "" if os.access(path, os.X_OK) else f"{path} is not executable"
    search = spec.env.get("PATH") or os.environ.get("PATH") or os.defpath
    return "" if shutil.which(program, path=search) else f"no program {program!r} on the job's PATH"
