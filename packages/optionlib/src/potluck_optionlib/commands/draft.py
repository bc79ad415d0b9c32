"""`potluck-optionlib draft`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import tyro
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from potluck_optionlib.commands.console import ERRORS, say
from potluck_optionlib.drafting.conversation import first_request, read_sources, rules
from potluck_optionlib.drafting.endpoints import connect
from potluck_optionlib.drafting.errors import DraftError
from potluck_optionlib.drafting.loop import Drafted, draft
from potluck_optionlib.drafting.settings import Endpoint, Limits, Play, Provider, Settings
from potluck_optionlib.games import draft_notes


@dataclass(frozen=True)
class DraftCommand:
    """Lets a language model draft a game's option contracts, plays them and sends faults back with the evidence.

    The key is read from OPENAI_API_KEY or ANTHROPIC_API_KEY. Exit status 0 means that nothing was found against the
    last version, 1 that faults are left, 2 that the draft could not be made.
    """

    game: tyro.conf.Positional[str]
    """Full name, e.g. overcooked/asymmetric_advantages."""
    game_source: tuple[Path, ...]
    """Files (or folders of Python files) with the game's rules. All of it is sent to the endpoint."""
    model: str
    """The model's name at its endpoint."""
    out: Path
    """Folder for every prompt, reply, version and report; an interrupted draft goes on from it."""
    provider: Literal["openai", "anthropic"] | None = None
    """Protocol of the endpoint; by itself anthropic for models called claude-*, without --base-url, else openai."""
    base_url: str | None = None
    """Address of the endpoint, e.g. http://localhost:8000/v1 for a local server."""
    repairs: int = 3
    """Replies asked for after the first one, at most."""
    max_tokens: int = 32_000
    """Longest reply in tokens."""
    temperature: float | None = None
    """Sent only if given."""
    timeout_s: float = 900.0
    """Seconds for one reply."""
    attempts: int = 5
    """Calls for one reply at most, where the endpoint is busy (429) or fails (5xx)."""
    longest_wait_s: float = 300.0
    """Longest pause between two attempts."""
    solo_episodes: int = 100
    """Burn-in episodes with every partner a no-op."""
    team_episodes: int = 100
    """Burn-in episodes with all seats playing."""
    horizon: int = 400
    """Primitive steps an episode."""
    seed: int = 0
    """Of the burn-in."""
    limits: Limits = field(default_factory=Limits)
    """What the process that runs the module may use."""
    dry_run: bool = False
    """Print what would be sent first, send nothing."""

    def run(self) -> None:
        settings = self._settings()
        sources = read_sources(self.game_source)
        if self.dry_run:
            first = first_request(self.game, draft_notes(self.game), sources)
            say(f"# system\n{rules()}\n# user\n{first}")
            return
        endpoint = settings.endpoint
        client = connect(endpoint)
        size = sum(len(source.text) for source in sources)
        whom = f"{endpoint.model} at {client.address} ({endpoint.provider})"
        _tell(f"{self.game}: {len(sources)} files, {size} characters, to {whom}")
        with _bar() as bar:
            task = bar.add_task("burn-in", total=None, visible=False)
            drafted = draft(
                settings,
                sources,
                client,
                self.out,
                _tell,
                lambda done, total: bar.update(task, completed=done, total=total, visible=done < total),
            )
        _show(drafted)
        if not drafted.report.clean:
            raise SystemExit(1)

    def _settings(self) -> Settings:
        claude = self.model.startswith("claude") and self.base_url is None
        provider = Provider(self.provider or ("anthropic" if claude else "openai"))
        try:
            return Settings(
                game=self.game,
                endpoint=Endpoint(
                    provider=provider,
                    model=self.model,
                    base_url=self.base_url,
                    max_tokens=self.max_tokens,
                    temperature=self.temperature,
                    timeout_s=self.timeout_s,
                    attempts=self.attempts,
                    longest_wait_s=self.longest_wait_s,
                ),
                repairs=self.repairs,
                limits=self.limits,
                play=Play(
                    solo_episodes=self.solo_episodes,
                    team_episodes=self.team_episodes,
                    horizon=self.horizon,
                    seed=self.seed,
                ),
            )
        except ValidationError as error:
            first = error.errors()[0]
            name = "-".join(str(part) for part in first["loc"][-1:]).replace("_", "-")
            raise DraftError(f"--{name}: {first['msg']}.") from error


def _show(drafted: Drafted) -> None:
    report = drafted.report
    console = Console()
    if report.findings:
        table = Table("stage", "kind", "option", "evidence", title=f"left in version {report.version}")
        for finding in report.findings:
            counts = ", ".join(f"{name} {count}" for name, count in finding.counts.items())
            evidence = finding.evidence + (f" ({counts})" if counts else "")
            table.add_row(finding.stage.value, finding.kind, finding.option, evidence)
        console.print(table)
    else:
        options = ", ".join(str(contract["name"]) for contract in report.contracts)
        console.print(f"version {report.version} is clean: {options}", highlight=False)
    if report.records:
        console.print(f"{report.records} records, {len(report.guards)} guards, digest {report.library_digest[:12]}")
    tokens = f"{drafted.input_tokens} tokens sent, {drafted.output_tokens} received"
    console.print(f"{drafted.replies} replies, {tokens}", highlight=False)
    console.print(f"{drafted.folder}", highlight=False, soft_wrap=True)


def _bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=ERRORS, disable=not ERRORS.is_terminal)


def _tell(line: str) -> None:
    ERRORS.print(line, highlight=False, soft_wrap=True)
