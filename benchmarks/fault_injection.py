"""How often does the audit find an injected error? Failures with known cause, located by exact replay.

Teams of the scripted greedy policy play Overcooked layouts through a real env and a real policy server. A layout's
horizon is just long enough for `--soups` soups (the latest delivery among pilot episodes and a little slack), so that a
lost delivery cannot be caught up. Into successful episodes one harmful choice of one agent is injected (see
potluck_audit.blame.faults), and the failures that follow are given to the search, which knows the record and the team's
policies but neither the fault nor the noise. Answers are scored exactly, beside constant, positional and random ones.

With `--runs` the teams are trained ones that sample their choices, each on its run's own layout: a harder case, since
one prefix leads to many endings. Runs must share one backbone.

Everything found is kept under `--out` as it comes, and a second start goes on where the first broke off.

    python benchmarks/fault_injection.py --failures 200
    python benchmarks/fault_injection.py --failures 12 --layouts cramped_room
    python benchmarks/fault_injection.py --failures 100 --runs runs/fc runs/ring --out runs/trained-faults
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from potluck.env.v1 import env_service_pb2 as env_pb
from potluck.play import EnvPool, EpisodeResult, EpisodeSpec, PlayOptions, PolicyClient, play
from potluck_audit.blame import Case, Located, LocateSettings, locate
from potluck_audit.blame.faults import Fault, FaultSettings, Tally, inject
from potluck_audit.blame.logs import failure_log
from potluck_audit.blame.trace import walk
from potluck_audit.counterfactual.adapters import held
from potluck_audit.counterfactual.seats import seats
from potluck_audit.foreign.baselines import baselines
from potluck_audit.foreign.log import FailureLog, Message
from potluck_audit.foreign.predictions import NOTHING, Prediction
from potluck_audit.foreign.score import Row, score
from potluck_audit.verdict.checkpoints import read_checkpoints

LAYOUTS = ("cramped_room", "asymmetric_advantages", "coordination_ring", "forced_coordination")
PILOT_HORIZON, PILOTS, MANY_PILOTS, SLACK = 200, 12, 40, 1
AT_ONCE = 10
STRETCH = 10
"""Failures of a layout before the next layout has its turn: what is there of a broken-off run is balanced."""
ARTIFACT_VERSION = 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layouts", nargs="+", default=list(LAYOUTS))
    parser.add_argument("--runs", nargs="+", type=Path, default=[], help="run folders whose last adapters play instead")
    parser.add_argument("--temperature", type=float, default=1.0, help="of the choices of --runs")
    parser.add_argument("--reach", type=float, default=1.0, help="share of pilot episodes that succeed in the horizon")
    parser.add_argument("--before", type=float, default=0.8, help="success before a fault is at least so likely")
    parser.add_argument("--after", type=float, default=0.2, help="success after a fault is at most so likely")
    parser.add_argument("--failures", type=int, default=200, help="injected failures in all, shared among the layouts")
    parser.add_argument("--soups", type=int, default=2, help="soups that make an episode a success")
    parser.add_argument("--continuations", type=int, default=8, help="plays of a prefix at first")
    parser.add_argument("--most", type=int, default=16, help="plays of a prefix next to the error at most")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/faults"))
    return parser.parse_args()


class Book:
    """Faults and answers on disk, one JSON object a line."""

    def __init__(self, out: Path, temperature: float) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self._temperature = temperature
        self._faults, self._answers, self._logs = out / "faults.jsonl", out / "answers.jsonl", out / "logs.jsonl"
        self.faults: dict[str, dict[str, Any]] = {one["name"]: one for one in _lines(self._faults)}
        self.answers: dict[str, dict[str, Any]] = {one["name"]: one for one in _lines(self._answers)}
        self.logs: dict[str, dict[str, Any]] = {one["name"]: one for one in _lines(self._logs)}

    def add_fault(self, layout: str, threshold: float, fault: Fault) -> None:
        case = fault.case
        line = {
            "name": case.episode_id, "layout": layout, "threshold": threshold, "agent": fault.agent,
            "decision": fault.decision, "boundary": fault.boundary, "step": fault.step, "index": fault.index,
            "was": asdict(fault.was), "injected": asdict(fault.injected), "before": fault.before, "after": fault.after,
            "team_return": case.team_return, "policies": dict(case.policies), "sample_seed": case.sample_seed,
            "recording": base64.b64encode(case.recording.SerializeToString(deterministic=True)).decode(),
        }  # fmt: skip
        self.faults[line["name"]] = line
        _append(self._faults, line)

    def add_answer(self, name: str, found: Located, index: int | None, log: FailureLog) -> None:
        line = {
            "name": name, "agent": found.error.agent if found.error else None, "index": index,
            "undecided": found.undecided, "scan": found.scan, "monotone": found.monotone,
            "certainty": found.error.certainty if found.error else None, "spent": asdict(found.spent),
            "better": asdict(found.error.better) if found.error and found.error.better else None,
            "gain": asdict(found.error.gain) if found.error and found.error.gain else None,
        }  # fmt: skip
        told = {"name": name, "question": log.question, "history": [list(message) for message in log.history]}
        self.logs[name] = told
        _append(self._logs, told)
        self.answers[name] = line
        _append(self._answers, line)

    def case(self, name: str) -> Case:
        line = self.faults[name]
        recording = env_pb.Recording.FromString(base64.b64decode(line["recording"]))
        return Case(
            name, recording, line["team_return"], line["policies"], line["sample_seed"], self._temperature, unit="soups"
        )

    def log(self, name: str) -> FailureLog:
        fault, told = self.faults[name], self.logs[name]
        history = [Message(*message) for message in told["history"]]
        return FailureLog(name, fault["layout"], told["question"], "", history, fault["agent"], fault["index"])


def _lines(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    found = []
    for line in file.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:  # a line that an interrupt cut short
            continue
    return found


def _append(file: Path, line: dict[str, Any]) -> None:
    with file.open("a") as sink:
        sink.write(json.dumps(line, allow_nan=False) + "\n")


class Team(NamedTuple):
    """Who plays a layout; policies are named as records do."""

    layout: str
    policies: Mapping[str, str]
    backbone: str = "uniform"
    run: Path | None = None

    def specs(self, seeds: Sequence[int], horizon: int) -> list[EpisodeSpec]:
        """One episode a seed."""
        policies = seats(self.policies, frozenset(self.policies), "noop").policies
        return [
            EpisodeSpec(
                f"{self.layout}-{seed}", f"overcooked/{self.layout}", seed, horizon, policies=policies, sample_seed=seed
            )
            for seed in seeds
        ]


def teams(options: argparse.Namespace) -> list[Team]:
    """Scripted ones, or those of the runs."""
    if not options.runs:
        return [Team(layout, dict.fromkeys(("agent_0", "agent_1"), "scripted")) for layout in options.layouts]
    found = []
    for run in options.runs:
        config = json.loads((run / "config.json").read_text())
        adapters = read_checkpoints(run)[-1].adapters
        found.append(Team(config["game"].partition("/")[2], adapters, config["backbone"], run))
    if len({team.backbone for team in found}) > 1 or len({team.layout for team in found}) < len(found):
        raise SystemExit("--runs: give runs of one backbone, each on a layout of its own")
    return found


def delivered_at(result: EpisodeResult, soups: int) -> int | None:
    """Steps after which that many soups are delivered."""
    total = 0.0
    for step in result.steps:
        total += step.reward
        if total >= soups:
            return step.step + 1
    return None


class Bench:
    """Servers and settings."""

    def __init__(self, envs: EnvPool, policy: PolicyClient, book: Book, options: argparse.Namespace) -> None:
        self._envs, self._policy, self._book, self._options = envs, policy, book, options
        self._play = PlayOptions(temperature=options.temperature)
        self.tally = Tally()

    async def horizon(self, team: Team) -> int | None:
        """Just long enough for the soups in a share of pilot episodes; None where the team does not get there."""
        reach = self._options.reach
        pilots = team.specs(range(50_000, 50_000 + (PILOTS if reach == 1 else MANY_PILOTS)), PILOT_HORIZON)
        results = await play(pilots, self._envs, self._policy, self._play)
        times = sorted(delivered_at(result, self._options.soups) or PILOT_HORIZON + 1 for result in results)
        enough = times[max(1, round(reach * len(times))) - 1]
        if enough > PILOT_HORIZON:
            print(f"{team.layout}: the team does not deliver {self._options.soups} soups often enough; left out")
            return None
        print(f"{team.layout}: horizon {enough + SLACK}", flush=True)
        return enough + SLACK

    async def answers(self, layout: str) -> None:
        """Locates what is not answered yet."""
        names = [name for name, fault in self._book.faults.items() if fault["layout"] == layout]
        turn = asyncio.Semaphore(AT_ONCE)

        async def one(name: str) -> None:
            async with turn:
                await self.answer(name)

        await asyncio.gather(*(one(name) for name in names if name not in self._book.answers))
        print(f"{layout}: {len(names)} failures answered", flush=True)

    async def faults(self, team: Team, wanted: int, horizon: int) -> None:
        """Injects until there are enough."""
        layout = team.layout
        have = sum(fault["layout"] == layout for fault in self._book.faults.values())
        for seed in range(self._options.seed * 1000, self._options.seed * 1000 + 1000):
            if have >= wanted:
                return
            if any(f"{layout}-{seed}-fault-" in name for name in self._book.faults):
                continue
            [reference] = await play(team.specs([seed], horizon), self._envs, self._policy, self._play)
            if reference.finished.team_return < self._options.soups:
                continue
            case = Case(
                reference.spec.episode_id, reference.finished.recording, reference.finished.team_return,
                team.policies, seed, temperature=self._options.temperature, unit="soups",
            )  # fmt: skip
            chosen = self._options
            settings = FaultSettings(chosen.soups, before=chosen.before, after=chosen.after, seed=chosen.seed)
            trace = await walk(case, self._envs)
            for fault in await inject(case, trace, self._envs, self._policy, settings, self.tally):
                if have < wanted:
                    self._book.add_fault(layout, self._options.soups, fault)
                    have += 1

    async def answer(self, name: str) -> None:
        """Locates one failure's error."""
        case = self._book.case(name)
        settings = LocateSettings(
            self._options.soups, continuations=self._options.continuations, most=self._options.most, checkpoints=5
        )
        found = await locate(case, self._envs, self._policy, settings)
        trace = await walk(case, self._envs)
        index = trace.order.index((found.error.boundary, found.error.agent)) if found.error else None
        log = failure_log(case, trace, self._options.soups)
        self._book.add_answer(name, found, index, log)


