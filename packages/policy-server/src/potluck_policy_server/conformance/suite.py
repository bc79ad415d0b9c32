"""The checks as a test class: subclass it and say where your server listens."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from potluck_policy_server.conformance import adapters, answers, refusals, streams
from potluck_policy_server.conformance.peer import Plan
from potluck_policy_server.conformance.runner import Check, run_one


class PolicyConformance:
    """Every promise of a policy server, one test each. The server runs in a process of its own."""

    address: ClassVar[str]
    """host:port; a fixture of the class may set it."""
    plan: ClassVar[Plan] = Plan()
    """How much to ask."""

    def keeps(self, check: Check) -> None:
        """Raises Broken where the server does not keep a promise, Skipped where it need not."""
        asyncio.run(run_one(check, self.address, self.plan))

    def test_describes_itself(self) -> None:
        self.keeps(answers.describes_itself)

    def test_distributions_hold(self) -> None:
        self.keeps(answers.distributions_hold)

    def test_replies_name_their_makers(self) -> None:
        self.keeps(answers.replies_name_their_makers)

    def test_batches_answer_as_singles(self) -> None:
        self.keeps(answers.batches_answer_as_singles)

    def test_seeds_decide_samples(self) -> None:
        self.keeps(answers.seeds_decide_samples)

    def test_samples_follow_the_distribution(self) -> None:
        self.keeps(answers.samples_follow_the_distribution)

    def test_greedy_takes_the_best(self) -> None:
        self.keeps(answers.greedy_takes_the_best)

    def test_temperature_sharpens(self) -> None:
        self.keeps(answers.temperature_sharpens)

    def test_builtins_are_exact(self) -> None:
        self.keeps(answers.builtins_are_exact)

    def test_wrong_decisions_are_refused(self) -> None:
        self.keeps(refusals.wrong_decisions_are_refused)

    def test_unknown_names_are_refused(self) -> None:
        self.keeps(refusals.unknown_names_are_refused)

    def test_limits_hold(self) -> None:
        self.keeps(refusals.limits_hold)

    def test_goes_on_after_a_client_leaves(self) -> None:
        self.keeps(refusals.goes_on_after_a_client_leaves)

    def test_publishing_takes_effect(self) -> None:
        self.keeps(adapters.publishing_takes_effect)

    def test_versions_stay_apart(self) -> None:
        self.keeps(adapters.versions_stay_apart)

    def test_bad_uploads_are_refused(self) -> None:
        self.keeps(adapters.bad_uploads_are_refused)

    def test_leases_hold(self) -> None:
        self.keeps(adapters.leases_hold)

    def test_the_base_can_be_fetched(self) -> None:
        self.keeps(adapters.the_base_can_be_fetched)

    def test_streams_answer_as_calls(self) -> None:
        self.keeps(streams.streams_answer_as_calls)

    def test_streams_refuse_alone(self) -> None:
        self.keeps(streams.streams_refuse_alone)

    def test_streams_take_back(self) -> None:
        self.keeps(streams.streams_take_back)
