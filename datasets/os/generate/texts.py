"""Templates on plain text and on logs: counting, cutting, joining, replacing; with carriage returns, comments and rotated files."""

# ruff: noqa: E501  # wordings and scripts are kept in one piece
from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from drafts import Draft, Scope, change, integer, string, template
from growth import city, name
from tree import Tree, state_check
from words import PEOPLE, SERVICES, STEMS, WORDS

START = 1_672_600_000
SHORT = r"\([A-Z]*\)"


def _prose(scope: Scope, path: str, n: int, *, end: str = "\n") -> list[str]:
    words = scope.some(WORDS, 24)
    words += [word.title() for word in words[:4]] + [word + "s" for word in words[4:8]] + [f"{words[0]}-{words[9]}"]
    return scope.tree.bulk(path, scope.seed(), n, "{} {} {}, {} {}. {} {}", *[words] * 7, end=end)


@template("text", "easy", 2)
def count_word(scope: Scope) -> Draft | None:
    path = f"{scope.home()}/{scope.stem()}.txt"
    lines = _prose(scope, path, scope.between(120, 400))
    word = scope.pick(*re.findall(r"[a-z]+", lines[0]))
    found = [token for line in lines for token in re.findall(r"[A-Za-z]+", line) if token.lower() == word.rstrip("s")]
    word = word.rstrip("s")
    question = scope.ask(
        f"How often does the word '{word}' occur in {path}, in any mix of upper and lower case? A word is an unbroken run of letters; longer words that contain it do not count.",
        f"Count the occurrences of the word '{word}' in {path}. Ignore case, and take only whole words (runs of letters).",
    )
    solution = f"tr -cs 'A-Za-z' '\\n' < {path} | grep -icx '{word}'"
    holding = sum(word in line.lower() for line in lines)
    return integer(
        scope, question, len(found), solution, holding, sum(line.count(word) for line in lines), tags=["grep", "words"]
    )


@template("text", "easy", 2)
def count_matching_lines(scope: Scope) -> Draft | None:
    path = (
        f"{scope.home()}/{scope.stem()} {scope.stem()}.txt"
        if scope.chance(0.4)
        else f"{scope.home()}/{scope.stem()}.txt"
    )
    lines = _prose(scope, path, scope.between(150, 500))
    one, other = scope.some(re.findall(r"\b[a-z]{4,}\b", " ".join(lines[:20])), 2)
    gold = sum(one in line and other not in line for line in lines)
    question = scope.how_many(
        f"lines in '{path}' that contain '{one}' but not '{other}'",
        "Upper and lower case differ, and parts of longer words count as well.",
    )
    solution = f"grep -F '{one}' '{path}' | grep -vcF '{other}'"
    return integer(
        scope,
        question,
        gold,
        solution,
        sum(one in line for line in lines),
        sum(other not in line for line in lines),
        tags=["grep"],
    )


@template("text", "medium", 2)
def frequent_word(scope: Scope) -> Draft | None:
    path = f"{scope.home()}/{scope.stem()}.txt"
    lines = _prose(scope, path, scope.between(150, 400), end=scope.pick("\n", "\r\n"))
    counts = Counter(token.lower() for line in lines for token in re.findall(r"[A-Za-z]+", line))
    place = scope.between(1, 4)
    order = counts.most_common(place + 2)
    if len({times for _, times in order[max(0, place - 2) : place + 1]}) < min(3, place + 1):
        return None
    ordinal = ("most frequent", "second most frequent", "third most frequent", "fourth most frequent")[place - 1]
    question = scope.what(
        f"the {ordinal} word in {path}", "A word is a run of letters; case does not matter. Answer in lower case."
    )
    solution = f"tr -cs 'A-Za-z' '\\n' < {path} | tr A-Z a-z | grep . | sort | uniq -c | sort -rn | sed -n {place}p | awk '{{print $2}}'"
    return string(
        scope,
        question,
        order[place - 1][0],
        solution,
        order[place][0],
        order[place - 1][0].title(),
        tags=["words", "sort"],
    )


