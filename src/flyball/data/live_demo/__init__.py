"""Small training programs for `flyball demo live`: a few seconds on one core each.

Each is run as `python -m flyball.data.live_demo.NAME`, prints its loss, reports it to Flyball if
it runs as a job, and resumes from its last checkpoint when it is started again.
"""
