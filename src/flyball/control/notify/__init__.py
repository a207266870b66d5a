"""Notifications of a job's end: a URL is posted to, or a command is run."""
