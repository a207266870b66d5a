"""Back ends that run an optimised graph; one file each, measured against each other."""

from flyball.models.backends.registry import BACKENDS as BACKENDS
from flyball.models.backends.registry import Backend as Backend
from flyball.models.backends.registry import get as get
