"""What a job will ask of a device: operations, step time, memory, utilisation."""
