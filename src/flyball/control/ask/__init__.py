"""Questions about the cluster: why, when, how much, how well. Nothing here changes a job."""
