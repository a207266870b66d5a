"""Commands about jobs: submit, queue, show, logs, cancel, why, receipt, steer."""
