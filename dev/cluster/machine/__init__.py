"""What the rest uses of the machine it runs on: processes, mounts, cgroups, locks, system programs."""
