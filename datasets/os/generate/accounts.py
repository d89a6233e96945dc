"""Templates on users and groups, and on jobs that cron would run."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from datetime import datetime, timedelta

from drafts import Draft, Scope, change, integer, string, template
from tree import state_check
from words import PEOPLE, STEMS

BASE = """root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
bin:x:2:2:bin:/bin:/usr/sbin/nologin
sys:x:3:3:sys:/dev:/usr/sbin/nologin
sync:x:4:65534:sync:/bin:/bin/sync
mail:x:8:8:mail:/var/mail:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
backup:x:34:34:backup:/var/backups:/usr/sbin/nologin
_apt:x:42:65534::/nonexistent:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
BASE_GROUPS = """root:x:0:
daemon:x:1:
bin:x:2:
sys:x:3:
adm:x:4:
tty:x:5:
mail:x:8:
sudo:x:27:
www-data:x:33:
backup:x:34:
shadow:x:42:
utmp:x:43:
users:x:100:
nogroup:x:65534:
"""
SHELLS = ["/bin/bash", "/bin/bash", "/bin/sh", "/usr/sbin/nologin", "/bin/false"]


class Accounts:
    """Users and groups of a machine; the whole of /etc/passwd and /etc/group is written, so that all of it is known."""

    def __init__(self, scope: Scope, n: int) -> None:
        self.groups = {scope.pick("", "team-") + name: 2000 + 10 * at for at, name in enumerate(scope.some([stem for stem in STEMS if f"{stem}:" not in BASE_GROUPS], 5))}
        self.users: dict[str, list[str]] = {}
        self.members: dict[str, list[str]] = {group: [] for group in self.groups}
        ids = scope.some(range(1001, 1900), n)
        for uid, user in zip(ids, scope.some(PEOPLE, n), strict=True):
            gid = scope.pick(*self.groups.values(), 100)
            home = scope.pick(f"/home/{user}", f"/home/{user}", f"/srv/home/{user}")
            self.users[user] = ["x", str(uid), str(gid), f"{user.title()},,,", home, scope.pick(*SHELLS)]
            for group in scope.some(sorted(self.groups), scope.between(0, 3)):
                self.members[group].append(user)

    def passwd(self) -> str:
        return BASE + "".join(":".join([user, *fields]) + "\n" for user, fields in self.users.items())

    def group(self) -> str:
        return BASE_GROUPS + "".join(f"{group}:x:{gid}:{','.join(self.members[group])}\n" for group, gid in self.groups.items())

    def put(self, scope: Scope) -> None:
        scope.tree.file("/etc/passwd", self.passwd())
        scope.tree.file("/etc/group", self.group())
        for file, source in (("/etc/shadow", self.passwd()), ("/etc/gshadow", self.group())):
            rest = "*:19600:0:99999:7:::" if file == "/etc/shadow" else "*::"
            lines = [line.split(":") for line in source.splitlines()]
            tail = [":".join([rest]) if file == "/etc/shadow" else f"!::{fields[3]}" for fields in lines]
            scope.tree.file(file, "".join(f"{fields[0]}:{end}\n" for fields, end in zip(lines, tail, strict=True)), mode=0o640, gid=42)

    def in_group(self, group: str) -> set[str]:
        primary = {user for user, fields in self.users.items() if fields[2] == str(self.groups[group])}
        return primary | set(self.members[group])

    def check(self, more: str = "") -> str:
        """That passwd and group say what they say here; the order of lines and of members is free."""
        from inspection import digest

        def facts(text: str) -> str:
            return digest("\n".join(sorted(":".join([*line.split(":")[:3], *sorted(line.split(":")[3].split(",")), *line.split(":")[4:]]) for line in text.splitlines())).encode())

        empty = Scope(__import__("random").Random(0)).tree
        return state_check(empty, empty, (), more=(
            "def entries(path):\n    lines = (content(path) or b'').decode('utf-8', 'replace').splitlines()\n    rows = [line.split(':') for line in lines]\n"
            "    if any(len(row) < 4 for row in rows):\n        wrong('a line that is no entry in ' + path)\n"
            "    return digest('\\n'.join(sorted(':'.join([*r[:3], *sorted(r[3].split(',')), *r[4:]]) for r in rows)).encode())\n\n\n"
            f"for path, wanted in (('/etc/passwd', {facts(self.passwd())!r}), ('/etc/group', {facts(self.group())!r})):\n"
            "    if entries(path) != wanted:\n        wrong(path + ' does not hold what it should')\n" + more
        ))  # fmt: skip


