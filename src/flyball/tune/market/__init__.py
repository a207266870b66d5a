"""The market of devices: compiled rounds that decide where jobs run, and on how many devices."""
