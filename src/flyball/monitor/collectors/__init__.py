"""One file for each sensor; `flyball.monitor.registry` names them all."""
