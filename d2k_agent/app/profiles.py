"""Profiles beside earlier ones: those that a run's log holds, and those of a file or of another run.

A run keeps every profile with the answer of its tool, so that the next one can be compared with the best candidate's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from d2k_agent.contract import Profile, Verdict
from d2k_agent.contract.wire import WireError, finite, from_data, to_data
from d2k_agent.errors import UsageError
from d2k_agent.reports.profile_change import change_text, not_profiled

if TYPE_CHECKING:
    from d2k_agent.app.incumbent import Incumbent
    from d2k_agent.app.surroundings import Surroundings
    from d2k_agent.config import Settings
    from d2k_agent.records import Event

PROFILE, CANDIDATE_SHA256 = "profile", "profiled_sha256"
"""Where the answer of the tool `profile` keeps what the next ones are compared with."""
MOST_FILE_BYTES = 16 << 20
_DIGEST = re.compile(r"[0-9a-f]{8,64}")


def profile_data(verdict: Verdict) -> dict[str, Any]:
    """What is kept of a profile with the answer that tells it; nothing where there is none."""
    if verdict.profile is None:
        return {}
    return {PROFILE: finite(to_data(verdict.profile)), CANDIDATE_SHA256: verdict.candidate_sha256}


def profiles_in(events: Iterable[Event]) -> dict[tuple[str, str], Profile]:
    """The latest profile of each candidate (by sha256) and workload; what is none of this version is left out."""
    from d2k_agent.records import ToolFinished

    found: dict[tuple[str, str], Profile] = {}
    for event in events:
        if isinstance(event, ToolFinished) and PROFILE in event.data:
            try:
                profile = from_data(Profile, event.data[PROFILE], "the profile")
            except WireError:
                continue
            found[str(event.data.get(CANDIDATE_SHA256)), profile.workload] = profile
    return found


def change_in_run(incumbent: Incumbent, verdict: Verdict) -> str | None:
    """What a profile says against that of the run's best submission, or that there is none of that one.

    None for the best submission itself, and where there is no submission yet.
    """
    best = incumbent.choice()
    if verdict.profile is None or best is None or best.sha256 == verdict.candidate_sha256:
        return None
    before = profiles_in(incumbent.profiled()).get((best.sha256, verdict.profile.workload))
    whose = f"the best submission so far (turn {best.turn})"
    return not_profiled(verdict.profile, whose) if before is None else change_text(verdict.profile, before, whose)


def earlier_profiles(around: Surroundings, settings: Settings, name: str) -> tuple[Profile, ...]:
    """The profiles to compare with: of a file that `profile --json` printed, of the best submission of a run, or of a
    candidate in any run, by the beginning of its sha256.

    Raises UsageError for what is none of them, and for what was never profiled.
    """
    path = around.folder / name
    if path.is_file():
        return (_of_file(path, name),)
    if _DIGEST.fullmatch(name) and not path.exists():
        return _of_candidate(around.runs_folder(settings), name)
    from d2k_agent.app.inventory import find_run
    from d2k_agent.records import read_trace

    trace = read_trace(find_run(around, settings, name).path)
    best = None if trace.finished is None else trace.finished.selection or trace.finished.provisional
    kept = profiles_in(trace.events)
    found = tuple(profile for (sha256, _), profile in kept.items() if best is not None and sha256 == best.sha256)
    if not found:
        raise UsageError(
            f"{name} holds no profile of its selected candidate; give a file that `d2k-agent profile --json` printed"
        )
    return found


def _of_candidate(runs: Path, digest: str) -> tuple[Profile, ...]:
    from d2k_agent.records import read_events

    found: dict[tuple[str, str], Profile] = {}
    for log in sorted(runs.glob("*/events.jsonl")):
        if digest in log.read_text(encoding="utf-8", errors="replace"):
            found |= {key: item for key, item in profiles_in(read_events(log)[0]).items() if key[0].startswith(digest)}
    if not found:
        raise UsageError(
            f"no run in {runs} profiled a candidate whose sha256 begins with {digest}; give a run, or a file that "
            "`d2k-agent profile --json` printed"
        )
    return tuple(found.values())


def _of_file(path: Path, name: str) -> Profile:
    from d2k_agent.reports.verdict_data import verdict_of

    wanted = "give a file that `d2k-agent profile --json` printed"
    try:
        if path.stat().st_size > MOST_FILE_BYTES:
            raise UsageError(f"{name} is too large for a profile; {wanted}")
        verdict = verdict_of(json.loads(path.read_text(encoding="utf-8")))
    except OSError as problem:
        raise UsageError(f"{name} cannot be read ({problem.strerror}); {wanted}") from None
    except ValueError as problem:  # no JSON, no UTF-8, no verdict
        raise UsageError(f"{name} is no profile ({problem}); {wanted}") from None
    if verdict.profile is None:
        raise UsageError(f"{name} is a verdict without a profile; {wanted}")
    return verdict.profile


def against(profile: Profile, earlier: Iterable[Profile], whose: str) -> str:
    """The change against the earlier profile of the same workload, or that there is none."""
    kept = list(earlier)
    before = next((item for item in kept if item.workload == profile.workload), kept[0])
    return change_text(profile, before, whose)