@template("text", "easy", 2)
def count_distinct(scope: Scope) -> Draft | None:
    path = f"{scope.home()}/{scope.stem()}.list"
    names = [
        f"{person}{number}@{host}.example"
        for person in scope.some(PEOPLE, 16)
        for number in (1, 2, 7)
        for host in ("mail", "post")
    ]
    mixed = names + [each.upper() for each in names[:30]]
    lines = scope.tree.bulk(
        path, scope.seed(), scope.between(90, 190), "{}{}", scope.pick(["", "  "], [""]), mixed, end="\r\n"
    )
    gold = len({line.strip().lower() for line in lines})
    question = scope.how_many(
        f"different addresses in {path}, one address a line",
        "Case and surrounding blanks do not matter. The file comes from Windows.",
    )
    solution = f"tr -d '\\r ' < {path} | tr A-Z a-z | sort -u | wc -l"
    return integer(scope, question, gold, solution, len(set(lines)), len(lines), tags=["sort", "CRLF"])


@template("text", "medium", 3)
def replace_in_files(scope: Scope) -> Draft | None:
    root = scope.home()
    old, new = f"{scope.project()}.example.com", f"{scope.project()}.example.org"
    tree = scope.tree
    for _ in range(scope.between(7, 11)):
        path = f"{root}/{scope.pick('app', 'conf', 'conf/old files', '.config')}/{scope.stem()}{scope.pick('.conf', '.conf', '.txt', '.yaml')}"
        near = old.replace(".", "-", 1)
        kinds = [
            f"host = {old}",
            f"url = https://{old}:8443/{scope.token(3)}",
            f"alias = {near}",
            f"# {scope.pick(*WORDS)}",
            f"name = {scope.pick(*WORDS)}",
        ]
        end = "\r\n" if scope.chance(0.2) else "\n"
        tree.file(
            path,
            "".join(line + end for line in scope.some(kinds, 4)),
            mode=scope.pick(0o644, 0o640, 0o600),
            uid=scope.pick(0, 1500),
        )
    after = tree.after()
    touched = 0
    for path, node in tree.files(root):
        if path.endswith(".conf") and old.encode() in node.data:
            after.change(path, data=node.data.replace(old.encode(), new.encode()))
            touched += 1
    if touched < 2:
        return None
    question = scope.order(
        f"Our server moved: in every .conf file below {root}, hidden folders included, replace {old} by {new}. Owners and permissions of the files must stay the same, and so must files of other types.",
        f"Replace each occurrence of the exact host name {old} with {new} in all *.conf files in {root} and its subfolders. Keep owner, mode and line ends of each file.",
    )
    solution = f"find {root} -type f -name '*.conf' -print0 | while IFS= read -r -d '' f; do sed 's/{re.escape(old)}/{new}/g' \"$f\" > /tmp/new; cat /tmp/new > \"$f\"; done"
    slips = (
        f"find {root} -type f -print0 | xargs -0 sed -i 's/{re.escape(old)}/{new}/g'",
        f"sed -i 's/{re.escape(old)}/{new}/g' {root}/conf/*.conf",
        f"find {root} -type f -name '*.conf' -print0 | xargs -0 sed -i 's/{re.escape(old).replace('.', '.?')}/broken/g'",
    )
    return change(scope, question, state_check(tree, after, (root,)), solution, *slips, tags=["sed", "owner"])