@template("accounts", "easy", 2)
def count_users(scope: Scope) -> Draft | None:
    accounts = Accounts(scope, scope.between(30, 62))
    accounts.put(scope)
    shell = scope.pick("/bin/bash", "/bin/sh", "/usr/sbin/nologin", "/bin/false")
    low = scope.between(1020, 1500)
    users = accounts.users.values()
    gold = sum(fields[5] == shell and int(fields[1]) >= low for fields in users)
    question = scope.how_many(f"accounts in /etc/passwd with a user ID from {low} to 1999 and the login shell {shell}")
    solution = f"awk -F: '$3 >= {low} && $3 <= 1999 && $7 == \"{shell}\"' /etc/passwd | wc -l"
    return integer(scope, question, gold, solution, sum(fields[5] == shell for fields in users), len(users), tags=["passwd"])


@template("accounts", "medium", 3)
def members_of_group(scope: Scope) -> Draft | None:
    accounts = Accounts(scope, scope.between(18, 34))
    accounts.put(scope)
    group = scope.pick(*accounts.groups)
    users = sorted(accounts.in_group(group))
    supplementary = sorted(set(accounts.members[group]))
    if users == supplementary or len(users) < 3:
        return None
    question = scope.ask(
        f"Who belongs to the group {group}, either as primary group or as a member listed in /etc/group? Give the user names, separated by blanks.",
        f"List all users of group {group} on this machine, separated by blanks: those with it as primary group and those it lists as members.",
    )
    solution = f"g=$(getent group {group} | cut -d: -f3); {{ awk -F: -v g=$g '$4 == g {{print $1}}' /etc/passwd; getent group {group} | cut -d: -f4 | tr ',' '\\n'; }} | grep . | sort -u | tr '\\n' ' '"
    slips = (" ".join(supplementary) or "none", " ".join(users[1:]), " ".join([*users, "root"]))
    return Draft(question, scope.tree, (solution,), " ".join(users), "items", tags=("group",), slips=slips)


@template("accounts", "medium", 2)
def user_in_most_groups(scope: Scope) -> Draft | None:
    accounts = Accounts(scope, scope.between(14, 24))
    accounts.put(scope)
    counts = Counter({user: sum(user in accounts.in_group(group) for group in accounts.groups) + (fields[2] == "100") for user, fields in accounts.users.items()})
    (best, most), (second, fewer) = counts.most_common(2)
    if most == fewer:
        return None
    question = scope.ask(
        "Which user is in the largest number of different groups, primary group included?",
        "Counting the primary group and all supplementary groups (each group once), which user of this machine belongs to the most groups?",
    )
    solution = "for u in $(cut -d: -f1 /etc/passwd); do echo \"$(id -G $u | wc -w) $u\"; done | sort -rn | head -n1 | cut -d' ' -f2"
    listed = Counter(user for found in accounts.members.values() for user in found).most_common(1)[0][0]
    return string(scope, question, best, solution, second, *[listed] * (listed != best), "root", tags=["id"])


