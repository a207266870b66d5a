"""Flyball: which job runs where, when, on how many devices and at what power.

Importing this package loads nothing heavy and compiles nothing; the parts are imported
where they are used (`flyball.twin.twin`, `flyball.schedule.policies`, ...).
"""

__version__ = "0.1.0"
