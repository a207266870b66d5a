"""Trains a net with PyTorch on as many cores as it is given: grows, shrinks, saves, resumes.

Prints a line for each step: its number, the loss and the threads it had. The data of a step
depends on its number alone, so that the curve is the same with or without interruptions.
"""

from __future__ import annotations

import argparse

import flyball

INPUTS, HIDDEN, BATCH = 64, 256, 256


def main() -> None:
    """Train to the end, from the last checkpoint of an earlier attempt if there is one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--every", type=int, default=50, help="steps between two checkpoints")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds to sleep in each step")
    options = parser.parse_args()
    import time

    import torch
    from torch import nn

    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1))
    teacher = torch.randn(INPUTS, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    with flyball.TorchCallback(model, optimizer, every=options.every) as run:
        for step in range(run.first, options.steps):
            draw = torch.Generator().manual_seed(step)
            x = torch.randn(BATCH, INPUTS, generator=draw)
            loss = ((model(x) - torch.tanh(x @ teacher / 4)) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(step, loss.item(), torch.get_num_threads(), flush=True)  # noqa: T201
            time.sleep(options.pause)
            run.step(loss=loss.item())


if __name__ == "__main__":
    main()
