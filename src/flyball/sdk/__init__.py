"""What users' programs import: a client of the control plane, and reports from inside a job.

Nothing of Flyball's own is imported here, so that a job pays for nothing it does not use.
"""
