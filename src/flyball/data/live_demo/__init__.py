"""Small programs that learn something, for `flyball demo live`: a few seconds on one core each.

Each is run as `python -m flyball.data.live_demo.NAME`, prints its loss, reports it to Flyball
where it runs under it, and goes on from its last checkpoint when it is started again.
"""
