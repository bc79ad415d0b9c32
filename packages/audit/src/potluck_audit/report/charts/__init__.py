"""Charts as inline SVG: they take their colours from the page and ask for nothing."""
