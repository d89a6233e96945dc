"""Templates on users and groups."""

# ruff: noqa: E501  # wordings and scripts are kept in one piece
from __future__ import annotations

from collections import Counter

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
        self.groups = {
            scope.pick("", "team-") + name: 2000 + 10 * at
            for at, name in enumerate(scope.some([stem for stem in STEMS if f"{stem}:" not in BASE_GROUPS], 5))
        }
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
        return BASE_GROUPS + "".join(
            f"{group}:x:{gid}:{','.join(self.members[group])}\n" for group, gid in self.groups.items()
        )

    def put(self, scope: Scope) -> None:
        scope.tree.file("/etc/passwd", self.passwd())
        scope.tree.file("/etc/group", self.group())
        for file, source in (("/etc/shadow", self.passwd()), ("/etc/gshadow", self.group())):
            rest = "*:19600:0:99999:7:::" if file == "/etc/shadow" else "*::"
            lines = [line.split(":") for line in source.splitlines()]
            tail = [":".join([rest]) if file == "/etc/shadow" else f"!::{fields[3]}" for fields in lines]
            scope.tree.file(
                file,
                "".join(f"{fields[0]}:{end}\n" for fields, end in zip(lines, tail, strict=True)),
                mode=0o640,
                gid=42,
            )

    def in_group(self, group: str) -> set[str]:
        primary = {user for user, fields in self.users.items() if fields[2] == str(self.groups[group])}
        return primary | set(self.members[group])

    def check(self, more: str = "") -> str:
        """That passwd and group say what they say here; the order of lines and of members is free."""
        from inspection import digest

        def facts(text: str) -> str:
            return digest(
                "\n".join(
                    sorted(
                        ":".join([*line.split(":")[:3], *sorted(line.split(":")[3].split(",")), *line.split(":")[4:]])
                        for line in text.splitlines()
                    )
                ).encode()
            )

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
    return integer(
        scope, question, gold, solution, sum(fields[5] == shell for fields in users), len(users), tags=["passwd"]
    )


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
    counts = Counter(
        {
            user: sum(user in accounts.in_group(group) for group in accounts.groups) + (fields[2] == "100")
            for user, fields in accounts.users.items()
        }
    )
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
    moving = [
        user for user in accounts.users if user in accounts.members[source] and user not in accounts.in_group(target)
    ]
    if len(moving) < 2:
        return None
    if not any(user in members for group, members in accounts.members.items() if group != source for user in moving):
        return None
    accounts.members[target] += moving
    drop = scope.chance(0.5)
    if drop:
        accounts.members[source] = [user for user in accounts.members[source] if user not in moving]
    left = f" and leave the member list of {source}" if drop else " and stay in the other group"
    question = scope.order(
        f"Make every user whom /etc/group lists as a member of {source} and who is in no way in {target} yet a supplementary member of {target}"
        + (f", and remove just these users from the member list of {source}." if drop else f"; they stay in {source}."),
        f"Take the users that /etc/group lists as members of {source}: those of them who are not in {target} so far, neither by primary group nor as members, must become supplementary members of {target}{left}.",
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
    lines = [
        "name;last day;reason",
        *[
            f"{user};2023-{scope.between(1, 12):02d}-{scope.between(1, 28):02d};{scope.pick('moved', 'retired')}"
            for user in leavers
        ],
        f"{scope.stem()};2023-02-02;unknown",
    ]
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
