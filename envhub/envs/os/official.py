"""AgentBench's published OS tasks: the folder with ``data/``, ``scripts/`` and the training files, as task sets.

Invariant: the order of tasks is that of the sorted paths of their files and of the items in each, on every machine; a script that an
item names lies in its split's folder below ``scripts/``, or the item is refused.

An item holds ``description``, ``create{local?, init?}``, ``start?``, ``evaluation{match | check, example?}``; a script is text or
``{language?, file | code, params?}``. Its published grading is kept as it stands, for the grading ``agentbench``. For ``strict``:

* ``match`` becomes an answer of the kind string (a regex must fit the whole answer);
* ``[null, check/KIND-match.py]`` becomes an answer whose gold the example prints, measured before the agent acts: of the 1170
  published items none needs what the agent is asked to make, since an example that needs files makes them itself (and is run aside);
* the state checks that run what the agent wrote, or look at programs, are replaced by those of ``official_checks``;
* all other scripts stay, as checks of the judge.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from envhub.core.types import JSON
from envhub.envs.os import official_checks
from envhub.envs.os.tasks import Answer, AnswerKind, Check, OSTask, Published, Script, TaskSet, language_named

SPLITS: Mapping[str, str] = {
    "agentbench-std": "data/[0-9]*/**/*.json",
    "agentbench-dev": "data/dev.json",
    "agentbench-train": "train*/**/*.json",
}
_CHECKERS: Mapping[str, AnswerKind] = {
    "integer-match.py": "integer",
    "string-match.py": "string",
    "size-match.py": "size",
    "containing.py": "containing",
    "in.py": "in",
}
_WRITES = re.compile(
    r"(?<![0-9&<>=-])>{1,2}(?![=(&])\s*(?!/dev/null)[\w./~\"$]|sed -i"
    r"|\b(mkdir|touch|tee|mv|cp|rm|g?unzip|gzip|tar|chmod|chown|ln|useradd|apt)\b"
)
"""An example that may write. A comparison taken for a redirection only costs a fork."""


@dataclass(frozen=True, slots=True)
class _Source:
    """One item, where it comes from, and the folder that its scripts lie in."""

    item: Mapping[str, JSON]
    where: str
    scripts: Path


def load_official(folder: Path) -> dict[str, TaskSet]:
    """The task sets that ``folder`` holds files of, by split.

    Raises FileNotFoundError when it holds none, ValueError naming the item that is not one.
    """
    found = {}
    for split, pattern in SPLITS.items():
        paths = sorted(folder.glob(pattern), key=lambda path: path.relative_to(folder).as_posix())
        if paths:
            found[split] = _task_set(split, folder, paths)
    if not found:
        raise FileNotFoundError(f"{folder} holds no file {' or '.join(SPLITS.values())}")
    return found


def _task_set(split: str, folder: Path, paths: Sequence[Path]) -> TaskSet:
    digest = hashlib.sha256()
    tasks = []
    for path in paths:
        content = path.read_bytes()
        digest.update(hashlib.sha256(content).digest())
        for source in _sources(folder, path, content):
            tasks.append(decode_item(source.item, source.where, source.scripts))
    for task in tasks:
        digest.update(repr(task.published).encode())
    return TaskSet(split, len(tasks), tasks.__getitem__, dataset_hash=digest.hexdigest())


def _sources(folder: Path, path: Path, content: bytes) -> Iterator[_Source]:
    relative = path.relative_to(folder)
    try:
        raw = json.loads(content)
    except ValueError as error:
        raise ValueError(f"{relative} is not JSON: {error}") from error
    items = raw if isinstance(raw, list) else [raw]
    for number, item in enumerate(items):
        where = f"{relative.as_posix()}:{number}"
        if not isinstance(item, dict) or not isinstance(item.get("evaluation"), dict) or "description" not in item:
            raise ValueError(f"{where}: an item needs a description and an evaluation")
        yield _Source(item, where, _scripts_folder(folder, relative))


def _scripts_folder(folder: Path, relative: Path) -> Path:
    """``data/4/N11.json`` has ``scripts/4``, ``data/dev.json`` has ``scripts/dev``; training files share those of split 1."""
    parts = relative.with_suffix("").parts
    name = parts[1] if parts[0] == "data" else "1"
    return folder / "scripts" / name


def decode_item(item: Mapping[str, JSON], where: str, scripts: Path) -> OSTask:
    """Raises ValueError naming the item, for an unknown language, a missing script or one outside ``scripts``."""
    try:
        create = item.get("create") if isinstance(item.get("create"), dict) else {}
        init = create.get("init") if create else None
        published = _published(item, scripts)
        answer, checks = _strict(item["evaluation"], published)
        return OSTask(
            id=where,
            description=item["description"],
            answer=answer,
            checks=checks,
            image=(create or {}).get("local") or "default",
            init=tuple(_script(each, scripts) for each in _listed(init)),
            start=None if item.get("start") is None else _script(item["start"], scripts).code,
            tags=tuple(item.get("labels") or ()),
            published=published,
        )
    except (ValueError, OSError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from error


def _listed(value: JSON) -> Sequence[JSON]:
    if value is None:
        return ()
    return value if isinstance(value, list) else [value]


def _script(raw: JSON, scripts: Path) -> Script:
    if isinstance(raw, str):
        return Script(raw)
    language = language_named(raw.get("language", "bash"))
    code = raw["code"] if "code" in raw else _read(scripts, raw["file"])
    return Script(code, language, tuple(map(str, raw.get("params", ()))))


def _read(scripts: Path, name: str) -> str:
    path = (scripts / name).resolve()
    if not path.is_relative_to(scripts.resolve()):
        raise ValueError(f"script {name!r} lies outside {scripts}")
    return path.read_text("utf-8")


def _published(item: Mapping[str, JSON], scripts: Path) -> Published:
    evaluation = item["evaluation"]
    example = evaluation.get("example", item.get("example"))
    match = evaluation.get("match")
    if isinstance(match, str):
        match = {"answer": match, "strip": True}
    steps = () if match is not None else _listed(evaluation.get("check"))
    return Published(
        match=match,
        steps=tuple(None if step is None else _script(step, scripts) for step in steps),
        example=None if example is None else _script(example, scripts),
    )


def _strict(evaluation: Mapping[str, JSON], published: Published) -> tuple[Answer | None, tuple[Check, ...]]:
    if published.match is not None:
        rule = published.match
        return (Answer("regex", (rule["regex"],)) if "regex" in rule else Answer("string", (rule["answer"],))), ()
    kind = _checker(evaluation.get("check"))
    if kind is not None and published.example is not None:
        writes = _WRITES.search(published.example.code) is not None
        return Answer(kind, reference=published.example, writes=writes), ()
    if not published.steps or None in published.steps:
        raise ValueError("the evaluation has neither a match nor checks that can be run")
    checks: list[Check] = []
    for step in published.steps:
        if step is not None:
            checks += official_checks.replacement(step) or (Check(step),)
    return None, tuple(checks)


def _checker(check: JSON) -> AnswerKind | None:
    """The kind of ``[null, {python file of a published checker}]``."""
    if not isinstance(check, list) or len(check) != 2 or check[0] is not None or not isinstance(check[1], dict):
        return None
    return _CHECKERS.get(PurePosixPath(check[1].get("file", "")).name)
