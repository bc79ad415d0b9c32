"""Where the CPU time of the packed engine goes, by wrapping its parts with clocks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from potluck.decoder import layers, weights
from potluck_policy_server.lm import packed
from potluck_policy_server.lm.caches import Beginnings
from potluck_policy_server.lm.scoring import Head

PARTS = (
    (weights.Matrix, "product", "base products"),
    (weights, "add_delta", "LoRA"),
    (packed, "attend", "attention"),
    (layers, "norm", "norms"),
    (layers, "_turn", "rotary positions"),
    (packed.PackedDecoder, "_batch", "layout of the batch"),
    (layers.functional, "silu", "gating"),
    (Head, "log_total", "head, whole vocabulary"),
    (Head, "logits", "head, labels"),
    (Beginnings, "find", "reuse: look up"),
    (Beginnings, "keep", "reuse: remember"),
)


class Profile:
    """CPU seconds by part; a part inside another counts for itself only, LoRA's and the head's products excepted."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._inner: list[list[Any]] = []
        self._undo: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> Profile:
        for owner, name, part in PARTS:
            honest = getattr(owner, name)
            self._undo.append((owner, name, honest))
            setattr(owner, name, self.timed(honest, part))
        return self

    def __exit__(self, *_: object) -> None:
        for owner, name, honest in self._undo:
            setattr(owner, name, honest)

    def timed(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        """The function, timed under the part's name."""

        def run(*args: Any, **kwargs: Any) -> Any:
            whole = part == "base products" and any(outer[0].startswith(("LoRA", "head")) for outer in self._inner)
            if whole:
                return function(*args, **kwargs)
            self._inner.append([part, 0.0])
            began = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                took = time.process_time() - began
                _, inside = self._inner.pop()
                self.spent[part] = self.spent.get(part, 0.0) + took - inside
                if self._inner:
                    self._inner[-1][1] += took

        return run

    def table(self, total: float) -> str:
        """Shares of a total of CPU seconds, largest first."""
        rows = sorted(self.spent.items(), key=lambda item: -item[1])
        rows.append(("rest: residuals, Python, label tries", total - sum(self.spent.values())))
        return "\n".join(f"  {share / total:>6.1%}  {part}" for part, share in rows)
