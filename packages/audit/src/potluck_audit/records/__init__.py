"""Run folders as the audit sees them: read by column name, never written."""

from potluck_audit.records.episode import DecisionRow, Episode, OptionRun
from potluck_audit.records.run import RunRecords, load_run

__all__ = ["DecisionRow", "Episode", "OptionRun", "RunRecords", "load_run"]
