"""Numbers that the paper prints, for the places where ours are set beside them.

Source: Mao & Perrault, "Training Small LLMs as Spatial Multi-Agent Policies", arXiv:2608.01425v1, figures 1 and 2,
tables 1 and 2 and the text beside them. They are of other backbones, menus and seeds than ours: beside each other the
shapes can be compared, not the amounts.
"""

from __future__ import annotations

from collections.abc import Mapping

AA_SHARES: Mapping[str, tuple[float, float]] = {
    "pick_onion": (0.3342, 0.0522),
    "place_in_pot": (0.3558, 0.0384),
    "start_cooking": (0.0612, 0.0531),
    "pick_dish": (0.0436, 0.0372),
    "plate_soup": (0.0591, 0.0667),
    "deliver": (0.0418, 0.0358),
    "drop_held": (0.0, 0.0),
    "pick_from_counter": (0.0, 0.0),
    "wait": (0.1043, 0.7166),
}
"""Figure 1, Asymmetric Advantages: share of each agent's own decisions."""

AA_DIVERGENCE, AA_DIVERGENCE_WITHOUT_WAIT = 0.375, 0.157
"""Jensen-Shannon divergence in bits, computed from figure 1."""

AA_TEAM, AA_SOLO = (6.2, 6.8), (4.0, 2.0)
FC_TEAM, FC_SOLO = 7.57, (0.0, 0.0)

HARVEST_BASE = {40: 4.75, 80: 1.85, 120: 0.6, 160: 0.2, 205: 0.0}
HARVEST_TUNED = {
    40: 5.4, 80: 4.6, 120: 4.25, 160: 4.0, 200: 3.3, 240: 3.1, 280: 2.95, 320: 2.85, 360: 2.65, 400: 2.55,
}  # fmt: skip
"""Figure 2: patches alive of 6, by step; the base chooses from the same menus without training."""

CLEANUP_ROLES = "three eaters of 57 to 60 apples each, three cleaners of 0, one agent that hardly moves"
CLEANUP_TEAM = 93.25
