"""Tasks that need other users than root, where sandboxes have none."""

from __future__ import annotations

import pytest

from envhub.core.errors import TaskUnusableError
from envhub.core.types import TaskRef
from envhub.envs.datasets import TaskSet, dataset_dir
from envhub.envs.os import lint
from envhub.envs.os.env import OPTIONS, OSEnvironment
from envhub.envs.os.tasks import Answer, OSTask, Script, load_split
from tests.os.fake import FakeSandbox, FakeSandboxes

SET_UPS = [
    ("file('/etc/shadow', 'x', mode=0o640, gid=42)", True),
    ("folder('/srv/x', uid=1500, gid=0)", True),
    ("chown mysql:mysql /var/lib/x", True),
    ("touch a; chown 1000 a", True),
    ("useradd -m jack && echo 'echo x' > a && chown -R jack a && su - jack", True),
    ("chgrp staff a", True),
    ("file('/a', 'x', uid=0, gid=0, mtime=1)", False),
    ("chown root:root a", False),
    ("chown -R root /srv; chgrp root a", False),
    ("echo 'su does it' > chown.txt; useradd_n=3; os.chown(path, uid, gid)", False),
    ("useradd -m ann && mkdir /home/ann/x", False),
]


def environment_of(task: OSTask, sandboxes: FakeSandboxes, *, users: bool) -> OSEnvironment:
    tasks = TaskSet("test", 1, (task,).__getitem__, dataset_hash="1")
    return OSEnvironment(sandboxes, {"test": tasks}, driver="fake", users=users)


def task_of(code: str) -> OSTask:
    return OSTask("t", "?", Answer("integer", ("3",)), init=(Script(code),))


@pytest.mark.parametrize(("code", "needs"), SET_UPS)
def test_what_needs_other_users_is_known_from_its_set_up(code: str, needs: bool) -> None:
    assert lint.needs_users(task_of(code)) is needs
    assert lint.needs_users(OSTask("t", "?", Answer("integer", ("3",)), start=code)) is needs
    assert lint.needs_users(OSTask("t", "?", Answer("integer", ("3",)), solution=(code,))) is needs


async def test_such_a_task_is_refused_in_words_before_any_sandbox_is_taken() -> None:
    sandboxes = FakeSandboxes(FakeSandbox)
    made = environment_of(task_of("chown 1000 a"), sandboxes, users=False)
    ref = TaskRef("os", "test", 0)
    with pytest.raises(TaskUnusableError, match="needs a sandbox with several users: run the worker as root, or use"):
        await made.open(ref, seed=0, options=OPTIONS)
    (defect,) = made.lint("test")
    assert not defect.usable and defect.problem == lint.NO_USERS
    tested = await made.self_test(ref)
    assert not tested.usable and lint.NO_USERS in tested.problem
    assert sandboxes.specs == []


async def test_it_is_played_where_there_are_users() -> None:
    made = environment_of(task_of("chown 1000 a"), FakeSandboxes(FakeSandbox), users=True)
    await (await made.open(TaskRef("os", "test", 0), seed=0, options=OPTIONS)).close()
    assert list(made.lint("test")) == []


def test_about_a_tenth_of_our_own_tasks_needs_them() -> None:
    """The numbers of a run of all self-tests by a hub with one user: these and no others failed."""
    n_needing = {
        split: sum(map(lint.needs_users, load_split(dataset_dir("os"), split))) for split in ("dev", "test", "train")
    }
    assert n_needing == {"dev": 15, "test": 24, "train": 123}
