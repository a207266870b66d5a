"""The collectors, one file each; `flyball.monitor.registry` lists them all."""
