"""Registers the environments with gymnasium, when this module is imported.

    env = gymnasium.make("flyball.learn.env.register:Flyball/Govern-v0")

or, once it is imported,

    envs = gymnasium.make_vec(
        "Flyball/Govern-v0", num_envs=16, vectorization_mode="vector_entry_point"
    )

Gymnasium has had no plug-ins since 1.0: somebody has to name the module.
"""

from __future__ import annotations

import gymnasium

ENTRY_POINTS = {
    "Flyball/Govern-v0": ("flyball.learn.env.govern_env", "GovernEnv", "GovernVectorEnv"),
    "Flyball/Pick-v0": ("flyball.learn.env.pick_env", "PickEnv", "PickVectorEnv"),
}
"""Module, environment and vectorised environment, by id; loaded when one is made."""

for _name, (_module, _single, _vector) in ENTRY_POINTS.items():
    if _name not in gymnasium.registry:
        gymnasium.register(
            id=_name,
            entry_point=f"{_module}:{_single}",
            vector_entry_point=f"{_module}:{_vector}",
        )
