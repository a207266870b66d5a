"""Replays in notebooks and scripts: `flyball.replay(...)` and its result.

A face like the command line: it takes what a researcher has at hand, calls `experiments`, and
shows what comes back.
"""
