"""What would have happened: episodes played again with some agents replaced."""
