"""What an operator may set on the API. Times in seconds, sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

MIB = 2**20
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True)
class ApiSettings:
    """Everything the app needs beside the plane.

    Attributes:
        token: the secret every request must bear.
        token_folder: the state folder whose token file may bring another one at any time; None =
            it stays as it is.
        hosts: names and addresses, without port, that a Host header may carry. Anything else is
            refused: a web page that rebinds its own name to this machine sends its own name.
        one_bytes, batch_bytes: largest body of any request, and of a batch of jobs.
        batch_jobs: most jobs in a batch.
        workers: calls to the plane at a time. Submits wait for a group commit, so many of them
            must be able to wait together.
        failure_rate, failure_burst: refused tokens a second and in one go, per client.
        open_rate, open_burst: the same for requests that need no token.
        rate, burst: the same for all requests with the token together.
        stream_s: a stream ends after this long; clients go on with `Last-Event-ID`.
        heartbeat_s: a stream that has nothing to say says so this often.
        poll_s: how often the log of a running job is looked at.
        streams: streams at a time.
        connections: open connections; fewer where the process may open few files.
        header_bytes: of a request's line and headers together.
        header_s: a header that takes longer, or a TLS handshake, ends the connection.
        idle_s: a connection without a request is closed after this long.
    """

    token: str = field(repr=False)
    token_folder: Path | None = None
    hosts: frozenset[str] = LOOPBACK_NAMES
    one_bytes: int = MIB
    batch_bytes: int = 32 * MIB
    batch_jobs: int = 10_000
    workers: int = 64
    failure_rate: float = 1.0
    failure_burst: float = 20.0
    open_rate: float = 20.0
    open_burst: float = 100.0
    rate: float = 5_000.0
    burst: float = 20_000.0
    stream_s: float = 3_600.0
    heartbeat_s: float = 15.0
    poll_s: float = 0.1
    streams: int = 256
    connections: int = 1_024
    header_bytes: int = 32_768
    header_s: float = 10.0
    idle_s: float = 15.0

    def __post_init__(self) -> None:
        assert self.token, "an API without a token would be open to every web page"
