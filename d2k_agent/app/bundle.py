"""A bundle: the folder that scores a run's winner on the machine where it is opened.

score.py            the one command                solution.py, baseline.py   the winner, and what speedups are over
task/, task/hidden/ the task with its checks       compile_report.json, .txt  the winner, compiled for the target
evaluator.zip       what is started on the machine scorer.zip                 what starts it
manifest.json       what all of it is: the job, and the sha256 of every file

Read by the bundle itself, which has no package of the controller: imports contract, reports and the standard library.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from d2k_agent.contract import CompileReport, EvaluatorJob, JobKind, TaskBundle, source_sha256
from d2k_agent.contract.wire import from_data, to_data
from d2k_agent.reports.compile_text import compile_text
from d2k_agent.reports.score import Scored

if TYPE_CHECKING:
    from d2k_agent.catalog import Counts

FORMAT = 1
MANIFEST, EVALUATOR = "manifest.json", "evaluator.zip"


@dataclass(frozen=True)
class Subject:
    """All that a score needs of a run: its winner, its task, and the baseline (None: the task has none).

    `counts` tell, by workload, what the hardware allows; they stay with the controller and are in no bundle.
    """

    scored: Scored
    task: TaskBundle
    candidate: str
    baseline: str | None
    counts: Mapping[str, Counts] = field(default_factory=dict)

    def job(self, device: str = "auto", unsafe: bool = False) -> EvaluatorJob:
        """Judge and measure the winner as at the end of a run, under a fresh secret seed.

        What is compiled is what is measured: the job compiles for the GPU that is there, whatever the winner is for.
        Where nothing is measured, it compiles for that.
        """
        return EvaluatorJob(
            kind=JobKind.CONFIRM,
            task=self.task,
            candidate=self.candidate,
            seed=secrets.token_hex(32),
            target=None,
            meant_for=self.scored.target,
            device=device,
            unsafe_no_sandbox=unsafe,
            baseline=self.baseline,
        )

    def compile_job(self, unsafe: bool = False) -> EvaluatorJob:
        """Compile the winner for the GPU that it is meant for, which need not be there."""
        job = self.job(unsafe=unsafe)
        return dataclasses.replace(job, kind=JobKind.COMPILE, target=self.scored.target, baseline=None)


def bundle_files(subject: Subject, report: CompileReport, programs: Mapping[str, bytes]) -> dict[str, bytes]:
    """The bundle's files by name, the manifest last. `programs` are score.py and the archives."""
    task = {f"task/{name}": text for name, text in subject.task.public.items()}
    task |= {f"task/hidden/{name}": text for name, text in subject.task.hidden.items()}
    texts = {
        "solution.py": subject.candidate,
        **({} if subject.baseline is None else {"baseline.py": subject.baseline}),
        **task,
        "compile_report.json": json.dumps(to_data(report), indent=1) + "\n",
        "compile_report.txt": compile_text(report) + "\n",
    }
    files = {name: text.encode("utf-8", "surrogatepass") for name, text in texts.items()} | dict(programs)
    manifest = {
        "format": FORMAT,
        "scored": dataclasses.asdict(subject.scored),
        "job": {
            "kind": JobKind.CONFIRM.value,
            "task": subject.task.slug,
            "task_digest": subject.task.digest,
            "candidate": "solution.py",
            "baseline": None if subject.baseline is None else "baseline.py",
            "public": sorted(subject.task.public),
            "hidden": sorted(subject.task.hidden),
        },
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())},
    }
    return {**files, MANIFEST: json.dumps(manifest, indent=1).encode() + b"\n"}


def read_subject(manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> Subject:
    """What a bundle holds, from its manifest and its files, which agree.

    Raises KeyError or ValueError for nonsense, such as a candidate that is not the one that it says is scored.
    """
    if manifest["format"] != FORMAT:
        raise ValueError(f"its format is {manifest['format']!r:.40}, and this reads format {FORMAT}")
    job = manifest["job"]

    def text(name: str) -> str:
        return files[name].decode("utf-8", "surrogatepass")

    subject = Subject(
        scored=from_data(Scored, manifest["scored"]),
        task=TaskBundle(
            job["task"],
            {name: text(f"task/{name}") for name in job["public"]},
            {name: text(f"task/hidden/{name}") for name in job["hidden"]},
        ),
        candidate=text(job["candidate"]),
        baseline=None if job["baseline"] is None else text(job["baseline"]),
    )
    if source_sha256(subject.candidate) != subject.scored.sha256:
        raise ValueError(f"{job['candidate']} is not the candidate {subject.scored.sha256} that is to be scored")
    if subject.task.digest != job["task_digest"]:
        raise ValueError(f"the files of {job['task']} are not the task that the winner was made for")
    return subject
