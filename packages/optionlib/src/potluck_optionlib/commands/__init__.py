"""The subcommands of `potluck-optionlib`, one a file: a dataclass that tyro fills, with `run()`."""
