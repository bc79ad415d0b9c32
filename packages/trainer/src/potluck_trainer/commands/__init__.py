"""What the subcommands of `potluck` do."""
