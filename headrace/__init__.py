"""The command `headrace`."""
