"""`potluck-optionlib remine`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from potluck_optionlib.burnin import Burnin, BurninPlan
from potluck_optionlib.commands.console import say
from potluck_optionlib.commands.files import check_output, named_library, write_text
from potluck_optionlib.commands.play import play
from potluck_optionlib.errors import NoCertificateError
from potluck_optionlib.guards import GuardLibrary
from potluck_optionlib.mining import mine


def replay(library: GuardLibrary) -> list[Burnin]:
    """Plays again the burn-ins that a library's certificate names."""
    if library.certificate is None:
        raise NoCertificateError(
            "The library has no certificate, so nothing says how it was mined. Run `potluck-optionlib burnin` and "
            "`potluck-optionlib mine`."
        )
    return [
        play(ref.game, BurninPlan(ref.solo_episodes, ref.team_episodes, ref.seed, ref.horizon))
        for ref in library.certificate.burnins
    ]


@dataclass(frozen=True)
class RemineCommand:
    """Mines a game's shipped library again from the plan in its certificate; exit code 1 if a byte differs."""

    game: tyro.conf.Positional[str]
    """Full name."""
    library: Path | None = None
    """Another library than the shipped one."""
    out: Path | None = None
    """Where to write the result."""

    def run(self) -> None:
        if self.out is not None:
            check_output(self.out)
        library, text = named_library(self.game, self.library, check_digest=False)
        burnins = replay(library)
        assert library.certificate is not None
        again = mine(burnins, library.certificate.min_support)
        if self.out is not None:
            write_text(self.out, again.dump())
        if again.dump() != text:
            guards = "the guards too" if again.rules_digest != library.rules_digest else "not the guards themselves"
            say(f"{self.game}: mined again it differs ({guards}): {len(again.guards)} guards, digest {again.digest}")
            raise SystemExit(1)
        say(f"{self.game}: the same bytes, {len(again.guards)} guards, digest {again.digest}")
