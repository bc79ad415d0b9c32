"""What every policy server promises, as checks over the wire: for `potluck-policy conform` and as a test class.

from potluck_policy_server.conformance import PolicyConformance

class TestMyServer(PolicyConformance):
    address = "127.0.0.1:7002"

The checks know nothing of how a server is made: any program that speaks potluck.policy.v1 can be asked.
"""

from potluck_policy_server.conformance.peer import Broken, Peer, Plan, Skipped
from potluck_policy_server.conformance.suite import PolicyConformance

__all__ = ["Broken", "Peer", "Plan", "PolicyConformance", "Skipped"]
