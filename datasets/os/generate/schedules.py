"""Templates on jobs that cron would run; when they run is worked out here by a small model of cron."""

# ruff: noqa: E501  # wordings and scripts are kept in one piece
from __future__ import annotations

import re
from collections import defaultdict
from datetime import UTC, datetime, timedelta

from drafts import Draft, Scope, change, integer, string, template
from inspection import digest
from tree import state_check

JOBS = (
    "backup",
    "cleanup",
    "report",
    "sync",
    "rotate",
    "reindex",
    "mailout",
    "probe",
    "mirror",
    "purge",
    "digest",
    "warmup",
)


def _crontab(scope: Scope, n: int) -> tuple[str, list[tuple[str, str, str]]]:
    """A file as in /etc/cron.d, and its live entries: schedule, user, command."""
    lines = ["# maintained by hand", "SHELL=/bin/sh", "MAILTO=root", ""]
    entries = []
    for job in scope.some(JOBS, n):
        minute = scope.pick(
            str(scope.between(0, 59)),
            f"*/{scope.pick(5, 10, 15, 20)}",
            f"{scope.between(0, 9)}-{scope.between(30, 59)}/{scope.pick(7, 10)}",
            f"{scope.between(0, 20)},{scope.between(30, 59)}",
        )
        hour = scope.pick(
            "*",
            str(scope.between(0, 23)),
            f"{scope.between(1, 8)}-{scope.between(9, 20)}",
            f"*/{scope.pick(2, 3, 4, 6)}",
            f"{scope.between(0, 9)},{scope.between(12, 23)}",
        )
        day, weekday = scope.pick(
            ("*", "*"),
            ("*", "*"),
            (str(scope.between(1, 28)), "*"),
            ("*", scope.pick("1-5", "0", "mon", "6,0", "MON-THU", "2")),
        )
        schedule = f"{minute} {hour} {day} {scope.pick('*', '*', '*', '1-6', '*/2')} {weekday}"
        user = scope.pick("root", "root", "www-data", "backup")
        command = f"/usr/local/bin/{job} --quiet"
        if scope.chance(0.3):
            lines.append(f"#{schedule.replace('*', '5', 1)} {user} {command}")
        lines.append(schedule.replace(" ", scope.pick(" ", "\t", "  ")) + f" {user} {command}")
        entries.append((schedule, user, command))
    return "".join(line + "\n" for line in lines), entries


def _values(field: str, low: int, high: int) -> set[int]:
    names = {name: at for at, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
    found: set[int] = set()
    for part in field.lower().split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        start, end = (
            (low, high)
            if span == "*"
            else (names.get(first, -1), names.get(last or first, -1))
            if first in names
            else (int(first), int(last or first))
        )
        found |= set(range(start, end + 1, int(step or 1)))
    return found


def _runs(schedule: str, start: datetime, n_days: int) -> list[datetime]:
    """When the schedule is due; it names a day of the month or of the week, not both."""
    minutes, hours, days, months, weekdays = (
        _values(field, low, high)
        for field, (low, high) in zip(schedule.split(), ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6)), strict=True)
    )
    dates = [start + timedelta(days=day) for day in range(n_days)]
    fits = [date for date in dates if date.day in days and date.month in months and date.isoweekday() % 7 in weekdays]
    return [
        date.replace(hour=hour, minute=minute) for date in fits for hour in sorted(hours) for minute in sorted(minutes)
    ]


CRON_PROGRAM = """import datetime, re
NAMES = 'sun mon tue wed thu fri sat'.split()
def values(field, low, high):
    found = set()
    for part in field.lower().split(','):
        for at, name in enumerate(NAMES):
            part = part.replace(name, str(at))
        span, _, step = part.partition('/')
        a, _, b = span.partition('-')
        found |= set(range(low if a == '*' else int(a), (high if a == '*' else int(b or a)) + 1, int(step or 1)))
    return found
def entries(path):
    for line in open(path):
        if re.match(r'[0-9*]', line):
            yield line.split(None, 6)
def runs(fields, first, days):
    sets = [values(f, *b) for f, b in zip(fields, ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6)))]
    for day in range(days):
        d = first + datetime.timedelta(days=day)
        if d.day in sets[2] and d.month in sets[3] and d.isoweekday() % 7 in sets[4]:
            yield from (d.replace(hour=h, minute=m) for h in sorted(sets[1]) for m in sorted(sets[0]))
"""


