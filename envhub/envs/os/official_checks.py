"""Own checks in place of those published state checks that an agent can talk into passing.

Invariant: what the agent wrote runs in the session alone, and the judge compares what it printed; programs are looked at in the
session's tree. A published check is known by the sha256 of its code; any other one stays as it is.

What is wrong with the published ones: ``calc`` puts what the agent's program prints into python source; ``count``, ``date-format``,
``echo-love`` and ``sudo`` run the agent's files inside the grader's shell; reading ``/testfile`` runs login files that the agent
can write; a deleted ``~/videos`` or ``find`` counts as one whose modes are right.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping

from envhub.envs.os.tasks import Check, Script

SESSION_TREE = "/run/session"


def replacement(published: Script) -> tuple[Check, ...] | None:
    """The checks to run instead of a published one, or None when it stays."""
    known = _KNOWN.get(hashlib.sha256(published.code.encode()).hexdigest())
    return None if known is None else known(published.code)


def _probe(code: str) -> Check:
    return Check(Script(code), "session")


def _judge(code: str) -> Check:
    return Check(Script(code, "python"))


def _calc(published: str) -> tuple[Check, ...]:
    """The expressions of the published check, one printed result each."""
    expressions = re.findall(r'check "([^"]+)"', published)
    probe = "\n".join(f"calc '{each}' 2>/dev/null | head -n 1 | head -c 80; echo" for each in expressions)
    results = [eval_sum(each) for each in expressions]
    return _probe(probe), _judge(_CALC.format(results=results))


def eval_sum(expression: str) -> float:
    """The value of a sum of numbers, ``+ - * /`` and parentheses. Raises ValueError for anything else."""
    if not re.fullmatch(r"[0-9.()+*/ -]+", expression):
        raise ValueError(f"{expression!r} is not a sum")
    return _sum(re.findall(r"[0-9.]+|[()+*/-]", expression))


def _sum(tokens: list[str]) -> float:
    value = _product(tokens)
    while tokens and tokens[0] in "+-":
        value = value + _product(tokens) if tokens.pop(0) == "+" else value - _product(tokens)
    return value


def _product(tokens: list[str]) -> float:
    value = _operand(tokens)
    while tokens and tokens[0] in "*/":
        value = value * _operand(tokens) if tokens.pop(0) == "*" else value / _operand(tokens)
    return value


def _operand(tokens: list[str]) -> float:
    token = tokens.pop(0)
    if token == "-":
        return -_operand(tokens)
    if token != "(":
        return float(token)
    value = _sum(tokens)
    tokens.pop(0)
    return value


_CALC = """\
import sys
said = [line.strip() for line in sys.argv[2].split("\\n") if line.strip()]
wanted = {results}
assert len(said) == len(wanted)
for text, value in zip(said, wanted):
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    assert abs(number - value) < 1e-5
"""

_COUNT_PROBE = """\
for folder in /usr/local/bin /root /usr/bin /usr/include /etc; do
  count "$folder" 2>/dev/null | head -n 1 | head -c 40; echo
done
"""
_COUNT = """\
import os, stat, sys
def counts(folder):
    found = [0, 0, 0]
    for base, folders, names in os.walk(folder):
        for name in names:
            path = os.path.join(base, name)
            regular = stat.S_ISREG(os.lstat(path).st_mode)
            target = os.path.realpath(path)
            if not target.startswith(TREE):
                target = TREE + target
            hidden = "/." in path[len(folder):]
            found[0] += regular
            found[1] += regular and not hidden
            found[2] += os.path.isfile(target) and not hidden
    return found
TREE = "/run/session"
said = [line.strip() for line in sys.argv[2].split("\\n") if line.strip()]
folders = ["/usr/local/bin", "/root", "/usr/bin", "/usr/include", "/etc"]
wanted = [counts(TREE + folder) for folder in folders]
assert any(said == [str(each[way]) for each in wanted] for way in range(3))
"""

_DATES = (
    ("2023-5-1", "%Y-%m", "2023-05"),
    ("23-5-2", "%Y-%m-%d", "2023-05-02"),
    ("2023-5-1", "%Y/%m/%d", "2023/05/01"),
    ("2023/5/10", "%d/%m", "10/05"),
    ("2021/05/1", "Date: %Y-%m-%d", "Date: 2021-05-01"),
    ("2024-2-29", "%d.%m.%Y", "29.02.2024"),
)
_DATE_PROBE = "\n".join(
    f"date-format '{moment}' '{form}' 2>/dev/null | head -n 1 | head -c 80; echo" for moment, form, _ in _DATES
)
_DATE = f"""\
import sys
said = [line.strip() for line in sys.argv[2].split("\\n") if line.strip()]
assert said == {[wanted for _, _, wanted in _DATES]}
"""

_ECHO_LOVE_PROBE = "source ~/.bashrc >/dev/null 2>&1; printf '\\n%s\\n' \"$PATH\""
_ECHO_LOVE = """\
import os, sys
tree = "/run/session"
folder = "/root/folder1/folder2/folder3/folder4/folder5"
lines = [line for line in sys.argv[2].split("\\n") if line.strip()]
assert lines and folder in [os.path.normpath(each) for each in lines[-1].split(":") if each]
path = tree + folder + "/echo-love"
assert os.path.isfile(path) and os.access(path, os.X_OK)
assert open(path).read().strip() == 'echo "I love myself."'
"""

_READABLE = """\
import grp, os, pwd, stat
path = "/testfile"
seen = os.lstat(path) if os.path.lexists(path) else None
assert seen and stat.S_ISREG(seen.st_mode) and seen.st_size < 100 and open(path).read() == "test\\n"
def readable(name):
    user = pwd.getpwnam(name)
    groups = {user.pw_gid} | {each.gr_gid for each in grp.getgrall() if name in each.gr_mem}
    if seen.st_uid == user.pw_uid:
        return bool(seen.st_mode & stat.S_IRUSR)
    if seen.st_gid in groups:
        return bool(seen.st_mode & stat.S_IRGRP)
    return bool(seen.st_mode & stat.S_IROTH)
