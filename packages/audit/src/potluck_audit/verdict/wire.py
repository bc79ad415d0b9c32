"""A run's verdict on the wire."""

from __future__ import annotations

from potluck.audit.v1 import audit_service_pb2 as pb
from potluck_audit.results import metric_message
from potluck_audit.verdict.verdict import Decoupling


def decoupling_message(found: Decoupling) -> pb.Decoupling:
    """What is undefined stays absent."""
    return pb.Decoupling(
        outcome=found.outcome.value,
        reason=found.reason,
        checkpoints=[
            pb.CheckpointVerdict(round=one.round, verdict=one.verdict.value, reason=one.reason, baseline=one.baseline)
            for one in found.checkpoints
        ],
        comparisons=[
            pb.Comparison(
                round=one.round,
                measure=one.measure,
                reward=metric_message(one.reward),
                change=metric_message(one.change),
                p_value=one.p_value,
                p_holm=one.p_holm,
            )
            for one in found.comparisons
        ],
    )
