"""The file of users' tokens: what it holds, who may read it, and changes at the same time."""

from __future__ import annotations

import json
import logging
import stat
import threading
from pathlib import Path

import pytest

from flyball.control.access.roles import OWNER, Caller, Role
from flyball.control.access.user_tokens import (
    FORM,
    UserTokens,
    add_token,
    read_tokens,
    revoke_token,
    rotate_token,
)
from flyball.core.errors import BadInput, Conflict, NotFound

NOW_S = 1.7e9


def test_a_token_is_stored_as_its_hash(tmp_path: Path) -> None:
    token = add_token(tmp_path, "ada", Role.USER, NOW_S)
    assert FORM.fullmatch(token)
    path = tmp_path / "tokens.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    secret = token.rpartition("_")[2]
    assert not any(secret in file.read_text() for file in tmp_path.iterdir())
    caller = UserTokens(tmp_path).find(token)
    assert caller is not None
    assert (caller.name, caller.role, caller.token_id) == ("ada", Role.USER, token[4:20])


def test_add_rotate_revoke(tmp_path: Path) -> None:
    changes: list[str] = []
    tokens = UserTokens(tmp_path, changes.append)
    first = add_token(tmp_path, "ada", Role.USER, NOW_S)
    with pytest.raises(Conflict, match="ada has a token already, with the role user"):
        add_token(tmp_path, "ada", Role.OPERATOR, NOW_S)
    caller = tokens.find(first)
    assert caller
    assert tokens.is_current(caller)
    second = rotate_token(tmp_path, "ada", NOW_S)
    assert tokens.find(first) is None
    assert not tokens.is_current(caller)
    assert tokens.find(second)
    assert revoke_token(tmp_path, "ada").role == Role.USER
    assert tokens.find(second) is None
    assert changes == [f"token of ada (user) {what}" for what in ("added", "replaced", "revoked")]
    for change in (lambda: revoke_token(tmp_path, "ada"), lambda: rotate_token(tmp_path, "b", 0)):
        with pytest.raises(NotFound, match="has no token"):
            change()


def test_names(tmp_path: Path) -> None:
    for name in ("", "a b", "a\n", "../x", "-x", "x" * 65, "ä", "flyball", "api"):
        with pytest.raises(BadInput):
            add_token(tmp_path, name, Role.USER, NOW_S)
    for name in ("ada", "a.b-c_d@example.org", "7"):
        add_token(tmp_path, name, Role.VIEWER, NOW_S)
    assert sorted(read_tokens(tmp_path)) == ["7", "a.b-c_d@example.org", "ada"]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"form": 2}', '{"form": 1, "tokens": [{"name": "a"}]}', "\x00"]
)
def test_a_broken_file_holds_no_token(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    token = add_token(tmp_path, "ada", Role.USER, NOW_S)
    tokens = UserTokens(tmp_path)
    (tmp_path / "tokens.json").write_text(text)
    with caplog.at_level(logging.WARNING):
        assert tokens.find(token) is None
    assert "no user's token is accepted" in caplog.text
    assert token not in caplog.text
    with pytest.raises(BadInput):
        add_token(tmp_path, "bob", Role.USER, NOW_S)  # it is not overwritten


def test_a_file_that_others_read_or_a_forged_role_holds_no_token(tmp_path: Path) -> None:
    token = add_token(tmp_path, "ada", Role.USER, NOW_S)
    path = tmp_path / "tokens.json"
    path.chmod(0o644)
    assert UserTokens(tmp_path).find(token) is None
    path.chmod(0o600)
    assert UserTokens(tmp_path).find(token)
    document = json.loads(path.read_text())
    document["tokens"][0]["role"] = "attempt"
    path.write_text(json.dumps(document))
    assert UserTokens(tmp_path).find(token) is None


def test_changes_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    names = [f"u{number}" for number in range(20)]
    threads = [
        threading.Thread(target=add_token, args=(tmp_path, name, Role.USER, NOW_S))
        for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(read_tokens(tmp_path)) == sorted(names)


def test_who_may_change_what() -> None:
    ada, eve = Caller("ada", Role.USER), Caller("eve", Role.VIEWER)
    op, attempt = Caller("op", Role.OPERATOR), Caller("ada", Role.ATTEMPT, job=1, attempt=1)
    assert [caller.may_change("ada") for caller in (ada, eve, op, attempt, OWNER)] == [
        True, False, True, False, True,
    ]  # fmt: skip
    assert not eve.may_change("eve")
    assert not ada.may_change("")