async def run(options: argparse.Namespace) -> Book:
    """Injects and locates what is not there yet."""
    from potluck_envs.server import env_server
    from potluck_policy_server import serving
    from potluck_policy_server.backbones import registry
    from potluck_policy_server.backbones.base import BackboneOptions

    book, playing = Book(options.out, options.temperature), teams(options)
    async with AsyncExitStack() as stack:
        env = await stack.enter_async_context(env_server(workers=options.workers))
        backbone = registry.load(BackboneOptions(playing[0].backbone))
        served, _ = await stack.enter_async_context(serving.started(backbone))
        envs = await stack.enter_async_context(EnvPool([env.address]))
        policy = await stack.enter_async_context(PolicyClient(served.address))
        for team in playing:
            if team.run:
                digests = {digest: agent for agent, digest in team.policies.items()}
                await stack.enter_async_context(held(policy, digests, team.run))
        bench = Bench(envs, policy, book, options)
        able = [(team, horizon) for team in playing if (horizon := await bench.horizon(team))]
        share = -(-options.failures // max(1, len(able)))
        for goal in (*range(STRETCH, share, STRETCH), share):
            for team, horizon in able:
                await bench.faults(team, goal, horizon)
                await bench.answers(team.layout)
        print(f"tried {asdict(bench.tally)}")
    return book


def table(book: Book) -> dict[str, Any]:
    """Accuracy of the search and of the baselines, over all failures and by layout."""
    groups: dict[str, list[FailureLog]] = {"all": []}
    for name in book.answers:
        log = book.log(name)
        groups["all"].append(log)
        groups.setdefault(log.group, []).append(log)
    found = {}
    for group, logs in groups.items():
        given = {log.name: _prediction(book.answers[log.name]) for log in logs}
        found[group] = [score("exact replay", logs, given), *baselines(logs)]
    return found


def _prediction(answer: dict[str, Any]) -> Prediction:
    return NOTHING if answer["agent"] is None else Prediction(answer["agent"], answer["index"])


def show(name: str, rows: Sequence[Row]) -> None:
    print(f"\n{name}: {rows[0].logs} injected failures")
    print(f"{'method':26} {'agent %':>20} {'step %':>20} {'±1':>6} {'±2':>6} {'±5':>6}")
    for row in rows:
        shares = " ".join(f"{100 * (row.within[k].value or 0):6.1f}" for k in (1, 2, 5))
        print(f"{row.method:26} {_span(row.agent):>20} {_span(row.step):>20} {shares}")


def _span(estimate: Any) -> str:
    value, low, high, _ = estimate
    return "-" if value is None else f"{100 * value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def main() -> None:
    """Runs, prints and writes the table."""
    options = arguments()
    began = time.process_time()
    book = asyncio.run(run(options))
    if not book.answers:
        return
    rows = table(book)
    for name, group in rows.items():
        show(name, group)
    answers = list(book.answers.values())
    undecided = Counter(answer["undecided"] for answer in answers if answer["undecided"])
    branches = sum(answer["spent"]["branches"] for answer in answers) / len(answers)
    decisions = sum(answer["spent"]["decisions"] for answer in answers) / len(answers)
    print(f"\nundecided: {dict(undecided) or 'none'}; scans: {dict(Counter(a['scan'] for a in answers))}")
    print(f"cost of one answer: {branches:.0f} branches, {decisions:.0f} decisions")
    print(f"this process: {time.process_time() - began:.0f} s of CPU")
    written = {
        "version": ARTIFACT_VERSION,
        "undecided": undecided,
        "groups": {name: [asdict(row) for row in group] for name, group in rows.items()},
    }
    (options.out / "table.json").write_text(json.dumps(written, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
