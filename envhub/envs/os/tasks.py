"""OS tasks: what one is, and the file format they ship in. A task read back equals the one written.

Native format, one folder per dataset (``datasets/os``): the manifest of ``envhub.envs.datasets`` and, per split, a file of
JSON lines, one TASK a line, task *n* of the split on line *n*. ``write_dataset`` produces all this from ``OSTask`` records::

    TASK     {"id", "description", "evaluation": EVALUATION, "solution": [BASH, ...],
              "image"?: "default", "init"?: [SCRIPT, ...], "start"?: BASH,
              "family"?, "difficulty"?, "tags"?: [...]}                              absent means the default
    SCRIPT   BASH, or {"language": "bash" | "python" | "c" | "c++", "code", "params"?: [...]}
    EVALUATION  {"answer"?: ANSWER, "checks"?: [CHECK, ...]}                          at least one; all of them must hold
    ANSWER   {"kind": KIND, "gold": [TEXT, ...]}                                      any of the texts is right
    CHECK    SCRIPT, or SCRIPT as an object with "view": "session"
    KIND     integer | number | string | size | items | containing | in | regex       see ``envhub.envs.os.matching``

How a task is played: a fresh Linux of ``image``; each ``init`` script runs in order, as root in /root, beside the shell, and must
exit with 0; ``start`` then runs in the agent's own shell (background processes it starts live on); then the agent acts.

How it is graded (``strict``): the answer must match, where there is one, and then each check runs in order with the arguments
``[answer, output of check 0, output of check 1, ...]`` (``$1``, ``$2`` in bash; ``sys.argv[1:]`` in python; the answer is empty
for a task without one). A check of the view ``judge``, the default, sees the session's files read-only, with the programs of the
untouched image and no process of the session; it exits with 0 when the task was done, with 1 when not, and anything else is a
broken check. A check of the view ``session`` is a probe: it runs inside the session, where the agent may have replaced anything,
so its exit code says nothing; what it prints is evidence for the checks after it. The last check must be one of the judge.
A check is bash or python; a failed ``assert`` of a python check counts as exit code 1, any other exception as a broken check.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from envhub.core.sandbox import View
from envhub.core.types import JSON
from envhub.envs import datasets
from envhub.envs.datasets import Manifest, compact, read_manifest

Language = Literal["bash", "python", "c", "c++"]
LANGUAGES: tuple[str, ...] = get_args(Language)
CHECK_LANGUAGES = ("bash", "python")
AnswerKind = Literal["integer", "number", "string", "size", "items", "containing", "in", "regex"]
ANSWER_KINDS: tuple[str, ...] = get_args(AnswerKind)


@dataclass(frozen=True, slots=True)
class Script:
    """A program in source; ``params`` are its first arguments."""

    code: str
    language: Language = "bash"
    params: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a right answer is. Without ``golds`` the gold is what ``reference`` prints.

    The reference is run before the agent acts (aside when it ``writes``); with ``after`` it is run at the end, for a task
    whose answer is about what the agent was asked to make.
    """

    kind: AnswerKind
    golds: tuple[str, ...] = ()
    reference: Script | None = None
    after: bool = False
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    script: Script
    view: View = "judge"


@dataclass(frozen=True, slots=True)
class Published:
    """How AgentBench itself grades one of its items: a ``match`` rule, or ``steps`` of which None stands for ``example``."""

    match: Mapping[str, JSON] | None = None
    steps: tuple[Script | None, ...] = ()
    example: Script | None = None


@dataclass(frozen=True, slots=True)
class OSTask:
    """One problem on a fresh Linux. ``solution`` are bash scripts that, run one by one, do what is asked."""

    id: str
    description: str
    answer: Answer | None = None
    checks: tuple[Check, ...] = ()
    image: str = "default"
    init: tuple[Script, ...] = ()
    start: str | None = None
    solution: tuple[str, ...] = ()
    family: str = ""
    difficulty: str = ""
    tags: tuple[str, ...] = ()
    published: Published | None = None

    @property
    def final_answer(self) -> str | None:
        """A text that answers the task right; None when it must be measured or there is none."""
        return self.answer.golds[0] if self.answer is not None and self.answer.golds else None


TaskSet = datasets.TaskSet[OSTask]


def load_split(folder: Path, split: str) -> TaskSet:
    """Raises KeyError for an unknown split, ValueError when the file is not what the manifest says."""
    manifest = read_manifest(folder)
    lines = datasets.read_split_lines(folder, manifest, split)
    entry = manifest.splits[split]
    if len(lines) != entry.n_tasks:
        raise ValueError(f"{folder / entry.file} holds {len(lines)} tasks; the manifest says {entry.n_tasks}")

    def decode(index: int) -> OSTask:
        return decode_task(json.loads(lines[index]))

    return TaskSet(f"{manifest.name}/{split}", entry.n_tasks, decode, dataset_hash=entry.sha256)


