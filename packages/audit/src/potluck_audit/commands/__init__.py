"""The subcommands of `potluck-audit`, a file each: a dataclass with `run()`, which gives the exit status."""
