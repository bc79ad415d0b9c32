"""Learners: what holds an agent's weights and moves them."""
