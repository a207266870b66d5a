"""The modules that users' programs import: a client of the control plane, and reports from a job.

They import no other package of Flyball, so that a job loads nothing it does not use.
"""
