"""HTTP requests to a control plane, with retries.

The control plane is found through the state folder, also after a restart on another port. Requests
that are safe to repeat are retried: every submission carries a unique key, so that a lost answer
never makes a job run twice.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from flyball.sdk.certificates import certificate_problem, trusting
from flyball.sdk.endpoint import (
    Endpoint,
    find_endpoint,
    state_folder,
    stated_token,
    stated_url,
)
from flyball.sdk.errors import ApiError, NoControlPlane
from flyball.sdk.streams import Frame, frames

PAUSES_S = (0.1, 0.3, 1.0)
"""Pause before each retry of a request that got no answer."""
STREAM_SILENCE_S = 60.0
"""Read timeout of a stream; the server sends at least a comment every 15 s."""
TIMEOUT_S = 60.0
"""Timeout of a request, unless the caller or `FLYBALL_TIMEOUT_S` states another."""

Json = dict[str, Any]


class Transport:
    """Sends requests and returns answers. Arguments as for `Client`."""

    def __init__(
        self,
        state: str | os.PathLike[str] | None,
        url: str | None,
        token: str | None,
        ca: str | None,
        timeout_s: float | None,
    ) -> None:
        self._state = state_folder(state)
        if state is None and url is None:
            url = stated_url() or None
            ca = ca or (url and os.environ.get("FLYBALL_CA")) or None
        self._url, self._token, self._ca = url, token, ca
        self._timeout_s = stated_timeout_s() if timeout_s is None else timeout_s
        self._endpoint = self._find()
        self._http = self._connected()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def get(self, path: str, good: tuple[int, ...] = (200,), **query: Any) -> Json:
        """Return the answer to a GET request.

        Raises:
            ApiError: its status is not one of `good`.
        """
        return _checked(self._request("GET", path, query=query, again=True, good=good), good)

    def send(
        self, method: str, path: str, body: Any = None, key: str = "", again: bool = False
    ) -> Json:
        """Send a request that changes something, and return the answer.

        Args:
            body: JSON, as bytes or as values to encode.
            key: idempotency key, which makes the request safe to retry.
            again: it is safe to retry even without a key.
        """
        headers = {"Idempotency-Key": key} if key else {}
        content = b""
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
        again = again or bool(key) or method == "DELETE"
        return _checked(self._request(method, path, content, headers, again=again))

    def _request(
        self,
        method: str,
        path: str,
        content: bytes = b"",
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | None = None,
        again: bool = False,
        good: tuple[int, ...] = (),
    ) -> httpx.Response:
        """Return the answer, whatever its status; retry where that is safe."""
        pauses = iter(PAUSES_S if again else ())
        while True:
            pause_s = next(pauses, None)
            try:
                parts = {"content": content, "headers": headers, "params": _without_none(query)}
                answer = self._send(method, path, parts)
                if pause_s is None or answer.status_code != 503 or 503 in good:
                    return answer
            except httpx.TransportError as error:
                problem = self._unreachable(error)
                if pause_s is None or not isinstance(problem, NoControlPlane):
                    raise problem from error
            time.sleep(pause_s)
            self._find_again()

    def _send(
        self, method: str, path: str, parts: Mapping[str, Any], stream: bool = False
    ) -> httpx.Response:
        """Send a request, and once more if the token was replaced: a refused one had no effect."""
        request = self._http.build_request(method, f"/api/v1{path}", **parts)
        answer = self._http.send(request, stream=stream)
        if answer.status_code != 401 or self._token is not None:
            return answer
        self._find_again()
        if request.headers["Authorization"] == self._http.headers["Authorization"]:
            return answer
        answer.close()
        request = self._http.build_request(method, f"/api/v1{path}", **parts)
        return self._http.send(request, stream=stream)

    # Streams ---------------------------------------------------------------------

    @contextmanager
    def open(
        self, path: str, query: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> Iterator[httpx.Response]:
        """Open a stream: an answer to be read as it arrives."""
        timeout = httpx.Timeout(self._timeout_s, read=max(self._timeout_s, STREAM_SILENCE_S))
        parts = {"headers": headers, "params": _without_none(query), "timeout": timeout}
        try:
            answer = self._send("GET", path, parts, stream=True)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        try:
            if answer.status_code >= 400:
                answer.read()
                raise ApiError.of(answer.status_code, _json(answer))
            yield answer
        finally:
            answer.close()

    def follow(self, path: str, query: Mapping[str, Any]) -> Iterator[Frame]:
        """Yield the frames of an endless stream; reopens it at the last id if it breaks."""
        last, failures = "", 0
        while True:
            headers = {"Accept": "text/event-stream"}
            if last:
                headers["Last-Event-ID"] = last
            try:
                with self.open(path, query, headers) as answer:
                    for frame in frames(answer.iter_lines()):
                        last, failures = frame.id or last, 0
                        if frame.event == "error":
                            problem = json.loads(frame.data)
                            raise ApiError.of(problem["status"], problem)
                        if frame.data:
                            yield frame
            except (httpx.TransportError, NoControlPlane) as error:
                if failures == len(PAUSES_S):
                    raise self._unreachable(error) from error
                time.sleep(PAUSES_S[failures])
                failures += 1
                self._find_again()

    # The endpoint ----------------------------------------------------------------

    def _find(self) -> Endpoint:
        if self._url is None:
            return find_endpoint(self._state)
        token = self._token
        if token is None:
            try:
                token = (
                    stated_token() or (self._state / "token").read_text(encoding="ascii").strip()
                )
            except (OSError, ValueError) as error:
                raise ApiError(
                    0,
                    f"no token for {self._url}: {error}",
                    "give token=..., or set FLYBALL_TOKEN or FLYBALL_TOKEN_FILE",
                ) from error
        return Endpoint(self._url.rstrip("/"), token, self._ca or "")

    def _connected(self) -> httpx.Client:
        end = self._endpoint
        token = self._token or end.token
        ca = self._ca or end.ca
        verify: Any = trusting(ca) if ca else True
        return httpx.Client(
            base_url=end.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=self._timeout_s,
            verify=verify,
            trust_env=False,  # no proxy for this machine's own address
        )

    def _find_again(self) -> None:
        """Find the endpoint again: a restarted control plane may have another port or token."""
        try:
            endpoint = self._find()
        except NoControlPlane:
            return  # not there yet
        moved = (endpoint.url, endpoint.ca) != (self._endpoint.url, self._endpoint.ca)
        if endpoint.token != self._endpoint.token and self._token is None:
            self._http.headers["Authorization"] = f"Bearer {endpoint.token}"
        self._endpoint = endpoint
        if moved:
            self._http, old = self._connected(), self._http
            old.close()

    def _unreachable(self, error: Exception) -> ApiError:
        if isinstance(error, httpx.TimeoutException):
            return ApiError(
                0,
                f"no answer from {self._endpoint.url} within {self._timeout_s:g} s",
                "try again, or set FLYBALL_TIMEOUT_S to wait longer",
            )
        if isinstance(error, ApiError):
            return error
        ca = self._ca or self._endpoint.ca
        return certificate_problem(error, self._endpoint.url, ca) or NoControlPlane()


def stated_timeout_s() -> float:
    """Return the timeout that `FLYBALL_TIMEOUT_S` states, else the default.

    Raises:
        ApiError: it is not a positive number.
    """
    text = os.environ.get("FLYBALL_TIMEOUT_S", "")
    try:
        seconds = float(text) if text else TIMEOUT_S
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < math.inf:
        message = f"FLYBALL_TIMEOUT_S is {text!r}, not a number of seconds above 0"
        raise ApiError(400, message, "e.g. FLYBALL_TIMEOUT_S=120")
    return seconds


def _checked(answer: httpx.Response, good: tuple[int, ...] = (200, 201, 204)) -> Json:
    values = _json(answer)
    problem = answer.headers.get("content-type", "").startswith("application/problem+json")
    if problem or answer.status_code not in good or not isinstance(values, dict):
        raise ApiError.of(answer.status_code, values)
    return values


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json() if answer.content else {}
    except ValueError:
        return None


def _without_none(query: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (query or {}).items() if value is not None}
