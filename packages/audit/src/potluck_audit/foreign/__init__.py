"""Failure logs of other systems: read, judged by prompted models, scored exactly beside constant baselines.

A log is a conversation of several agents that failed, with a person's label of who made the decisive mistake and at
which step. Nothing here needs a run of Potluck.
"""

from potluck_audit.foreign.log import FailureLog, Message
from potluck_audit.foreign.predictions import Prediction
from potluck_audit.foreign.score import Row, score
from potluck_audit.foreign.whowhen import read_folder, read_log

__all__ = ["FailureLog", "Message", "Prediction", "Row", "read_folder", "read_log", "score"]
