"""Tokens of users: a file of names, roles and hashes in the state folder.

    {"form": 1, "tokens": [
        {"name": "ada", "role": "user", "id": "...", "sha256": "...", "created": 1.7e9}]}

A token is `fbu_ID_SECRET`; the id finds its line and is not secret. The secret has 256 random bits,
so a plain SHA-256 cannot be reversed: there is nothing to guess that a slow hash would protect.
The command line changes the file, the server rereads it when it was replaced.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import logging
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from flyball.control.access.private_file import read_private, state_of, write_private
from flyball.control.access.roles import PEOPLE, Caller, Role
from flyball.core.errors import BadInput, Conflict, NotFound

NAME = "tokens.json"
LOCK = "tokens.lock"
PREFIX = "fbu_"
FORM = re.compile(rf"{PREFIX}([0-9a-f]{{16}})_([A-Za-z0-9_-]{{43}})")
USER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")
RESERVED = frozenset({"flyball", "api"})
"""Names by which the journal calls Flyball itself and the owner of the state folder."""
MOST_BYTES = 4 * 2**20

logger = logging.getLogger("flyball.access")


@dataclass(frozen=True, slots=True)
class UserToken:
    """One line of the file.

    Attributes:
        created: when it was issued, in seconds since 1970.
    """

    name: str
    role: Role
    id: str
    sha256: str
    created: float

    def caller(self) -> Caller:
        """Return the caller that this token stands for."""
        return Caller(self.name, self.role, self.id)


class UserTokens:
    """The tokens that a running server accepts. Safe from any thread.

    Args:
        folder: the state folder; None = there are none.
        changed: called with one sentence for each token that was added, replaced or revoked.
    """

    def __init__(
        self, folder: Path | None, changed: Callable[[str], None] = lambda what: None
    ) -> None:
        self._path = None if folder is None else folder / NAME
        self._changed = changed
        self._by_id: dict[str, UserToken] = {}
        self._seen: tuple[int, ...] = ()
        self._reading = threading.Lock()
        self._load(announce=False)

    def find(self, token: str) -> Caller | None:
        """Return the caller with a token; None if there is none, or it was revoked."""
        parts = FORM.fullmatch(token)
        if parts is None:
            return None
        self._load()
        line = self._by_id.get(parts[1])
        stated = hashed(token)
        if line is None:  # compared anyway, so that the time does not tell which ids exist
            hmac.compare_digest(stated, stated)
            return None
        return line.caller() if hmac.compare_digest(stated, line.sha256) else None

    def is_current(self, caller: Caller) -> bool:
        """Return whether the token of a caller is still accepted, with the same role."""
        self._load()
        line = self._by_id.get(caller.token_id)
        return line is not None and line.caller() == caller

    def _load(self, announce: bool = True) -> None:
        """Reread the file if it was replaced. One that cannot be read holds no token."""
        if self._path is None or state_of(self._path) == self._seen:
            return
        with self._reading:
            seen = state_of(self._path)
            if seen == self._seen:
                return
            try:
                tokens = read_tokens(self._path.parent)
            except BadInput as error:
                logger.warning("no user's token is accepted: %s", error)
                tokens = {}
            before, self._by_id = self._by_id, {line.id: line for line in tokens.values()}
            self._seen = seen
        if announce:
            for what in differences(before, self._by_id):
                logger.warning("%s", what)
                self._changed(what)


def differences(before: Mapping[str, UserToken], after: Mapping[str, UserToken]) -> Iterator[str]:
    """Yield what changed, one sentence per token."""
    old = {line.name for line in before.values()}
    new = {line.name for line in after.values()}
    for id_, line in after.items():
        if id_ not in before:
            verb = "replaced" if line.name in old else "added"
            yield f"token of {line.name} ({line.role}) {verb}"
    for id_, line in before.items():
        if id_ not in after and line.name not in new:
            yield f"token of {line.name} ({line.role}) revoked"


# The file -----------------------------------------------------------------------------


def read_tokens(folder: Path) -> dict[str, UserToken]:
    """Return the tokens of a state folder by name; none if there is no file.

    Raises:
        BadInput: the file cannot be used.
    """
    path = folder / NAME
    if not path.exists() and not path.is_symlink():
        return {}
    remedy = "restore it, or remove it and add the tokens again: `flyball token add`"
    text = read_private(path, "the file of tokens", remedy, MOST_BYTES)
    try:
        document = json.loads(text)
        if document["form"] != 1:
            raise BadInput(f"{path} has form {document['form']}", "use the newer Flyball")
        lines = [
            UserToken(
                str(row["name"]), Role(row["role"]), str(row["id"]), str(row["sha256"]),
                float(row["created"]),
            )
            for row in document["tokens"]
        ]  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{path} is not a list of tokens: {error}", remedy) from error
    if any(line.role not in PEOPLE for line in lines):
        raise BadInput(f"{path} has a token of a role that people cannot have", remedy)
    return {line.name: line for line in lines}


def add_token(folder: Path, name: str, role: Role, now_s: float) -> str:
    """Issue a token to a user who has none; return it. It cannot be shown again.

    Raises:
        BadInput: the name is not one.
        Conflict: the user has a token.
    """
    check_name(name)
    with _changing(folder) as tokens:
        if name in tokens:
            raise Conflict(
                f"{name} has a token already, with the role {tokens[name].role}",
                f"`flyball token rotate {name}` replaces it, `flyball token revoke {name}` ends it",
            )
        tokens[name], token = _issued(name, role, now_s)
    return token


def rotate_token(folder: Path, name: str, now_s: float) -> str:
    """Replace the token of a user; the role stays. Return the new one.

    Raises:
        NotFound: the user has none.
    """
    with _changing(folder) as tokens:
        line = _line_of(tokens, name)
        tokens[name], token = _issued(name, line.role, now_s)
    return token


def revoke_token(folder: Path, name: str) -> UserToken:
    """End the token of a user; return what it was.

    Raises:
        NotFound: the user has none.
    """
    with _changing(folder) as tokens:
        line = _line_of(tokens, name)
        del tokens[name]
    return line


def check_name(name: str) -> None:
    """Check the name of a token's holder, which becomes the `user` of their jobs.

    Raises:
        BadInput: it is not one.
    """
    if not USER_NAME.fullmatch(name):
        raise BadInput(
            f"{name[:40]!r} cannot be the name of a token's holder",
            "use up to 64 letters, digits and . _ @ -, as in a login name",
        )
    if name in RESERVED:
        raise BadInput(f"{name!r} is reserved: the journal uses it", "use a login name")


def hashed(token: str) -> str:
    """Return the hash of a token as it is stored."""
    return hashlib.sha256(token.encode()).hexdigest()


def _issued(name: str, role: Role, now_s: float) -> tuple[UserToken, str]:
    id_ = secrets.token_hex(8)
    token = f"{PREFIX}{id_}_{secrets.token_urlsafe(32)}"
    return UserToken(name, role, id_, hashed(token), round(now_s, 3)), token


def _line_of(tokens: Mapping[str, UserToken], name: str) -> UserToken:
    if name not in tokens:
        names = ", ".join(sorted(tokens)) or "nobody"
        raise NotFound(f"{name[:64]!r} has no token", f"those who have one: {names}")
    return replace(tokens[name])


@contextmanager
def _changing(folder: Path) -> Iterator[dict[str, UserToken]]:
    """Yield the tokens to change; they are written when the block ends without an error."""
    with open(folder / LOCK, "a", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tokens = read_tokens(folder)
        yield tokens
        rows = [asdict(line) for line in sorted(tokens.values(), key=lambda line: line.name)]
        text = json.dumps({"form": 1, "tokens": rows}, indent=1)
        write_private(folder / NAME, text + "\n")
