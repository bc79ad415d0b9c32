"""Takes the Python module out of a model's reply: the one fenced block, or the only one that defines `contracts`."""

from __future__ import annotations

import re

from potluck_optionlib.drafting.endpoints import Reply
from potluck_optionlib.drafting.findings import Finding, Stage

_FENCE = re.compile(
    r"^(?P<fence>`{3,}|~{3,})[ \t]*(?P<tag>[\w+-]*)[^\n]*\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL
)
_OPEN = re.compile(r"^(?:`{3,}|~{3,})[ \t]*[\w+-]*[^\n]*\n", re.MULTILINE)
_TAGS = ("python", "py", "python3", "")
_DEFINES = re.compile(r"^def contracts\(", re.MULTILINE)


def extract(reply: Reply) -> str | Finding:
    """The module's source, or why there is none."""
    if reply.refused:
        return _fault("refused", f"the model declined to answer ({reply.finish}): {reply.text[:300]!r}")
    if reply.truncated:
        return _fault(
            "truncated",
            f"the reply was cut off after {reply.output_tokens} tokens ({reply.finish}), so the module is incomplete. "
            "Answer with the module alone and keep it shorter, or raise --max-tokens.",
        )
    blocks = [match["body"] for match in _FENCE.finditer(reply.text) if match["tag"].lower() in _TAGS]
    chosen = [block for block in blocks if _DEFINES.search(block)] if len(blocks) > 1 else blocks
    if len(chosen) == 1:
        return chosen[0]
    if not blocks:
        unclosed = " (a fence is opened and never closed)" if _OPEN.search(reply.text) else ""
        return _fault("no_module", f"the reply holds no fenced Python block{unclosed}. Put the module into one.")
    return _fault(
        "several_modules",
        f"the reply holds {len(blocks)} Python blocks, {len(chosen)} of them with `def contracts(`. "
        "Put the whole module into exactly one.",
    )


def _fault(kind: str, evidence: str) -> Finding:
    return Finding(stage=Stage.REPLY, kind=kind, evidence=evidence)