@template("accounts", "medium", 3)
def add_to_group(scope: Scope) -> Draft | None:
    accounts = Accounts(scope, scope.between(12, 20))
    accounts.put(scope)
    source, target = scope.some(sorted(accounts.groups), 2)
    moving = [user for user in accounts.users if user in accounts.members[source] and user not in accounts.in_group(target)]
    if len(moving) < 2:
        return None
    if not any(user in members for group, members in accounts.members.items() if group != source for user in moving):
        return None
    accounts.members[target] += moving
    drop = scope.chance(0.5)
    if drop:
        accounts.members[source] = [user for user in accounts.members[source] if user not in moving]
    left = f" and takes them out of {source}" if drop else ""
    question = scope.order(
        f"Make every user whom /etc/group lists as a member of {source} and who is in no way in {target} yet a supplementary member of {target}"
        + (f", and remove just these users from the member list of {source}." if drop else f"; they stay in {source}."),
        f"/etc/group lists members of {source}. Write a change to the groups that adds those of them who are not in {target} so far (neither by primary group nor as members) to {target}{left}.",
    )
    listed = f"for u in $(getent group {source} | cut -d: -f4 | tr ',' ' '); do id -nG $u | tr ' ' '\\n' | grep -qx '{target}' && continue; usermod -aG {target} $u"
    solution = listed + (f" && gpasswd -d $u {source}" if drop else "") + "; done"
    slips = (
        listed.replace("-aG", "-G") + "; done",
        f"for u in $(getent group {source} | cut -d: -f4 | tr ',' ' '); do usermod -g {target} $u; done",
        listed + ("; done" if drop else f" && gpasswd -d $u {source}; done"),
    )
    return change(scope, question, accounts.check(), solution, *slips, tags=["usermod"])


@template("accounts", "hard", 2)
def create_user(scope: Scope) -> Draft | None:
    accounts = Accounts(scope, scope.between(8, 14))
    accounts.put(scope)
    user = next(name for name in scope.shuffled(PEOPLE) if name not in accounts.users)
    primary, extra = scope.some(sorted(accounts.groups), 2)
    uid = scope.between(3000, 3900)
    shell = scope.pick("/bin/bash", "/bin/sh")
    home = scope.pick(f"/home/{user}", f"/srv/people/{user}")
    accounts.users[user] = ["x", str(uid), str(accounts.groups[primary]), f"{user.title()} Temp", home, shell]
    accounts.members[extra].append(user)
    mode = scope.pick(0o700, 0o750)
    more = f"if fact({home!r}) != 'folder {mode:#o} {uid}:{accounts.groups[primary]}':\n    wrong('the home is ' + fact({home!r}))\n"
    question = scope.order(
        f"Create the user {user} with user ID {uid}, primary group {primary}, supplementary group {extra}, comment '{user.title()} Temp', shell {shell} and home {home}; the home folder must exist, belong to the user and the primary group, and have mode {mode:o}.",
    )
    base = f"mkdir -p {home.rpartition('/')[0]}\nuseradd -m -d {home} -u {uid} -g {primary} -G {extra} -c '{user.title()} Temp' -s {shell} {user}"
    slips = (base.replace(f" -G {extra}", ""), base.replace("-m ", "-M "), f"useradd -m {user}")
    return change(scope, question, accounts.check(more), (base, f"chmod {mode:o} {home}"), *slips, tags=["useradd"])


@template("accounts", "hard", 2, held_out=True)
def lock_leavers(scope: Scope) -> Draft | None:
    accounts = Accounts(scope, scope.between(16, 26))
    accounts.put(scope)
    leavers = scope.some(sorted(accounts.users), 6)
    path = f"/root/{scope.stem()}.csv"
    lines = ["name;last day;reason", *[f"{user};2023-{scope.between(1, 12):02d}-{scope.between(1, 28):02d};{scope.pick('moved', 'retired')}" for user in leavers], f"{scope.stem()};2023-02-02;unknown"]
    scope.tree.file(path, "".join(line + "\r\n" for line in lines))
    day = f"2023-{scope.between(4, 9):02d}-15"
    gone = [line.split(";")[0] for line in lines[1:-1] if line.split(";")[1] < day]
    if not 1 < len(gone) < 6:
        return None
    for user in gone:
        accounts.users[user][5] = "/usr/sbin/nologin"
        for members in accounts.members.values():
            if user in members:
                members.remove(user)
    question = scope.order(
        f"{path} lists people who left. For those of them with a last day before {day} who have an account here: set the login shell to /usr/sbin/nologin and remove them from all supplementary groups."
    )
    solution = f"tr -d '\\r' < {path} | awk -F';' 'NR > 1 && $2 < \"{day}\" {{print $1}}' | while read -r u; do id \"$u\" >/dev/null 2>&1 && usermod -s /usr/sbin/nologin -G '' \"$u\"; done; true"
    slips = (solution.replace(f'$2 < "{day}"', "1"), solution.replace(" -G ''", ""))
    return change(scope, question, accounts.check(), solution, *slips, tags=["usermod", "CRLF"])


