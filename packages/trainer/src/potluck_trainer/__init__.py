"""Potluck's trainer: rollouts through env and policy servers, per-agent learners, checkpoints, evaluation, the CLI."""
