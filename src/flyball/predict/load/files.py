"""A fitted forecaster on disk: a JSON card, and separate files for what is not text.

`NAME.json` holds the plain values (LightGBM's trees are text and among them); the weights of a net
are a safetensors file that the card names. Never pickle: a model file must not run code.
"""

from __future__ import annotations

import json
from pathlib import Path

from flyball.core.errors import BadInput
from flyball.predict.load.contract import LoadForecaster
from flyball.predict.load.registry import get_forecaster

FILE = "file:"
"""Prefix of a value of the card that names a file in the same folder."""


def write(folder: Path, name: str, forecaster: LoadForecaster) -> list[Path]:
    """Save the fitted forecaster `name` of the registry; return the files, the card last."""
    folder.mkdir(parents=True, exist_ok=True)
    card, paths = {"forecaster": name, **forecaster.save()}, []
    for key, value in card.items():
        if isinstance(value, bytes):
            path = folder / f"{name}.{key}.safetensors"
            path.write_bytes(value)
            card[key] = FILE + path.name
            paths.append(path)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(card, allow_nan=False), "utf-8")
    return [*paths, path]


def read(folder: Path, name: str) -> LoadForecaster:
    """Read what `write` saved.

    Raises:
        BadInput: a file is missing or is not valid.
    """
    path = folder / f"{name}.json"
    try:
        card = json.loads(path.read_text("utf-8"))
        for key, value in card.items():
            if isinstance(value, str) and value.startswith(FILE):
                # The file name only: a card must not refer to files outside its folder.
                card[key] = (folder / Path(value[len(FILE) :]).name).read_bytes()
        return get_forecaster(card.pop("forecaster")).load(card)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{path}: not a saved forecaster: {error}", "save it again") from error