@template("text", "hard", 2)
def merge_lists(scope: Scope) -> Draft | None:
    root = scope.home()
    tree = scope.tree
    pool = [f"{scope.pick(*PEOPLE)}.{scope.pick(*STEMS)}" for _ in range(30)]
    comments = ["# " + scope.pick(*WORDS), "", "   "]
    first = shuffle_lines(scope, f"{root}/{scope.stem()}.list", scope.some(pool, 18) + comments)
    second = shuffle_lines(scope, f"{root}/{scope.stem()}.list", scope.some(pool, 18) + comments, end="\r\n")
    a, b = ({line.strip() for line in tree.text(path).splitlines()} - {""} for path in (first, second))
    a, b = ({line for line in lines if not line.startswith("#")} for lines in (a, b))
    what, wanted = scope.pick(
        ("that occur in both files", a & b),
        (f"that occur in {name(first)} but not in {name(second)}", a - b),
        ("that occur in exactly one of the two files", a ^ b),
    )
    if len(wanted) < 3:
        return None
    target = f"{root}/{scope.stem()}.out"
    after = tree.after()
    after.write(target, "".join(line + "\n" for line in sorted(wanted)))
    question = scope.order(
        f"{first} and {second} hold one name a line, with comment lines (starting with #) and blank lines between them; one of them has Windows line ends. "
        f"Write to {target} the names {what}, each once, in LC_ALL=C order, one a line with Unix line ends.",
    )
    flag = {"both": "-12", "but": "-23", "exac": "-3"}["both" if "both" in what else "but" if "but" in what else "exac"]
    solution = (
        f"export LC_ALL=C; for f in {first} {second}; do tr -d '\\r' < $f | sed 's/[[:space:]]*$//' | grep -v '^#' | grep . | sort -u > /tmp/$(basename $f); done\n"
        f"comm {flag} /tmp/{name(first)} /tmp/{name(second)} | tr -d '\\t' | LC_ALL=C sort > {target}",
    )
    slips = (f"sort {first} {second} | uniq -d > {target}", f"sort -u {first} {second} > {target}", f": > {target}")
    return change(
        scope,
        question,
        state_check(tree, after, (root,), loose={target: "mt"}),
        solution,
        *slips,
        tags=["sets", "CRLF"],
    )


def shuffle_lines(scope: Scope, path: str, lines: list[str], end: str = "\n") -> str:
    scope.tree.file(path, "".join(line + end for line in scope.shuffled(lines)))
    return path


@template("text", "medium", 2, held_out=True)
def longest_line(scope: Scope) -> Draft | None:
    path = f"{scope.home()}/{scope.stem()}.txt"
    towns = [city(scope) for _ in range(8)]
    lines = scope.tree.bulk(
        path,
        scope.seed(),
        scope.between(120, 300),
        "{} {} {}{}",
        scope.some(WORDS, 30),
        towns,
        scope.some(WORDS, 30),
        ["", "", "", "!", "?!"],
    )
    if scope.chance(0.5):
        lengths = [len(line) for line in lines]
        longest = max(lengths)
        if lengths.count(longest) > 1:
            return None
        question = scope.what(
            f"the number of the longest line of {path}",
            "Lines count from 1; length is in characters (UTF-8), not bytes.",
        )
        solution = f'python3 -c \'ls = open("{path}", encoding="utf-8").read().splitlines(); print(max(range(len(ls)), key=lambda i: len(ls[i])) + 1)\''
        return integer(
            scope, question, lengths.index(longest) + 1, solution, lengths.index(longest), longest, tags=["unicode"]
        )
    gold = sum(line.endswith("?!") and line[0] < "n" for line in lines)
    question = scope.how_many(f"lines in {path} that start with a letter from a to m and end with '?!'")
    return integer(
        scope,
        question,
        gold,
        f"LC_ALL=C grep -c '^[a-m].*?!$' {path}",
        sum(line.endswith("!") for line in lines),
        len(lines),
        tags=["regex"],
    )


ACCESS = '{} - {} [{}] "{} {}{} HTTP/1.1" {} {}'


def _access(scope: Scope, path: str, n: int, start: int, *, packed: bool, pool: dict[str, list[str]]) -> list[str]:
    return scope.tree.bulk(
        path, scope.seed(), n, ACCESS, pool["hosts"], ["-", "-", "admin"], (start, 1, 240, "%d/%b/%Y:%H:%M:%S +0000"),
        ["GET", "GET", "GET", "POST", "HEAD"], pool["pages"], ["", "", "?id=404", "?from=500"], ["200", "200", "200", "301", "304", "403", "404", "500", "502"], (120, 9000),
        packed=packed,
    )  # fmt: skip


