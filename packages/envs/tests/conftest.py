"""Puts support/ on the path: the plug-in with the relay game and the faulty games (for workers, too), and a client."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
