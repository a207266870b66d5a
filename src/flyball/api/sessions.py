"""Sessions of browsers: a one-time code opens one, a signed cookie carries it.

The cookie is signed with the token of the state folder, so sessions survive a restart of the
control plane without a file of their own, and replacing the token ends all of them at once.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from flyball.api.token import Secret

CODE_S = 900.0
"""How long a one-time code is valid."""
SESSION_S = 7 * 86_400.0
"""How long a session lasts."""
WALL_S = 90 * 86_400.0
"""How long the session of a read-only link lasts: a wall screen has nobody who renews it."""
MOST_CODES = 256
MOST_COOKIE = 512
"""Maximum length of a cookie that is looked at."""
VERSION = "1"


@dataclass(frozen=True)
class Session:
    """What a browser may do, and until when.

    Attributes:
        token_id: id of the user's token by which it was opened; "" = that of the state folder.
        read_only: it may look at everything and change nothing.
        expires_s: end of the session, in seconds since 1970.
        serial: distinguishes sessions.
    """

    token_id: str
    read_only: bool
    expires_s: int
    serial: str

    @property
    def text(self) -> str:
        """Return the signed part of the cookie."""
        mode = "r" if self.read_only else "w"
        return f"{VERSION}.{self.token_id}.{mode}.{self.expires_s}.{self.serial}"


class Sessions:
    """Issues one-time codes, turns each into one session, and checks cookies.

    Args:
        secret: signs the cookies.
        now_s: seconds since 1970.
    """

    def __init__(self, secret: Secret, now_s: Callable[[], float] = time.time) -> None:
        self._secret, self._now_s = secret, now_s
        self._codes: OrderedDict[str, tuple[float, str, bool]] = OrderedDict()

    def issue(self, token_id: str = "", read_only: bool = False) -> tuple[str, float]:
        """Return a code that opens one session, and when it expires, in seconds since 1970."""
        code, expires_s = secrets.token_urlsafe(24), self._now_s() + CODE_S
        self._codes[code] = expires_s, token_id, read_only
        while len(self._codes) > MOST_CODES:
            self._codes.popitem(last=False)
        return code, expires_s

    def redeem(self, code: str) -> Session | None:
        """Return a new session for a code, which is used up; None if it is not valid."""
        expires_s, token_id, read_only = self._codes.pop(code, (0.0, "", True))
        now_s = self._now_s()
        if expires_s < now_s:
            return None
        length_s = WALL_S if read_only else SESSION_S
        return Session(token_id, read_only, int(now_s + length_s), secrets.token_urlsafe(12))

    def cookie(self, session: Session) -> str:
        """Return the value of the cookie that carries a session."""
        return f"{session.text}.{self._signature(session.text)}"

    def read(self, cookie: str) -> Session | None:
        """Return the session of a cookie; None if it is not ours, or has expired."""
        if len(cookie) > MOST_COOKIE or not cookie.isascii():
            return None
        text, _, signature = cookie.rpartition(".")
        parts = text.split(".")
        if len(parts) != 5 or parts[0] != VERSION or not parts[3].isdigit():
            return None
        if not hmac.compare_digest(signature, self._signature(text)):
            self._secret.refresh()
            if not hmac.compare_digest(signature, self._signature(text)):
                return None
        session = Session(parts[1], parts[2] != "w", int(parts[3]), parts[4])
        return session if session.expires_s > self._now_s() else None

    def _signature(self, text: str) -> str:
        key = self._secret.derived(b"flyball browser session")
        return hmac.new(key, text.encode("ascii"), hashlib.sha256).hexdigest()


def cookie_name(host: str) -> str:
    """Return the name of the cookie. Cookies do not tell ports apart, so the name does."""
    port = urlsplit(f"//{host}").port
    return f"flyball_{port or 'session'}"


def cookie_in(header: bytes, name: str) -> str:
    """Return the value of a cookie in a `Cookie` header; "" if it is absent or there are two."""
    prefix = f"{name}="
    parts = [part.strip() for part in header.decode("latin-1").split(";")]
    values = [part.removeprefix(prefix) for part in parts if part.startswith(prefix)]
    return values[0] if len(values) == 1 else ""
