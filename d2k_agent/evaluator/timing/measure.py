"""The supervisor's side of timing one workload in one process: draws, flags, its own clock, the audit, the outputs.

Between timed segments new contents come to the same addresses and the outputs of the last segment are poisoned. After
each, outputs of sets chosen then are compared with their references, and either the inputs are taken away at once, so
that work put off until now cannot be done any more, or they are compared with what was lent. State that calls change is
restored between segments, never within one: what a segment leaves must be what as many calls as it claims leave.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Self

import torch

from d2k_agent.contract import Check, Limits, Measurement
from d2k_agent.evaluator.checks.calls import Calls
from d2k_agent.evaluator.devices import Device, Lent
from d2k_agent.evaluator.evidence import Observed, own_launches
from d2k_agent.evaluator.foreign import broken_rule
from d2k_agent.evaluator.process import CandidateProcess
from d2k_agent.evaluator.ranges import Kind, span
from d2k_agent.evaluator.task import LoadedTask, derive
from d2k_agent.evaluator.timing import policy as rules
from d2k_agent.evaluator.timing.audit import Audit
from d2k_agent.evaluator.timing.graph import irregular, kernels_of
from d2k_agent.evaluator.timing.pieces import TimedPieces
from d2k_agent.evaluator.timing.segment import (
    LEAST_LASTING,
    Segment,
    Timed,
    mean_of,
    median_of,
    short_suspicion,
    spread_of,
    wall_suspicion,
)

VERIFIED_SETS = 3
"""Sets whose outputs are compared after a segment; which ones, nobody can know before."""
REFRESHED_SETS = 9
"""Sets that get new contents before a segment or an audited step, where there are more."""
HOT_SEGMENTS = 3
MOST_AT_IT = 4
"""A piece that was much shorter than it should be is asked for again, so often in all."""


class WrongAnswer(Exception):
    """An output of the timed process is wrong: `checks` say which."""

    def __init__(self, checks: list[Check]) -> None:
        super().__init__("an output of timed work is wrong")
        self.checks = checks


class WorkloadTimer:
    """Times run() of one process on one workload. A context manager: the lent memory is given back at its end.

    Every method raises CandidateFault where the process fails, and WrongAnswer.
    """

    _checker: type[Calls] = Calls

    def __init__(
        self,
        task: LoadedTask,
        device: Device,
        process: CandidateProcess,
        workload: dict[str, Any],
        seed: str,
        limits: Limits,
        progress: Callable[[str], None],
        trusted: bool = False,
    ) -> None:
        self._task, self._device, self._process, self._workload = task, device, process, workload
        self._seed, self._limits, self._progress = seed, self._bounded(limits), progress
        self._policy = task.timing(workload["label"])
        self._calls = self._checker(task, device, process, self._limits, trusted)
        self._draws = 0
        self._sets: list[Lent] = []
        self._pieces = TimedPieces(process, device, self._limits, workload["label"], task.ranks)
        self._graph_calls = 0
        self._digest: str | None = None
        self.own: frozenset[str] | None = None
        """The names of the kernels that captured work may hold, beside glue; None: any."""
        self.checks: list[Check] = []
        self._around = ExitStack()

    def __enter__(self) -> Self:
        self._around.enter_context(span("workload", self._label))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._calls.detach(failed=kind is not None and kind is not WrongAnswer)
        for lent in self._sets:
            lent.close()
        self._pieces.close()
        self._device.trim()
        self._around.close()

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of first calls ("tuning") and of timed ones ("timed")."""
        return {"tuning": self._calls.tuning_s, "timed": self._pieces.timed_s}

    @property
    def peak_memory_bytes(self) -> int | None:
        """The most bytes of tensors alive in the metered call."""
        return self._calls.peak_memory_bytes

    def prepare(self, checked: bool = True) -> None:
        """Lend as many sets as the policy asks for, let the process compile and tune, and check one metered call.

        Without `checked` that call is left out: the same process was checked before on the same workload.
        """
        self._progress(f"checking {self._label}" if checked else f"preparing {self._label}")
        arguments = self._draw()
        headers = self._task.headers.get(self._label)
        expected = self._task.expected(arguments) if checked or headers is None else None
        if headers is None:
            assert expected is not None
            headers = self._task.headers[self._label] = expected.headers
        tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
        sizes = sum(tensor.nbytes for tensor in tensors), sum(header.nbytes for header in headers)
        state = [item.position for item in self._task.mutated]
        self._sets.append(self._device.lend(arguments, headers, state))
        for _ in range(rules.sets_on(self._device, sizes) - 1):
            self._sets.append(self._device.lend(self._draw(), headers, state))
        # Where the checked call's set stands, nobody can know: calls on others are not told from it by their place.
        place = secrets.randbelow(len(self._sets))
        self._sets[0], self._sets[place] = self._sets[place], self._sets[0]
        self._calls.attach(self._sets)
        self._pieces.share_page()
        with span("warm-up", self._label):
            self._calls.warm_up(self._label, self._sets[0])
        if checked:
            assert expected is not None
            lent, limit_s = self._sets[place], self._limits.call_s
            self._accept(self._calls.checked(self._label, self._workload, lent, expected, limit_s, place))

    def measure(self, audited: bool = True) -> Timed:
        """The latency. Without `audited` its audit is left out: the same process was audited before."""
        suspicions = self._size_graphs() if self._policy.graph else {}
        self._pieces.loads.clear()
        hot_ms = self._hot() if self._policy.graph and audited else None
        suspicions |= self._captured(len(self._sets), self._graph_calls) if self._policy.graph else {}
        self._progress(f"timing {self._label}")
        self._warm_up()
        inspected = secrets.randbelow(self._policy.segments)
        segments = [self._verified(inspect=number == inspected) for number in range(self._policy.segments)]
        suspicions |= wall_suspicion(segments, self._policy.wall) | short_suspicion(segments, self._policy.segment_s)
        audit = Audit(self._label, self._policy)
        if audited and not suspicions:  # how long an audited step takes is reckoned from the claim
            self._progress(f"auditing {self._label}")
            suspicions = self._audited(audit, segments)
        calls = sum(segment.calls for segment in segments)
        measurement = Measurement(
            mean_ms=mean_of(segments),
            calls=calls,
            batches=len(segments),
            outside_ms=sum(segment.wall_ms for segment in segments) / calls,
            policy=self._policy.id,
            audit_ms=audit.mean_ms,
            hot_ms=hot_ms,
            sets=len(self._sets),
            sm_mhz=median_of([load.sm_mhz for load in self._pieces.loads]),
            power_w=median_of([load.power_w for load in self._pieces.loads]),
        )
        return Timed(measurement, self.checks, suspicions, spread_of(segments))

    def observe(self, own: frozenset[str]) -> dict[str, int] | None:
        """Launches of its `own` kernels in one more call, which is not timed; None where they cannot be read.

        Raises CandidateFault where anything else computes, there or in a metered one of the timed calls, and
        WrongAnswer where one held or copied more than the task allows."""
        observed = Observed.read(self._pieces.ask({"do": "observe", "set": secrets.randbelow(len(self._sets))}, b"A"))
        if observed.foreign:
            raise broken_rule(observed.foreign)
        bounds = self._calls.bounds(self._workload, observed.peak_bytes, observed.copied_bytes)
        self._accept([check for check in bounds if not check.passed])
        return None if observed.kernels is None else own_launches(observed.kernels, own, self._label)

    def _bounded(self, limits: Limits) -> Limits:
        """The bounds of calls, as they are for what is timed."""
        return limits

    @property
    def _label(self) -> str:
        return str(self._workload["label"])

    def _draw(self) -> list[Any]:
        self._draws += 1
        seed = derive(self._seed, self._label, "timed", self._draws)
        return self._task.arguments(self._workload, seed, self._device.name)

    def _refresh_some(self) -> None:
        """New contents for a few sets that nobody can know before."""
        self._refresh(self._choose(len(self._sets), REFRESHED_SETS))

    def _refresh(self, chosen: Sequence[int], anew: bool = True) -> None:
        """New contents for the chosen sets, and poisoned outputs; or the same contents written again.

        Then whatever else calls left stays as well, as in a batch. The state of all sets is as before any call.
        """
        for lent in self._sets:
            lent.restore()
        for index in chosen:
            if anew:
                self._sets[index].refresh(self._draw())
            else:
                self._sets[index].rewrite()
        if anew:
            self._pieces.ask({"do": "poison"}, b"A")
        self._device.settle()

    def _segment(self, seconds: float, kind: Kind = "batch") -> Segment:
        """One piece of timed work of about `seconds`, between the supervisor's own two looks at its clock."""
        with span(kind, self._label):
            if self._policy.graph:
                return self._pieces.replays(seconds)
            return self._pieces.batch(seconds, len(self._sets))

    def _verified(self, inspect: bool) -> Segment:
        """A segment on new contents, after which it is compared what it left."""
        for _ in range(MOST_AT_IT):
            self._refresh_some()
            segment = self._segment(self._policy.segment_s)
            # Trusted code is verified as well: without these pauses it would be timed on a hotter, slower GPU.
            self._verify(segment.calls, inspect)
            if not short_suspicion([segment], self._policy.segment_s):
                break
        return segment

    def _warm_up(self) -> None:
        """Timed work that nobody looks at, until the GPU has the clock that it keeps."""
        lasted_ms = 0.0
        for _ in range(MOST_AT_IT):
            lasted_ms += self._segment(self._policy.warm_s, "warm-up").wall_ms
            if lasted_ms >= LEAST_LASTING * 1e3 * self._policy.warm_s:
                break

    def _size_graphs(self) -> dict[str, str]:
        """Settle how many calls a graph holds: whole rounds over the sets, no longer than a segment, at least one."""
        sets = len(self._sets)
        suspicions = self._captured(sets, sets)
        with span("warm-up", self._label):
            round_ms = self._pieces.replay_ms()
        lasting = sets * 1e3 * self._policy.segment_s / round_ms
        self._graph_calls = rules.graph_calls(min(self._policy.graph_calls, lasting), sets)
        return suspicions

    def _captured(self, sets: int, calls: int) -> dict[str, str]:
        """Have a graph captured, and say how it is not the same call again and again."""
        told = kernels_of(lambda: self._pieces.capture(sets, calls), self._label)
        if self.own is not None and told.names:
            own_launches(told.names, self.own, self._label)
        wrong = irregular(told, calls, self._digest)
        self._digest = self._digest or told.digest
        return {"timing.graph": f"captured work on {self._label} is not one call, repeated: {wrong}"} if wrong else {}

    def _hot(self) -> float:
        """Milliseconds a call with one set, all of it in the cache that fits."""
        self._captured(1, self._graph_calls)
        self._warm_up()
        segments = [self._segment(self._policy.segment_s) for _ in range(HOT_SEGMENTS)]
        return sum(item.claim_ms for item in segments) / sum(item.calls for item in segments)

    def _verify(self, calls: int, inspect: bool, most: int | None = None) -> None:
        """Compare what the last calls left on sets chosen now with their references; `most`: on the first sets only."""
        used = self._sets[:most]
        if inspect:
            self._accept([check for lent in used for check in self._calls.unchanged(lent)])
        else:
            for lent in used:
                lent.withdraw()
            self._device.settle()
        # A graph keeps the outputs of one round of its own; else those of the last calls are there.
        visited = len(used) if self._policy.graph else min(calls, len(used))
        for back in self._choose(visited, VERIFIED_SETS):
            index = (self._pieces.first + calls - 1 - back) % len(used)
            lent = used[index]
            visits = calls // len(used) + ((index - self._pieces.first) % len(used) < calls % len(used))
            expected = self._task.expected(lent.arguments)
            self._accept(self._calls.given(index, lent, expected, visits, self._limits.gpu_call_s))
        if not inspect:
            for lent in used:
                lent.rewrite()

    def _audited(self, audit: Audit, segments: list[Segment]) -> dict[str, str]:
        """What its two kinds of steps say against the claim."""
        timed = len(segments)
        self._in_lockstep(audit, mean_of(segments))
        suspicions = self._unexplained(audit, segments, timed)
        if not suspicions:
            self._compare_contents(audit)
            suspicions = self._unexplained(audit, segments, timed)
        return suspicions

    def _unexplained(self, audit: Audit, segments: list[Segment], timed: int) -> dict[str, str]:
        """What the steps so far say. A slower machine explains slower steps: where they are, one more segment than
        the first `timed` ones is timed, and counts like them. If it differs, that is noise, which accuses nobody.
        """

        def suspicions() -> dict[str, str]:
            later = [segment.mean_ms for segment in segments[timed:]]
            return audit.suspicions(max(mean_of(segments), *later, 0.0))

        if suspicions():
            segments.append(self._once_more(audit))
        return suspicions()

    def _in_lockstep(self, audit: Audit, mean_ms: float) -> None:
        """Long steps, each checked as a segment is."""
        audit.calls = rules.calls_a_step(mean_ms, self._policy.step_ms)
        if self._policy.graph:
            audit.calls = -(-audit.calls // self._graph_calls) * self._graph_calls
        verified = set(self._choose(rules.AUDIT_STEPS, VERIFIED_SETS))
        for step in range(rules.AUDIT_STEPS):
            first = 0 if self._policy.graph else secrets.randbelow(len(self._sets))
            visited = [(first + number) % len(self._sets) for number in range(min(audit.calls, len(self._sets)))]
            # Few calls find new contents wherever they come: nothing else compares contents then.
            self._refresh(visited if len(visited) <= REFRESHED_SETS else self._choose(len(self._sets), REFRESHED_SETS))
            audit.steps.append(self._pieces.step(audit.calls, first))
            if step in verified:
                self._verify(audit.calls, inspect=False)

    def _compare_contents(self, audit: Audit) -> None:
        """Steps with new contents and with the same as before, which a batch sees often: as many of each, in an order
        that nobody can know, with one call a set.
        """
        if not self._policy.graph and audit.calls <= REFRESHED_SETS:
            return  # steps of so few calls had new contents in each
        audit.sets = sets = min(len(self._sets), rules.FRESH_SETS)
        if self._policy.graph:
            audit.irregular |= self._captured(sets, sets)
        anew = set(self._choose(2 * rules.FRESH_STEPS, rules.FRESH_STEPS))
        for number in range(2 * rules.FRESH_STEPS):
            self._refresh(range(sets), anew=number in anew)
            self._device.flush()
            (audit.new if number in anew else audit.same).append(self._pieces.step(sets, 0))
            if number in anew:
                self._verify(sets, inspect=False, most=sets)  # each one: the best of them counts

    def _once_more(self, audit: Audit) -> Segment:
        """One more segment."""
        if self._policy.graph:
            audit.irregular |= self._captured(len(self._sets), self._graph_calls)
        self._warm_up()
        segment = self._verified(inspect=False)
        audit.irregular |= short_suspicion([segment], self._policy.segment_s)
        return segment

    def _choose(self, population: int, most: int) -> list[int]:
        indices = list(range(population))
        return indices if population <= most else secrets.SystemRandom().sample(indices, most)

    def _accept(self, checks: list[Check]) -> None:
        self.checks += checks
        if not all(check.passed for check in checks):
            raise WrongAnswer(checks)
