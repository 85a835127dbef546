"""Running planned programs: the decorator, compiled executables, state set-up."""
