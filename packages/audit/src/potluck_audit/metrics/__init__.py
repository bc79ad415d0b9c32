"""Behaviour beside reward: one concept a file, each a function from episodes to metrics."""
