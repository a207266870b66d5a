"""Sia and Pollux on their own ground: their costs, profiles, workloads and figures."""
