"""Reads and writes a policy file: tensors in the safetensors format, and beside them a JSON card.

    write(path, tensors, card)       # NAME.safetensors and NAME.json
    policy = read(path)              # refuses what is truncated, changed or for another version

Nothing of the safetensors package is needed to serve: the format is a length, a JSON header and
raw numbers. Files are data only; whatever a file holds, nothing of it is executed.

The card says what the tensors are for:

| key | meaning |
|---|---|
| `format` | 1 |
| `kind` | `conv-lstm` or `mlp`; see `forward` for the tensors of each |
| `layout` | `spaces.layout_digest()` of the observation and actions it was trained with |
| `epoch_s` | time between two of its decisions |
| `activation` | of hidden layers: `relu` or `tanh` |
| `sha256` | of the safetensors file |
| `made` | anything: data, seeds, commit, scores, limits |
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.core.errors import BadInput
from flyball.learn.env.govern import LONGEST_S, SHORTEST_S
from flyball.learn.env.spaces import layout_digest

Tensors = Mapping[str, npt.NDArray[np.float32]]
FORMAT = 1
KINDS = ("conv-lstm", "mlp")
ACTIVATIONS = ("relu", "tanh")
MOST_BYTES = 64 << 20
"""Size of a file at most; a policy that ships has under 2 MB."""
MOST_HEADER = 1 << 20
DTYPES: dict[str, Any] = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8")}
REMEDY = "make one with `flyball learn train`, or fetch it again"
SHOWN = 12
"""Digits of a policy's hash that people are shown."""


@dataclass(frozen=True)
class PolicyFile:
    """Holds what a policy file says.

    Attributes:
        path: of the tensors.
        card: as read.
        tensors: by name, float32.
        hash: SHA-256 of tensors and card, which decisions record.
    """

    path: str
    card: Mapping[str, Any]
    tensors: Tensors
    hash: str

    @property
    def epoch_s(self) -> float:
        """Return the time between two decisions."""
        return float(self.card["epoch_s"])


def shipped() -> Path:
    """Return where the policy that ships with Flyball is."""
    return Path(str(files("flyball").joinpath("data", "learned.safetensors")))


def card_path(path: Path) -> Path:
    """Return where the card of a file is."""
    return path.with_suffix(".json")


def write(path: Path, tensors: Tensors, card: Mapping[str, Any]) -> str:
    """Write a policy file and its card; return the hash that decisions will record.

    Args:
        path: ends in `.safetensors`.
        tensors: what the forward pass of the card's kind needs.
        card: `kind`, `epoch_s`, and anything else to keep; the rest is filled in.
    """
    content = encode(tensors)
    full = {
        "format": FORMAT,
        "layout": layout_digest(),
        "activation": "relu",
        **card,
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    _check_card(full, str(path))
    text = json.dumps(full, indent=1, sort_keys=True) + "\n"
    for target, data in ((path, content), (card_path(path), text.encode())):
        draft = target.with_name(target.name + ".part")
        draft.write_bytes(data)
        os.replace(draft, target)
    return _hash_of(content, text.encode())


def read(path: Path) -> PolicyFile:
    """Read a policy file and its card.

    Raises:
        BadInput: one line that says what is wrong with it.
    """
    content, text = _bytes_of(path), _bytes_of(card_path(path))
    try:
        card = json.loads(text)
    except ValueError as error:
        raise _bad(card_path(path), f"is not JSON ({error})") from None
    if not isinstance(card, dict):
        raise _bad(card_path(path), "is not a policy's card")
    _check_card(card, str(card_path(path)))
    if hashlib.sha256(content).hexdigest() != card["sha256"]:
        raise _bad(path, "is not the file its card describes: truncated, or changed since")
    tensors = decode(content, path)
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise _bad(path, f"holds NaN or infinite numbers in {name}")
    return PolicyFile(str(path), card, tensors, _hash_of(content, text))


def _hash_of(content: bytes, card: bytes) -> str:
    return hashlib.sha256(hashlib.sha256(content).digest() + card).hexdigest()


def _bytes_of(path: Path) -> bytes:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise _bad(path, f"is larger than {MOST_BYTES >> 20} MiB")
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"policy file {path}: {error.strerror}", REMEDY) from None


def _check_card(card: Mapping[str, Any], where: str) -> None:
    """Refuse a card that this version cannot serve."""
    missing = [key for key in ("format", "kind", "layout", "epoch_s", "sha256") if key not in card]
    if missing:
        raise _bad(where, f"is not a policy's card: it has no {', '.join(missing)}")
    if card["format"] != FORMAT:
        raise _bad(where, f"has format {card['format']!r}; this version reads {FORMAT}")
    if card["kind"] not in KINDS:
        raise _bad(where, f"has kind {card['kind']!r}; this version serves {', '.join(KINDS)}")
    if card.get("activation", "relu") not in ACTIVATIONS:
        raise _bad(where, f"has activation {card['activation']!r}, not {' or '.join(ACTIVATIONS)}")
    if card["layout"] != layout_digest():
        raise _bad(
            where,
            f"was trained on observations or actions of another version ({card['layout']!r}; "
            f"this one is {layout_digest()})",
        )
    epoch = card["epoch_s"]
    if not isinstance(epoch, int | float) or not SHORTEST_S <= epoch <= LONGEST_S:
        raise _bad(where, f"has epoch_s {epoch!r}, not {SHORTEST_S:g} to {LONGEST_S:g} s")


def _bad(path: Path | str, what: str) -> BadInput:
    return BadInput(f"policy file {path} {what}", REMEDY)


# The safetensors format ------------------------------------------------------------------


def encode(tensors: Tensors) -> bytes:
    """Return tensors in the safetensors format."""
    header: dict[str, Any] = {}
    parts, end = [], 0
    for name in sorted(tensors):
        data = np.ascontiguousarray(tensors[name], "<f4")
        header[name] = {
            "dtype": "F32",
            "shape": list(data.shape),
            "data_offsets": [end, end + data.nbytes],
        }
        parts.append(data.tobytes())
        end += data.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


def decode(content: bytes, path: Path | str = "(memory)") -> dict[str, npt.NDArray[np.float32]]:
    """Return the tensors of a file in the safetensors format.

    Raises:
        BadInput: it is not one, or its parts do not fit its length.
    """
    size = int.from_bytes(content[:8], "little")
    if len(content) < 8 or not 2 <= size <= min(MOST_HEADER, len(content) - 8):
        raise _bad(path, "is not in the safetensors format, or is truncated")
    try:
        header = json.loads(content[8 : 8 + size])
        header.pop("__metadata__", None)
        entries = {
            str(name): (
                DTYPES[entry["dtype"]],
                tuple(int(n) for n in entry["shape"]),
                *(int(n) for n in entry["data_offsets"]),
            )
            for name, entry in header.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _bad(path, "has a damaged header, or tensors that are not float32") from None
    data = content[8 + size :]
    tensors = {}
    for name, (dtype, shape, begin, end) in entries.items():
        fits = all(n >= 0 for n in shape) and 0 <= begin <= end <= len(data)
        if not fits or end - begin != math.prod(shape) * dtype.itemsize:
            raise _bad(path, f"is truncated or damaged at tensor {name}")
        values = np.frombuffer(data[begin:end], dtype).reshape(shape)
        tensors[name] = np.ascontiguousarray(values, np.float32)
    return tensors