def _web_logs(scope: Scope) -> tuple[str, list[str], list[str]]:
    """A log with rotated, partly packed generations: its folder and name, all lines, and those of the youngest file."""
    folder = f"/var/log/{scope.project()}"
    pool = {
        "hosts": [f"10.{scope.between(0, 9)}.{scope.between(0, 99)}.{scope.between(2, 250)}" for _ in range(9)],
        "pages": ["/" + stem for stem in scope.some(STEMS, 9)],
    }
    everything: list[str] = []
    newest: list[str] = []
    n_old = scope.between(2, 3)
    for age in range(n_old, -1, -1):
        suffix = "" if age == 0 else f".{age}" if age == 1 else f".{age}.gz"
        newest = _access(
            scope,
            f"{folder}/access.log{suffix}",
            scope.between(60, 140),
            START - age * 40_000,
            packed=age > 1,
            pool=pool,
        )
        everything += newest
    scope.tree.file(f"{folder}/error.log", "".join(f"[error] {scope.pick(*pool['pages'])} 500\n" for _ in range(9)))
    return f"{folder}/access.log", everything, newest


@template("logs", "medium", 4)
def count_requests(scope: Scope) -> Draft | None:
    path, lines, newest = _web_logs(scope)
    status = scope.pick("404", "500", "403", "502")
    method = scope.pick("GET", "POST", "HEAD")
    gold = _count(lines, status, method)
    question = scope.how_many(
        f"{method} requests answered with status {status} in the access log {path} and its rotated generations beside it (.1, .2.gz, ...) together",
        "The status is the number after the quoted request.",
    )
    solution = f'for f in {path}*; do zcat -f $f; done | awk \'$6 == "\\"{method}" && $9 == {status}\' | wc -l'
    slips = (
        _count(newest, status, method),
        sum(status in line for line in lines),
        sum(f" {status} " in line for line in lines),
    )
    return integer(scope, question, gold, solution, *slips, tags=["awk", "gzip"])


def _count(lines: list[str], status: str, method: str) -> int:
    return sum(f'" {status} ' in line and f'"{method} ' in line for line in lines)


@template("logs", "hard", 3)
def busiest_client(scope: Scope) -> Draft | None:
    path, lines, _ = _web_logs(scope)
    fails = scope.chance(0.5)
    sent: Counter[str] = Counter()
    for line in lines:
        fields = line.split()
        if not fails or fields[8] >= "400":
            sent[fields[0]] += 1 if fails else int(fields[9])
    (best, most), (second, fewer) = sent.most_common(2)
    if most == fewer:
        return None
    aim = (
        "caused the most answers with a status of 400 or more"
        if fails
        else "was sent the most bytes in total (last column)"
    )
    asked = f"Over the access log {path} and all its rotated generations (.1, .2.gz, ...), which client address {aim}?"
    awk = "$9 >= 400 {s[$1]++}" if fails else "{s[$1] += $10}"
    solution = f"for f in {path}*; do zcat -f $f; done | awk '{awk} END {{for (k in s) print s[k], k}}' | sort -rn | head -n1 | cut -d' ' -f2"
    if scope.chance(0.4):
        question = scope.ask(
            asked.replace("which client address", "find the client address that").replace(
                "?", ". Answer with how much that was, as a number, instead of the address."
            )
        )
        return integer(
            scope,
            question,
            most,
            solution.replace("-f2", "-f1"),
            fewer,
            sum(sent.values()),
            tags=["awk", "gzip", "group"],
        )
    return string(
        scope,
        scope.ask(asked, f"{asked} Give the address only."),
        best,
        solution,
        second,
        tags=["awk", "gzip", "group"],
    )


