"""Commands on jobs: submit, queue, show, logs, cancel, hold, resize, cap, why, receipt."""