try:
    able = [readable(name) for name in ("jack", "bill", "tom", "george")]
except KeyError:
    raise AssertionError("a user is gone")
assert able == [True, True, True, False]
"""

_SUID = """\
import os, stat
path = "/run/session/usr/bin/find"
assert os.path.isfile(path)
mode = os.stat(path).st_mode
assert mode & stat.S_IXUSR and not mode & stat.S_ISUID
"""

_VIDEOS = """\
import os, stat
wanted = {"": 0o750, "old": 0o750, "new": 0o750, "vid1": 0o660, "vid2": 0o660, "new/a": 0o660, "new/b": 0o660, "old/c": 0o660}
for name, mode in wanted.items():
    path = os.path.join("/root/videos", name)
    assert os.path.lexists(path) and not os.path.islink(path)
    seen = os.lstat(path).st_mode
    assert stat.S_IMODE(seen) == mode and stat.S_ISDIR(seen) == (mode == 0o750)
"""

_DATA = """\
import os, stat
assert os.path.isdir("/data") and not os.path.islink("/data")
mode = os.stat("/data").st_mode
assert mode & stat.S_ISGID and mode & stat.S_ISVTX
"""

_SUDO_PROBE = "sudo -n whoami 2>/dev/null | head -n 1 | head -c 20"
_SUDO = """\
import os, re, sys
assert sys.argv[2].strip() == "root"
program = "/run/session/usr/bin/sudo"
assert os.path.isfile(program) and os.stat(program).st_size > 10000
rules = ""
for path in ["/etc/sudoers"] + ["/etc/sudoers.d/" + name for name in sorted(os.listdir("/etc/sudoers.d"))]:
    if os.path.isfile(path) and os.path.getsize(path) < 100000:
        rules += open(path, errors="replace").read() + "\\n"
assert re.search(r"^\\s*(root|ALL|%root)\\s+ALL\\s*=\\s*(\\(ALL(\\s*:\\s*ALL)?\\)\\s*)?((NO)?PASSWD:\\s*)?ALL\\s*$", rules, re.M)
"""


def _fixed(*checks: Check) -> Callable[[str], tuple[Check, ...]]:
    return lambda published: checks


_KNOWN: Mapping[str, Callable[[str], tuple[Check, ...]]] = {
    "8ddd84de17464a4b6a37e96f5d6ac937ce1dd5c5196eed78bd5a55487d5b67d1": _calc,
    "bc75b2778c644ec42abb46abec6eadf52812f10c02255a1c3b2b55c3ced0ae0c": _calc,
    "65ee4f3754ec893af569af2a8d97c232e2952cb884238b3dbf94e34e4001835c": _fixed(_probe(_COUNT_PROBE), _judge(_COUNT)),
    "1c06c3f29f90b9dd728faf14540bd9602f077af6777baf2c1fe13ae0b5e23285": _fixed(_probe(_DATE_PROBE), _judge(_DATE)),
    "ff19a3bf1d46efb950dba11ca86f0a4682c90aade7cf6c0905dafe1c2f2fe1b7": _fixed(
        _probe(_ECHO_LOVE_PROBE), _judge(_ECHO_LOVE)
    ),
    "6d60cc807d4ce7d24364265a4370a4b6c0b44824af4a493fba32efd331be53de": _fixed(_judge(_READABLE)),
    "092196ccaf2153107ef2612d1d4fe234a44aa46b63c70f1ddec08b1d1b87f5d6": _fixed(_judge(_SUID)),
    "6f1cafae49eea15369c7a1540d681e44eefff444a27d92a12a23cf7877295e36": _fixed(_judge(_VIDEOS)),
    "7b6d50ebc17c2c8d1876579250992f8262cb21321870a35dc243cc7165d63dbf": _fixed(_judge(_DATA)),
    "d7435e850e91ebf8e593863eddc52c6e1e97bf88fe3b5b4bd879bdc96772b7cb": _fixed(_probe(_SUDO_PROBE), _judge(_SUDO)),
}
