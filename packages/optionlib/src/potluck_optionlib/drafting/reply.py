"""Takes the Python module out of a model's reply: the one fenced block, or the only one that defines `contracts`.

The reply is read line by line, once, so that its length alone decides what reading it costs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from potluck_optionlib.drafting.endpoints import Reply
from potluck_optionlib.drafting.findings import Finding, Stage

MAX_CHARACTERS = 1_000_000
_MARKS = ("`", "~")
_TAG = re.compile(r"[ \t]*([\w+-]*)")
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
    if len(reply.text) > MAX_CHARACTERS:
        return _fault("too_long", f"the reply has {len(reply.text)} characters, at most {MAX_CHARACTERS} are read.")
    fenced, unclosed = _fenced(reply.text)
    blocks = [block.body() for block in fenced if block.tag.lower() in _TAGS]
    chosen = [block for block in blocks if _DEFINES.search(block)] if len(blocks) > 1 else blocks
    if len(chosen) == 1:
        return chosen[0]
    if not blocks:
        why = " (a fence is opened and never closed)" if unclosed else ""
        return _fault("no_module", f"the reply holds no fenced Python block{why}. Put the module into one.")
    return _fault(
        "several_modules",
        f"the reply holds {len(blocks)} Python blocks, {len(chosen)} of them with `def contracts(`. "
        "Put the whole module into exactly one.",
    )


@dataclass(slots=True)
class _Block:
    fence: str
    tag: str
    lines: list[str] = field(default_factory=list)

    def body(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)


def _fenced(text: str) -> tuple[list[_Block], bool]:
    """The closed blocks, and whether the last fence stays open. The fence that opened a block closes it, alone."""
    closed: list[_Block] = []
    block: _Block | None = None
    for line in text.split("\n"):
        fence = line[: len(line) - len(line.lstrip(line[0]))] if line.startswith(_MARKS) else ""
        if block is not None:
            if line.rstrip(" \t\r") == block.fence:
                closed.append(block)
                block = None
            else:
                block.lines.append(line)
        elif len(fence) >= 3:
            tag = _TAG.match(line, len(fence))
            block = _Block(fence, tag[1] if tag else "")
    return closed, block is not None


def _fault(kind: str, evidence: str) -> Finding:
    return Finding(stage=Stage.REPLY, kind=kind, evidence=evidence)
