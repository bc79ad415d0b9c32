"""Can a backbone bind labels to options at all? `potluck-policy probe` asks it, frozen and after a short fit."""