@template("logs", "hard", 3)
def errors_between(scope: Scope) -> Draft | None:
    path = f"/var/log/{scope.project()}/{scope.stem()}.log"
    services = scope.some(SERVICES, 4)
    head = "\x00\x01\x02 old header\n" if scope.chance(0.5) else ""
    lines = scope.tree.bulk(
        path, scope.seed(), scope.between(250, 500), "{} {}[{}]: {}: {} {}", (START, 20, 400, "%Y-%m-%dT%H:%M:%SZ"), services, (100, 999),
        ["INFO", "INFO", "WARN", "ERROR", "DEBUG"], ["lost", "took", "found", "no ERROR in", "sent"], scope.some(WORDS, 12), head=head,
    )  # fmt: skip
    stamps = sorted(line.split()[0] for line in lines)
    low, high = stamps[scope.between(10, 90)], stamps[-scope.between(10, 90)]
    service = scope.pick(*services)
    level = scope.pick("ERROR", "WARN", "ERROR")
    fits = [
        line
        for line in lines
        if low <= line.split()[0] < high
        and line.split()[1].startswith(service + "[")
        and line.split()[2] == f"{level}:"
    ]
    slips = (
        sum(level in line and service in line for line in lines),
        sum(low <= line.split()[0] < high and level in line for line in lines),
    )
    question = scope.how_many(
        f"messages of level {level} that {service} wrote to {path} at or after {low} and before {high}",
        "Only the level field counts, not the text of the message.",
    )
    solution = (
        f"awk -v a={low} -v b={high} '$1 >= a && $1 < b && $2 ~ /^{service}\\[/ && $3 == \"{level}:\"' {path} | wc -l"
    )
    return integer(scope, question, len(fits), solution, *slips, tags=["awk", "time", "binary"])


@template("logs", "medium", 2)
def rotate_by_hand(scope: Scope) -> Draft | None:
    tree = scope.tree
    folder = f"/var/log/{scope.project()}"
    stem = scope.stem()
    keep = scope.between(3, 5)
    for age in range(keep + 1):
        tree.file(
            f"{folder}/{stem}.log" + f".{age}" * bool(age),
            "".join(f"{scope.token()} line {n}\n" for n in range(4)),
            mode=0o640,
            uid=0,
            gid=4,
        )
    tree.file(f"{folder}/{stem}.logic", "not a log\n")
    after = tree.after()
    after.remove(f"{folder}/{stem}.log.{keep}")
    for age in range(keep - 1, -1, -1):
        after.move(f"{folder}/{stem}.log" + f".{age}" * bool(age), f"{folder}/{stem}.log.{age + 1}")
    after.write(f"{folder}/{stem}.log", "", mode=0o640, gid=4)
    question = scope.order(
        f"Rotate {folder}/{stem}.log by hand, keeping {keep} old generations: .{keep} is dropped, each other generation moves up by one, the log itself becomes .1, "
        f"and a new empty {folder}/{stem}.log with the same owner, group and mode as the old one takes its place. Do not compress anything.",
    )
    solution = (
        f"cd {folder} && rm {stem}.log.{keep} && for i in $(seq {keep - 1} -1 1); do mv {stem}.log.$i {stem}.log.$((i + 1)); done && mv {stem}.log {stem}.log.1 "
        f"&& touch {stem}.log && chown --reference={stem}.log.1 {stem}.log && chmod --reference={stem}.log.1 {stem}.log"
    )
    slips = (
        f"cd {folder} && : > {stem}.log",
        f"cd {folder} && mv {stem}.log {stem}.log.1 && touch {stem}.log",
        f"rm {folder}/{stem}.log*",
    )
    return change(scope, question, state_check(tree, after, (folder,)), solution, *slips, tags=["rotation"])


@template("logs", "hard", 2, held_out=True)
def longest_pause(scope: Scope) -> Draft | None:
    path = f"/var/log/{scope.project()}/{scope.stem()}.log"
    lines = scope.tree.bulk(
        path,
        scope.seed(),
        scope.between(200, 350),
        "{} {} {}",
        (START, 5, 3000, ""),
        scope.some(SERVICES, 5),
        ["start", "stop", "ping"],
    )
    stamps = [int(line.split()[0]) for line in lines]
    gaps = sorted(later - earlier for earlier, later in pairwise(stamps))
    question = scope.ask(
        f"The first field of each line in {path} is a time in Unix seconds, rising. What is the longest pause between two lines that follow each other, in seconds?",
    )
    solution = f"awk 'NR > 1 && $1 - p > m {{m = $1 - p}} {{p = $1}} END {{print m}}' {path}"
    return integer(scope, question, gaps[-1], solution, gaps[-2], gaps[0], tags=["awk", "time"])


def rebuilt(tree: Tree, path: str, old: str, new: str) -> Tree:
    """The tree with one text replaced in one file."""
    after = tree.after()
    after.change(path, data=tree.nodes[path].data.replace(old.encode(), new.encode()))
    return after
