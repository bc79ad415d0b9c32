"""Does reward come from cooperation? A verdict for each checkpoint, and one for the run."""
