"""What tuners gain: families of workloads, sharing, caps, replicas, class pathways."""
