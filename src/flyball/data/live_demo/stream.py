"""Bandwidth-limited: a model learns from data that is fetched over the network at every pass.

A thread serves a file over the loopback interface; the learner keeps no row.
"""

from __future__ import annotations

import argparse
import os
import socket
import tempfile
import threading
from pathlib import Path

import numpy as np

from flyball.data.live_demo.progress import Floats, load, save, steps_told, tell

INPUTS, ROWS = 64, 8192
"""Columns of the data, and rows of a part of it."""
PART_BYTES = ROWS * (INPUTS + 1) * 4


def write_parts(path: Path, parts: int, truth: Floats, rng: np.random.Generator) -> None:
    """Write rows with their labels, part by part."""
    with path.open("wb") as file:
        for _ in range(parts):
            x = rng.standard_normal((ROWS, INPUTS), dtype=np.float32)
            y = (x @ truth + rng.standard_normal(ROWS, dtype=np.float32) > 0).astype(np.float32)
            file.write(np.column_stack((x, y)).astype(np.float32).tobytes())


def serve_file(listener: socket.socket, path: Path, passes: int) -> None:
    """Send the file again and again to the one who connects."""
    connection, _ = listener.accept()
    with connection, path.open("rb") as file:
        size = path.stat().st_size
        for _ in range(passes):
            offset = 0
            while offset < size:
                offset += os.sendfile(connection.fileno(), file.fileno(), offset, size - offset)


def receive_part(connection: socket.socket, room: bytearray) -> Floats:
    """The next part, as rows."""
    view = memoryview(room)
    while len(view):
        got = connection.recv_into(view)
        if not got:
            raise ConnectionError("the data ended early")
        view = view[got:]
    return np.frombuffer(room, np.float32).reshape(ROWS, INPUTS + 1)


def train(passes: int, parts: int, rate: float = 0.5, seed: int = 0) -> float:
    """Learn from `passes` times the file; the last loss."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(INPUTS, dtype=np.float32)
    weights = {"w": np.zeros(INPUTS, np.float32)}
    w = weights["w"]
    loss = 0.0
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as server:
        path = Path(folder) / "rows"
        write_parts(path, parts, truth, rng)
        first = load(weights)
        threading.Thread(
            target=serve_file, args=(server, path, passes - first), daemon=True
        ).start()
        room = bytearray(PART_BYTES)
        with socket.create_connection(server.getsockname()) as connection:
            for step, told in steps_told(first, passes):
                loss = 0.0
                for _ in range(parts):
                    rows = receive_part(connection, room)
                    x, y = rows[:, :-1], rows[:, -1]
                    answer = 1 / (1 + np.exp(-np.clip(x @ w, -30, 30)))
                    w -= np.float32(rate / ROWS) * (x.T @ (answer - y))
                    right = np.where(y > 0, answer, 1 - answer)
                    loss += float(-np.mean(np.log(np.maximum(right, 1e-6)))) / parts
                if told:
                    tell(step, loss, mib=step * parts * PART_BYTES / 2**20)
                    save(step, weights)
    return loss


def main() -> None:
    """Read the command line and learn."""
    read = argparse.ArgumentParser(description=__doc__)
    read.add_argument("--passes", type=int, default=120)
    read.add_argument("--parts", type=int, default=24)
    options = read.parse_args()
    train(options.passes, options.parts)


if __name__ == "__main__":
    main()
