"""Tests of potluck-proto."""