JOBS = ("backup", "cleanup", "report", "sync", "rotate", "reindex", "mailout", "probe", "mirror", "purge", "digest", "warmup")


def _crontab(scope: Scope, n: int) -> tuple[str, list[tuple[str, str, str]]]:
    """A file as in /etc/cron.d, and its live entries: schedule, user, command."""
    lines = ["# maintained by hand", "SHELL=/bin/sh", "MAILTO=root", ""]
    entries = []
    for job in scope.some(JOBS, n):
        minute = scope.pick(str(scope.between(0, 59)), f"*/{scope.pick(5, 10, 15, 20)}", f"{scope.between(0, 9)}-{scope.between(30, 59)}/{scope.pick(7, 10)}", f"{scope.between(0, 20)},{scope.between(30, 59)}")
        hour = scope.pick("*", str(scope.between(0, 23)), f"{scope.between(1, 8)}-{scope.between(9, 20)}", f"*/{scope.pick(2, 3, 4, 6)}", f"{scope.between(0, 9)},{scope.between(12, 23)}")
        day, weekday = scope.pick(("*", "*"), ("*", "*"), (str(scope.between(1, 28)), "*"), ("*", scope.pick("1-5", "0", "mon", "6,0", "MON-THU", "2")))
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
        start, end = (low, high) if span == "*" else (names.get(first, -1), names.get(last or first, -1)) if first in names else (int(first), int(last or first))
        found |= set(range(start, end + 1, int(step or 1)))
    return found


def _runs(schedule: str, start: datetime, n_days: int) -> list[datetime]:
    """When the schedule is due; it names a day of the month or of the week, not both."""
    minutes, hours, days, months, weekdays = (
        _values(field, low, high) for field, (low, high) in zip(schedule.split(), ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6)), strict=True)
    )
    dates = [start + timedelta(days=day) for day in range(n_days)]
    fits = [date for date in dates if date.day in days and date.month in months and date.isoweekday() % 7 in weekdays]
    return [date.replace(hour=hour, minute=minute) for date in fits for hour in sorted(hours) for minute in sorted(minutes)]


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
    first = datetime(2024, scope.between(1, 11), scope.between(1, 20))
    days = scope.pick(1, 3, 7, 10)
    last = first + timedelta(days=days - 1)
    period = f"on {first:%A} {first:%Y-%m-%d}" if days == 1 else f"from {first:%A} {first:%Y-%m-%d} to {last:%Y-%m-%d} (both days included)"
    head = f"python3 - <<'END'\n{CRON_PROGRAM}first = datetime.datetime({first.year}, {first.month}, {first.day})\n"
    if scope.chance(0.5):
        schedule, _, command = scope.pick(*entries)
        job = command.split()[0].rpartition("/")[2]
        gold = len(_runs(schedule, first, days))
        question = scope.ask(f"How often does cron start the job {job} of {path} {period}?", f"According to {path}, how many times will {job} be run {period}?")
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
    moment = datetime(2024, scope.between(1, 11), scope.between(1, 28), scope.between(0, 23), scope.between(0, 59))
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
    return string(scope, question, f"{later[0]:%Y-%m-%d %H:%M}", solution, f"{later[1]:%Y-%m-%d %H:%M}", f"{moment:%Y-%m-%d %H:%M}", tags=["cron"])


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
    from inspection import digest

    more = (
        f"found = (content({path!r}) or b'').decode('utf-8', 'replace')\nlines = [' '.join(line.split()) for line in found.splitlines() if line.strip()]\n"
        f"if digest('\\n'.join(lines).encode()) != {digest(chr(10).join(normal).encode())!r} or not found.endswith('\\n'):\n    wrong('other entries: ' + repr(lines))\n"
    )
    question = scope.order(f"In {path}: {asked} Keep the other lines and their order.", f"Edit {path}. {asked} All other lines, comments included, stay where they are.")
    slips = (f"sed -i '/{job} /d' {path}", f"sed -i 's/{user}/nobody2/' {path}", f": > {path}")
    return change(scope, question, state_check(tree, tree, (path, other_path), loose={path: "c"}, more=more), f"sed -i -E '{sed}' {path}", *slips, tags=["cron", "edit"])


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
