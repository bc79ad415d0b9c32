"""Advantage estimators, found through the entry-point group `potluck.algorithms`."""