@template("schedules", "hard", 3)
def count_runs(scope: Scope) -> Draft | None:
    path = f"/etc/cron.d/{scope.project()}"
    text, entries = _crontab(scope, scope.between(6, 9))
    scope.tree.file(path, text)
    first = datetime(2024, scope.between(1, 11), scope.between(1, 20), tzinfo=UTC)
    days = scope.pick(1, 3, 7, 10)
    last = first + timedelta(days=days - 1)
    period = (
        f"on {first:%A} {first:%Y-%m-%d}"
        if days == 1
        else f"from {first:%A} {first:%Y-%m-%d} to {last:%Y-%m-%d} (both days included)"
    )
    head = f"python3 - <<'END'\n{CRON_PROGRAM}first = datetime.datetime({first.year}, {first.month}, {first.day})\n"
    if scope.chance(0.5):
        schedule, _, command = scope.pick(*entries)
        job = command.split()[0].rpartition("/")[2]
        gold = len(_runs(schedule, first, days))
        question = scope.ask(
            f"How often does cron start the job {job} of {path} {period}?",
            f"According to {path}, how many times will {job} be run {period}?",
        )
        body = f"print(sum(len(list(runs(e[:5], first, {days}))) for e in entries('{path}') if '/{job} ' in e[6]))\nEND"
        return integer(scope, question, gold, head + body, gold * 2, gold + 1, tags=["cron"])
    user = scope.pick(*[user for _, user, _ in entries])
    gold = sum(len(_runs(schedule, first, days)) for schedule, owner, _ in entries if owner == user)
    question = scope.ask(f"How many commands does cron start in total as user {user} because of {path} {period}?")
    body = f"print(sum(len(list(runs(e[:5], first, {days}))) for e in entries('{path}') if e[5] == '{user}'))\nEND"
    total = sum(len(_runs(schedule, first, days)) for schedule, _, _ in entries)
    return integer(scope, question, gold, head + body, *[total] * (total != gold), gold + 2, tags=["cron"])


@template("schedules", "hard", 2)
def next_run(scope: Scope) -> Draft | None:
    path = f"/etc/cron.d/{scope.project()}"
    text, entries = _crontab(scope, scope.between(5, 8))
    scope.tree.file(path, text)
    schedule, _, command = scope.pick(*entries)
    job = command.split()[0].rpartition("/")[2]
    moment = datetime(
        2024, scope.between(1, 11), scope.between(1, 28), scope.between(0, 23), scope.between(0, 59), tzinfo=UTC
    )
    later = [run for run in _runs(schedule, moment.replace(hour=0, minute=0), 60) if run > moment]
    if len(later) < 2:
        return None
    question = scope.ask(
        f"It is {moment:%A} {moment:%Y-%m-%d %H:%M}. When will cron next start the job {job} of {path}? Answer in the form YYYY-MM-DD HH:MM.",
        f"When does the job {job} in {path} run for the first time after {moment:%Y-%m-%d %H:%M} (a {moment:%A})? Use the form YYYY-MM-DD HH:MM.",
    )
    solution = (
        f"python3 - <<'END'\n{CRON_PROGRAM}now = datetime.datetime({moment.year}, {moment.month}, {moment.day}, {moment.hour}, {moment.minute})\n"
        f"e = next(e for e in entries('{path}') if '/{job} ' in e[6])\nprint(min(r for r in runs(e[:5], now.replace(hour=0, minute=0), 60) if r > now).strftime('%Y-%m-%d %H:%M'))\nEND"
    )
    return string(
        scope,
        question,
        f"{later[0]:%Y-%m-%d %H:%M}",
        solution,
        f"{later[1]:%Y-%m-%d %H:%M}",
        f"{moment:%Y-%m-%d %H:%M}",
        tags=["cron"],
    )


