"""Tokens of attempts are derived from one key, and prove exactly one attempt."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from flyball.control.access.attempt_tokens import AttemptTokens
from flyball.core.errors import BadInput


def test_a_token_proves_its_attempt_also_after_a_restart(tmp_path: Path) -> None:
    token = AttemptTokens(tmp_path).token(17, 2)
    assert token.startswith("fba_17_2_")
    assert stat.S_IMODE((tmp_path / "attempt-key").stat().st_mode) == 0o600
    again = AttemptTokens(tmp_path)
    assert again.attempt_of(token) == (17, 2)
    assert again.token(17, 2) == token
    assert again.token(1, 72) != again.token(17, 2)


def test_forged_tokens_prove_nothing(tmp_path: Path) -> None:
    tokens = AttemptTokens(tmp_path)
    assert tokens.attempt_of("fba_1_1_" + "A" * 43) is None
    assert not (tmp_path / "attempt-key").exists()  # asking creates no key
    token = tokens.token(1, 1)
    proof = token.rpartition("_")[2]
    for forged in (f"fba_1_2_{proof}", f"fba_11_1_{proof}", f"fba_01_1_{proof}", token + "x",
                   token[:-1], token.upper(), "fba_1_1_", f"fba_-1_1_{proof}"):  # fmt: skip
        assert tokens.attempt_of(forged) is None
    other = tmp_path / "other"
    other.mkdir()
    assert AttemptTokens(other).attempt_of(token) is None
    AttemptTokens(other).token(1, 1)
    assert AttemptTokens(other).attempt_of(token) is None


def test_a_broken_key(tmp_path: Path) -> None:
    token = AttemptTokens(tmp_path).token(1, 1)
    (tmp_path / "attempt-key").write_text("short")
    assert AttemptTokens(tmp_path).attempt_of(token) is None
    with pytest.raises(BadInput, match="64 hexadecimal digits"):
        AttemptTokens(tmp_path).token(1, 1)
    (tmp_path / "attempt-key").chmod(0o644)
    with pytest.raises(BadInput, match="others may read the key of attempts"):
        AttemptTokens(tmp_path).token(1, 1)