def write_dataset(
    folder: Path, splits: Mapping[str, Iterable[OSTask]], *, name: str, version: str, generator: Mapping[str, JSON]
) -> Manifest:
    """Write every split and the manifest; equal tasks give equal bytes. Raises ValueError for a task the format cannot hold."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = {}
    for split, tasks in splits.items():
        lines = [compact(encode_task(task)) for task in tasks]
        entries[split] = datasets.write_split(folder, split, lines, n_tasks=len(lines))
    manifest = Manifest(name, version, generator, entries)
    datasets.write_manifest(folder, manifest)
    return manifest


def encode_task(task: OSTask) -> dict[str, JSON]:
    """Raises ValueError for a task that the format cannot hold or that nothing could grade."""
    evaluation: dict[str, JSON] = {}
    if task.published is not None:
        raise ValueError(f"task {task.id}: the format has no place for published grading")
    if task.answer is not None:
        if not task.answer.golds:
            raise ValueError(f"task {task.id}: the answer needs a gold")
        evaluation["answer"] = {"kind": task.answer.kind, "gold": list(task.answer.golds)}
    if task.checks:
        evaluation["checks"] = [_encode_check(check) for check in task.checks]
    record: dict[str, JSON] = {
        "id": task.id,
        "description": task.description,
        "evaluation": evaluation,
        "solution": list(task.solution),
    }
    optional: dict[str, JSON] = {
        "image": task.image if task.image != "default" else None,
        "init": [_encode_script(script) for script in task.init],
        "start": task.start,
        "family": task.family,
        "difficulty": task.difficulty,
        "tags": list(task.tags),
    }
    record |= {key: value for key, value in optional.items() if value}
    decode_task(record)
    return record


def decode_task(record: Mapping[str, JSON]) -> OSTask:
    """Raises ValueError, or KeyError for a missing field."""
    evaluation = record["evaluation"]
    answer = evaluation.get("answer")
    checks = tuple(_decode_check(check) for check in evaluation.get("checks", ()))
    if (answer is None and not checks) or (checks and checks[-1].view != "judge"):
        raise ValueError(
            f"task {record['id']}: an evaluation needs an answer, or checks that end with one of the judge"
        )
    return OSTask(
        id=record["id"],
        description=record["description"],
        answer=None if answer is None else _decode_answer(answer),
        checks=checks,
        image=record.get("image", "default"),
        init=tuple(_decode_script(script) for script in record.get("init", ())),
        start=record.get("start"),
        solution=tuple(record["solution"]),
        family=record.get("family", ""),
        difficulty=record.get("difficulty", ""),
        tags=tuple(record.get("tags", ())),
    )


def _decode_answer(record: Mapping[str, JSON]) -> Answer:
    if record["kind"] not in ANSWER_KINDS:
        raise ValueError(f"answer kind {record['kind']!r}; valid: {', '.join(ANSWER_KINDS)}")
    golds: Sequence[str] = record["gold"]
    if not golds or not all(isinstance(gold, str) and gold.strip() for gold in golds):
        raise ValueError("the gold of an answer must be a list of texts that are not blank")
    return Answer(cast(AnswerKind, record["kind"]), tuple(golds))


def _encode_check(check: Check) -> JSON:
    encoded = _encode_script(check.script)
    if check.view == "judge":
        return encoded
    return {**(encoded if isinstance(encoded, dict) else {"code": encoded}), "view": check.view}


def _decode_check(record: JSON) -> Check:
    view: View = record.get("view", "judge") if isinstance(record, dict) else "judge"
    if view not in get_args(View):
        raise ValueError(f"view {view!r} of a check; valid: {', '.join(get_args(View))}")
    script = _decode_script(record)
    if script.language not in CHECK_LANGUAGES:
        raise ValueError(f"language {script.language!r} of a check; valid: {', '.join(CHECK_LANGUAGES)}")
    return Check(script, view)


def _encode_script(script: Script) -> JSON:
    if script.language == "bash" and not script.params:
        return script.code
    record: dict[str, JSON] = {"language": script.language, "code": script.code}
    return record | ({"params": list(script.params)} if script.params else {})


def _decode_script(record: JSON) -> Script:
    if isinstance(record, str):
        return Script(record)
    return Script(record["code"], language_named(record.get("language", "bash")), tuple(record.get("params", ())))


def language_named(word: JSON) -> Language:
    """Raises ValueError for a language that is not known."""
    if word not in LANGUAGES:
        raise ValueError(f"language {word!r} of a script; valid: {', '.join(LANGUAGES)}")
    return cast(Language, word)
