"""A control plane that kills itself: `python plane_process.py STATE SEED KILL_CHANCE`.

At every point of a cycle it may end by SIGKILL, and the points of a start are such points too.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
from pathlib import Path


def main() -> None:
    state, seed, chance = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    rng = random.Random(seed)

    def passing(point: str) -> None:
        if rng.random() < chance:
            with open(state / "kills", "a") as file:
                file.write(f"{point}\n")
            os.kill(os.getpid(), signal.SIGKILL)

    from flyball.api.serve import serve
    from flyball.api.settings import ApiSettings
    from flyball.api.token import make_token
    from flyball.app import policy_settings
    from flyball.control.ask.bills import Prices
    from flyball.live import build_live

    token = make_token(state)
    passing("before recovery")
    live = build_live(state, policy_settings("fifo-skip", [])[0], Prices(), passing=passing)
    passing("recovered")
    live.driver.start()
    server = serve(live.plane, ApiSettings(token))
    with open(state / "endpoint.tmp", "w") as file:
        json.dump({"url": server.url, "pid": os.getpid()}, file)
    os.replace(state / "endpoint.tmp", state / "endpoint.json")
    threading.Event().wait()


if __name__ == "__main__":
    main()
