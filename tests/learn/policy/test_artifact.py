"""Policy files: written and read again; what is poisoned, truncated or foreign is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.learn.policy.policy_files import conv_lstm, mlp

from flyball.core.errors import BadInput
from flyball.learn.policy.artifact import card_path, encode, read, write
from flyball.learn.policy.forward import Net

CARD = {"kind": "mlp", "epoch_s": 600}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "policy.safetensors"
    write(path, mlp(), CARD)
    return path


def test_a_file_is_read_as_it_was_written(path: Path) -> None:
    file, tensors = read(path), mlp()
    assert file.tensors.keys() == tensors.keys() and len(file.hash) == 64
    for name, tensor in tensors.items():
        assert np.array_equal(file.tensors[name], tensor)
        assert np.array_equal(load_file(path)[name], tensor)  # the format's own package agrees


def test_the_hash_covers_tensors_and_card(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.safetensors"
    assert write(other, mlp(), CARD) == read(path).hash
    assert write(other, mlp(), {**CARD, "epoch_s": 900}) != read(path).hash
    assert write(other, mlp(seed=1), CARD) != read(path).hash == read(path).hash


def test_a_truncated_file_is_refused(path: Path) -> None:
    content = path.read_bytes()
    for size in (0, 4, 100, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(BadInput, match="truncated"):
            read(path)


def test_a_poisoned_file_is_refused(path: Path) -> None:
    tensors = mlp()
    tensors["value.bias"][:] = np.nan
    write(path, tensors, CARD)
    with pytest.raises(BadInput, match=r"NaN or infinite numbers in value\.bias"):
        read(path)
    path.write_bytes(path.read_bytes().replace(b"\0\0\0\0", b"\0\0\1\0", 1))
    with pytest.raises(BadInput, match="not the file its card describes"):
        read(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "has format 2"),
        ({"kind": "pickle"}, "has kind 'pickle'"),
        ({"layout": "0" * 16}, "of another version"),
        ({"epoch_s": 5}, "has epoch_s 5"),
        ({"epoch_s": "soon"}, "has epoch_s 'soon'"),
        ({"activation": "sin"}, "has activation 'sin'"),
    ],
)
def test_a_foreign_card_is_refused(path: Path, change: dict[str, Any], message: str) -> None:
    card = json.loads(card_path(path).read_text())
    card_path(path).write_text(json.dumps(card | change))
    with pytest.raises(BadInput, match=message):
        read(path)


@pytest.mark.parametrize("text", ["", "[]", "{}", "\xff", "{"])
def test_what_is_no_card_is_refused(path: Path, text: str) -> None:
    card_path(path).write_text(text)
    with pytest.raises(BadInput, match="policy file"):
        read(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        read(tmp_path / "none.safetensors")


@pytest.mark.parametrize("header", [b"[]", b"{", b'{"a": 1}', b'{"a":{"dtype":"I64"}}', b"[" * 900])
def test_a_damaged_header_is_refused(path: Path, header: bytes) -> None:
    _refused_content(path, len(header).to_bytes(8, "little") + header)


def test_offsets_beyond_the_file_are_refused(path: Path) -> None:
    content = encode({"a": np.zeros(4, np.float32)})
    _refused_content(path, content.replace(b"[0,16]", b"[0,99]"))
    _refused_content(path, content.replace(b"[4]", b"[9]"))


def _refused_content(path: Path, content: bytes) -> None:
    """Check that a file is refused even if its card says that it is as it should be."""
    import hashlib

    card = json.loads(card_path(path).read_text())
    card["sha256"] = hashlib.sha256(content).hexdigest()
    card_path(path).write_text(json.dumps(card))
    path.write_bytes(content)
    with pytest.raises(BadInput, match="policy file"):
        read(path)


@pytest.mark.parametrize("kind", ["mlp", "conv-lstm"])
def test_tensors_that_do_not_fit_are_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "policy.safetensors"
    tensors = mlp() if kind == "mlp" else conv_lstm()
    for name, tensor in tensors.items():
        write(
            path, {**tensors, name: np.zeros((*tensor.shape, 2), np.float32)}, CARD | {"kind": kind}
        )
        with pytest.raises(BadInput, match="foreign or damaged"):
            Net(read(path))
