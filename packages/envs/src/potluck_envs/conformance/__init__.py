"""What every game promises, as checks: for the command `potluck-envs conform` and as a test class for plug-ins.

from potluck_envs.conformance import GameConformance

class TestMyGame(GameConformance):
    game = "mine/game"
"""

from potluck_envs.conformance.plan import Broken, Plan
from potluck_envs.conformance.suite import GameConformance

__all__ = ["Broken", "GameConformance", "Plan"]
