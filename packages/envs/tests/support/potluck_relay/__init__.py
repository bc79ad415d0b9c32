"""A small plug-in: the relay game, and games with one fault each for the checks of the conformance suite."""
