"""What is known about one version of a drafted library after it was judged."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from potluck_optionlib.drafting.findings import Finding
from potluck_optionlib.drafting.messages import OutcomeRow


class Report(BaseModel):
    """Kept as report.json beside the version."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int
    findings: tuple[Finding, ...]
    contracts: tuple[dict[str, object], ...] = ()
    contracts_digest: str = ""
    burnin_digest: str = ""
    records: int = 0
    outcomes: tuple[OutcomeRow, ...] = ()
    library_digest: str = ""
    guards: tuple[str, ...] = ()
    """Each guard as a line."""

    @property
    def clean(self) -> bool:
        """Nothing was found."""
        return not self.findings
