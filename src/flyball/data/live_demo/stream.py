"""Bandwidth-limited: trains a model on data that is fetched over the network at every pass.

A thread serves a file over the loopback interface; the training keeps no row.
"""

from __future__ import annotations

import argparse
import os
import socket
import tempfile
import threading
from pathlib import Path

import numpy as np

from flyball.data.live_demo.progress import Floats, load, report, save, training_steps

INPUTS, ROWS = 64, 8192
"""Number of input columns of the data, and of rows in one part of it."""
PART_BYTES = ROWS * (INPUTS + 1) * 4


def write_parts(path: Path, parts: int, truth: Floats, rng: np.random.Generator) -> None:
    """Write rows with their labels, part by part."""
    with path.open("wb") as file:
        for _ in range(parts):
            x = rng.standard_normal((ROWS, INPUTS), dtype=np.float32)
            y = (x @ truth + rng.standard_normal(ROWS, dtype=np.float32) > 0).astype(np.float32)
            file.write(np.column_stack((x, y)).astype(np.float32).tobytes())


def serve_file(listener: socket.socket, path: Path, passes: int) -> None:
    """Send the file `passes` times over the first connection."""
    connection, _ = listener.accept()
    with connection, path.open("rb") as file:
        size = path.stat().st_size
        for _ in range(passes):
            offset = 0
            while offset < size:
                offset += os.sendfile(connection.fileno(), file.fileno(), offset, size - offset)


def receive_part(connection: socket.socket, buffer: bytearray) -> Floats:
    """Return the next part, as rows."""
    view = memoryview(buffer)
    while len(view):
        size = connection.recv_into(view)
        if not size:
            raise ConnectionError("the data ended early")
        view = view[size:]
    return np.frombuffer(buffer, np.float32).reshape(ROWS, INPUTS + 1)


def train(passes: int, parts: int, rate: float = 0.5, seed: int = 0) -> float:
    """Train on `passes` passes over the file; return the last loss."""
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
        buffer = bytearray(PART_BYTES)
        with socket.create_connection(server.getsockname()) as connection:
            for step, report_due in training_steps(first, passes):
                loss = 0.0
                for _ in range(parts):
                    rows = receive_part(connection, buffer)
                    x, y = rows[:, :-1], rows[:, -1]
                    answer = 1 / (1 + np.exp(-np.clip(x @ w, -30, 30)))
                    w -= np.float32(rate / ROWS) * (x.T @ (answer - y))
                    right = np.where(y > 0, answer, 1 - answer)
                    loss += float(-np.mean(np.log(np.maximum(right, 1e-6)))) / parts
                if report_due:
                    report(step, loss, mib=step * parts * PART_BYTES / 2**20)
                    save(step, weights)
    return loss


def main() -> None:
    """Read the command line and train."""
    read = argparse.ArgumentParser(description=__doc__)
    read.add_argument("--passes", type=int, default=120)
    read.add_argument("--parts", type=int, default=24)
    options = read.parse_args()
    train(options.passes, options.parts)


if __name__ == "__main__":
    main()
