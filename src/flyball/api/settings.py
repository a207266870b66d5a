"""Settings of the API. Times are in seconds, sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

MIB = 2**20
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True)
class ApiSettings:
    """Settings of the app.

    Attributes:
        token: the secret that every request must carry.
        token_folder: the state folder, whose token file is reread when it changes; None = the
            token never changes.
        hosts: valid names and addresses in Host headers, without port. Others are refused: a web
            page that rebinds its DNS name to this machine sends that name (DNS rebinding).
        one_bytes, batch_bytes: largest body of any request, and of a batch of jobs.
        workers: concurrent calls to the plane. Submissions wait for a group commit, so many of
            them must be able to wait together.
        failure_rate, failure_burst: refused tokens per second and in a burst, per client.
        open_rate, open_burst: the same for requests that need no token.
        rate, burst: the same for all requests of one user, or of one attempt, together.
        stream_s: a stream ends after this long; clients resume with `Last-Event-ID`.
        heartbeat_s: interval of heartbeats on a stream without events.
        poll_s: how often the log of a running job is polled.
        streams: maximum number of open streams.
        connections: maximum number of connections; fewer if the process may open few files.
        header_bytes: maximum size of a request's line and headers together.
        header_s: timeout of a header, and of a TLS handshake.
        idle_s: a connection without a request is closed after this long.
    """

    token: str = field(repr=False)
    token_folder: Path | None = None
    hosts: frozenset[str] = LOOPBACK_NAMES
    one_bytes: int = MIB
    batch_bytes: int = 32 * MIB
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
