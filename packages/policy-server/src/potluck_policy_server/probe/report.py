"""The probe of one backbone, from its name to the printed table."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from potluck_policy_server.backbones import registry
from potluck_policy_server.backbones.base import BackboneOptions
from potluck_policy_server.errors import InvalidRequest, Unsupported
from potluck_policy_server.probe.measure import NAMES, Measured, measure, recommend
from potluck_policy_server.probe.questions import SIZES, held_out

RULES = ("tabular", "uniform", "scripted")

log = logging.getLogger(__name__)


def probe(options: BackboneOptions, per_size: int, steps: int, rate: float, seed: int, most: int) -> dict[str, Any]:
    """Everything that was measured, as plain values."""
    if options.name in RULES:
        raise Unsupported(options.name, "be probed: it reads no labels")
    if not 2 <= most <= max(SIZES):
        raise InvalidRequest("largest", f"{most} is not between 2 and {max(SIZES)}")
    backbone: Any = registry.load(options)
    tests = held_out(seed, per_size, tuple(n for n in SIZES if n <= most))
    found: list[Measured] = []
    for scheme in backbone.description.label_schemes:
        found.append(measure(backbone, scheme, None, tests))
        if steps and hasattr(backbone, "folder"):
            from potluck_policy_server.probe.fit import fit

            adapter = fit(backbone, backbone.folder, scheme, steps, rate, seed)
            found.append(measure(backbone, scheme, adapter, tests))
    scheme, why = recommend(found)
    return {
        "backbone": options.name,
        "base_digest": backbone.description.base_digest,
        "parameters": backbone.description.parameters,
        "dtype": backbone.description.dtype,
        "questions_per_size": per_size,
        "fit_steps": steps,
        "found": [{**one._asdict(), "scheme": NAMES[one.scheme]} for one in found],
        "recommended": scheme,
        "why": why,
    }


def table(result: dict[str, Any]) -> str:
    """For people."""
    found: Sequence[dict[str, Any]] = result["found"]
    sizes = list(found[0]["right"])
    head = ["scheme", "", *(f"{n} items" for n in sizes), "skill", "prior", "mass", "dec/s"]
    rows = [["", "chance", *(f"{1 / n:.2f}" for n in sizes), "0.00", "", "", ""]]
    for one in found:
        state = f"after {result['fit_steps']} steps" if one["fitted"] else "frozen"
        shares = [f"{share:.2f}" for share in one["right"].values()]
        numbers = [f"{one['skill']:.2f}", f"{one['prior']:.2f}", f"{one['mass']:.3f}", f"{one['rate']:.1f}"]
        rows.append([one["scheme"], state, *shares, *numbers])
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [head, *rows]]
    likes = [f"{one['scheme']}, {'fitted' if one['fitted'] else 'frozen'}: favours {one['favourite']}" for one in found]
    title = f"{result['backbone']}: {result['parameters']:,} parameters, {result['dtype']}, right answers by menu size"
    return "\n".join([title, *lines, *likes, f"recommended labels: {result['recommended']}, because {result['why']}"])