@template("schedules", "medium", 3)
def edit_crontab(scope: Scope) -> Draft | None:
    project = scope.project()
    path = f"/etc/cron.d/{project}"
    text, entries = _crontab(scope, scope.between(5, 8))
    tree = scope.tree
    tree.file(path, text)
    other_path = f"/etc/cron.d/{scope.stem()}"
    tree.file(other_path, f"0 4 * * * root /usr/local/bin/{scope.pick(*JOBS)}\n")
    schedule, user, command = scope.pick(*entries)
    job = command.split()[0].rpartition("/")[2]
    live = [line for line in text.splitlines() if re.match(r"[0-9*]", line)]
    line = next(each for each in live if command in each)
    hour, minute = scope.between(0, 23), scope.between(0, 59)
    word, field = scope.pick(("Sunday", "0"), ("Monday", "1"), ("Wednesday", "3"), ("Saturday", "6"))
    kind = scope.pick("move", "disable", "hand over")
    if kind == "move":
        new = f"{minute} {hour} * * {field} {user} {command}"
        asked = f"The job {job} must from now on run once a week, on {word} at {hour:02d}:{minute:02d}; write its five time fields with plain numbers and *."
        sed = f"s#^[0-9*][^ \\t]*[ \\t].*({command}|{command.replace('-', '.')})$#{new}#"
    elif kind == "disable":
        new = "#" + line
        asked = f"The job {job} must no longer run: turn its line into a comment by putting # right before it."
        sed = f"/{job} /s/^[0-9*]/#&/"
    else:
        other = scope.pick(*[each for each in ("root", "www-data", "backup", "nobody") if each != user])
        new = f"{schedule} {other} {command}"
        asked = f"The job {job} must run as user {other} instead of {user}, at the same times."
        sed = f"/^[0-9*].*{job} /s/([ \\t]){user}[ \\t]/\\1{other} /"
    wanted = [new if each == line else each for each in text.splitlines()]
    normal = [" ".join(each.split()) for each in wanted if each.strip()]
    more = (
        f"found = (content({path!r}) or b'').decode('utf-8', 'replace')\nlines = [' '.join(line.split()) for line in found.splitlines() if line.strip()]\n"
        f"if digest('\\n'.join(lines).encode()) != {digest(chr(10).join(normal).encode())!r} or not found.endswith('\\n'):\n    wrong('other entries: ' + repr(lines))\n"
    )
    question = scope.order(
        f"In {path}: {asked} Keep the other lines and their order.",
        f"Edit {path}. {asked} All other lines, comments included, stay where they are.",
    )
    slips = (f"sed -i '/{job} /d' {path}", f"sed -i 's/{user}/nobody2/' {path}", f": > {path}")
    return change(
        scope,
        question,
        state_check(tree, tree, (path, other_path), loose={path: "c"}, more=more),
        f"sed -i -E '{sed}' {path}",
        *slips,
        tags=["cron", "edit"],
    )


@template("schedules", "medium", 2)
def busiest_user(scope: Scope) -> Draft | None:
    tree = scope.tree
    jobs: dict[str, int] = defaultdict(int)
    project = scope.project()
    for number in range(scope.between(5, 9)):
        text, entries = _crontab(scope, scope.between(4, 9))
        suffix = scope.pick("", "", ".bak", "~")
        if number < 3:
            suffix = ""
        tree.file(f"/etc/cron.d/{project}-{number}{suffix}", text)
        for _, user, _ in entries:
            jobs[user] += not suffix
    owner = scope.pick("root", "www-data", "backup")
    question = scope.how_many(
        f"active entries (lines with a schedule, not comments or variables) that run as {owner} in the files /etc/cron.d/{project}-* that cron reads",
        "Cron skips files whose name has anything but letters, digits, - and _.",
    )
    solution = f"ls /etc/cron.d | grep -E '^{project}-[A-Za-z0-9_-]*$' | sed 's#^#/etc/cron.d/#' | xargs cat | awk '/^[0-9*]/ && $6 == \"{owner}\"' | wc -l"
    return integer(scope, question, jobs[owner], solution, sum(jobs.values()), tags=["cron"])
