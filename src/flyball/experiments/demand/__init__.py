"""Experiments behind `flyball predict demand`: measured nets, rivals, the published net."""
