"""Templates on scripts to write.

Invariant: a written script is judged by what it prints for inputs that the agent has not seen; the check holds digests of the
wanted outputs, never the outputs.
"""

# ruff: noqa: E501  # wordings and scripts are kept in one piece
from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from drafts import Draft, Scope, change, template
from inspection import digest
from tree import state_check
from words import PEOPLE, STEMS, WORDS

RUN = """import subprocess
def run(arguments, given):
    try:
        done = subprocess.run(['bash', '-c', 'exec "$@"', 'bash', PROGRAM, *arguments], cwd='/', input=given.encode(), capture_output=True, timeout=10, env={'PATH': '/usr/bin:/bin', 'HOME': '/root', 'LC_ALL': 'C.UTF-8'}, **outsider())
    except (OSError, subprocess.TimeoutExpired):
        return 'no end'
    return '\\n'.join(line.rstrip() for line in done.stdout.decode('utf-8', 'replace').strip().splitlines())


if fact(PROGRAM, 'o').partition(' ')[0] != 'file' or os.lstat(SESSION + PROGRAM).st_mode & 0o555 != 0o555:
    wrong('no file that everybody may execute at ' + PROGRAM)
for arguments, given, wanted in CASES:
    if digest(run(arguments, given).encode()) != wanted:
        wrong('another output for ' + repr((arguments, given)))
"""

Case = tuple[list[str], str]


def _written(
    scope: Scope,
    what: str,
    solve: Callable[[list[str], str], str],
    cases: list[Case],
    example: Case,
    code: str,
    *slips: str,
) -> Draft | None:
    """A task to write a program; ``code`` is a Python or bash source that does it, ``slips`` are sources that nearly do."""
    outputs = [solve(*case) for case in cases]
    if len(set(outputs)) < len(outputs) or not all(outputs):
        return None
    path = f"{scope.pick('/var/local/bin', '/opt/tools', scope.home())}/{scope.stem()}-{scope.pick('tool', 'run', 'calc', 'report')}"
    tree = scope.tree
    tree.folder(path.rpartition("/")[0])
    judged = [
        (arguments, given, digest("\n".join(line.rstrip() for line in output.strip().splitlines()).encode()))
        for (arguments, given), output in zip(cases, outputs, strict=True)
    ]
    arguments, given = example
    shown = f"For the input {given!r}" if given else "For example"
    shown += (
        f" with the argument{'s' * (len(arguments) > 1)} {' '.join(arguments)}"
        if arguments and given
        else f", with the argument{'s' * (len(arguments) > 1)} {' '.join(arguments)}" * bool(arguments)
    )
    question = scope.ask(
        f"Write a program {path}, executable for everybody (in any language that is installed here, with a proper first line), that {what}. {shown} it prints {solve(*example)!r}.",
        f"Create {path}, a script with mode 755 and a #! line, in a language that is available, that {what}. {shown} the output is {solve(*example)!r}.",
    )
    check = state_check(tree, tree, (), more=f"PROGRAM = {path!r}\nCASES = {judged!r}\n{RUN}")
    start = f"cat > {path} <<'END_OF_PROGRAM'\n"
    make = [f"{start}{source}\nEND_OF_PROGRAM\nchmod 755 {path}" for source in (code, *slips)]
    fixed = f"{start}#!/bin/sh\ncat <<'X'\n{solve(*example)}\nX\nEND_OF_PROGRAM\nchmod 755 {path}"
    return change(
        scope,
        question,
        check,
        make[0],
        *make[1:],
        fixed,
        f"{start}{code}\nEND_OF_PROGRAM\nchmod 644 {path}",
        tags=["program"],
    )


def _python(body: str) -> str:
    return f"#!/usr/bin/env python3\nimport sys\n{body}"


@template("scripts", "medium", 3)
def write_column_sum(scope: Scope) -> Draft | None:
    separator = scope.pick(":", ";", "|", ",")
    key_at, value_at = scope.some(range(1, 5), 2)
    rng = random.Random(scope.seed())

    def table(n: int) -> str:
        people = rng.sample(PEOPLE, 4)
        rows = []
        for _ in range(n):
            cells = [rng.choice(WORDS) for _ in range(4)]
            cells[key_at - 1], cells[value_at - 1] = rng.choice(people), str(rng.randint(1, 400))
            rows.append(separator.join(cells))
        return "".join(row + "\n" for row in rows[:2] + ["# comment"] * (n > 3) + rows[2:])

    def solve(_: list[str], given: str) -> str:
        sums: Counter[str] = Counter()
        for line in given.splitlines():
            if line and not line.startswith("#"):
                cells = line.split(separator)
                sums[cells[key_at - 1]] += int(cells[value_at - 1])
        return "\n".join(f"{key} {sums[key]}" for key in sorted(sums))

    body = (
        "sums = {}\nfor line in sys.stdin:\n    line = line.rstrip('\\n')\n    if not line.startswith('#') and line:\n"
        f"        cells = line.split({separator!r})\n        sums[cells[{key_at - 1}]] = sums.get(cells[{key_at - 1}], 0) + int(cells[{value_at - 1}])\n"
        "for key in sorted(sums):\n    print(key, sums[key])"
    )
    what = (
        f"reads lines of fields separated by '{separator}' from standard input and prints, for each different value of field {key_at}, that value, a blank and the sum of field {value_at} "
        "(whole numbers) over its lines, ordered by the value; lines that start with # are skipped"
    )
    cases: list[Case] = [([], table(n)) for n in (6, 12, 25)]
    return _written(
        scope,
        what,
        solve,
        cases,
        ([], table(3)),
        _python(body),
        _python(body.replace("sorted(sums)", "sums")),
        _python(body.replace("not line.startswith('#') and line", "line.count('" + separator + "') == 9")),
    )


@template("scripts", "medium", 3)
def write_top_words(scope: Scope) -> Draft | None:
    n = scope.between(2, 6)
    least = scope.between(3, 6)
    rng = random.Random(scope.seed())

    def prose(length: int) -> str:
        pool = [*rng.sample(WORDS, 9), "an", "of", "it"]
        return "".join(rng.choice(pool).title() + rng.choice([" ", ", ", ".\n", " "]) for _ in range(length)) + "\n"

    def solve(_: list[str], given: str) -> str:
        import re

        counts = Counter(word for word in re.findall(r"[a-z]+", given.lower()) if len(word) >= least)
        return "\n".join(
            f"{times} {word}" for word, times in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:n]
        )

    body = (
        f"import collections, re\ncounts = collections.Counter(w for w in re.findall('[a-z]+', sys.stdin.read().lower()) if len(w) >= {least})\n"
        f"for word, times in sorted(counts.items(), key=lambda i: (-i[1], i[0]))[:{n}]:\n    print(times, word)"
    )
    what = f"reads text from standard input and prints the {n} most frequent words with at least {least} letters, one a line as 'COUNT WORD', most frequent first and ties in alphabetical order; a word is a run of the letters a to z, in lower case"
    cases: list[Case] = [([], prose(length)) for length in (40, 90, 160)]
    if not any(len(line.split()[1]) == least for _, given in cases for line in solve([], given).splitlines()):
        return None
    return _written(
        scope,
        what,
        solve,
        cases,
        ([], prose(12)),
        _python(body),
        _python(body.replace(".lower()", "")),
        _python(body.replace(f">= {least}", f"> {least}")),
    )


@template("scripts", "medium", 3)
def write_conversion(scope: Scope) -> Draft | None:
    rng = random.Random(scope.seed())
    kind = scope.pick("duration", "roman", "size", "base", "shift", "acl")
    extra = scope.between(3, 23)
    values = [rng.randint(70, 3900) * (37 if kind in ("duration", "size") else 1) for _ in range(6)]

    def solve(arguments: list[str], _: str) -> str:
        return _converted(kind, arguments[0], extra)

    texts = {
        "duration": "takes a number of seconds as its only argument and prints it as HH:MM:SS (hours may have more than two digits, all parts at least two)",
        "roman": f"takes a whole number as its only argument, adds {extra} to it and prints the sum as a Roman numeral in capital letters",
        "size": "takes a number of bytes as its only argument and prints it with one decimal (cut off, not rounded) in the largest unit of B, KiB, MiB, GiB that leaves at least 1, such as 1.5 KiB; bytes are printed with one decimal too",
        "base": f"takes a whole number as its only argument and prints it in base {extra if extra > 10 else extra + 10} with the digits 0-9 and then lower-case letters",
        "shift": f"takes a word of lower-case letters as its only argument and prints it with each letter moved {extra} places on in the alphabet, starting again at 'a' after 'z'",
        "acl": f"takes an octal file mode of three digits as its only argument and prints it, with the bits of the mode {0o100 + extra:03o} removed, in the form of ls, such as rw-r-----",
    }
    given = [str(value) for value in values]
    if kind == "shift":
        given = rng.sample(WORDS, 6)
    elif kind == "acl":
        given = [f"{rng.randint(0o111, 0o777):03o}" for _ in range(6)]
    elif kind == "roman":
        given = [str(rng.randint(30, 3900)) for _ in range(6)]
    source = {
        "duration": "s = int(sys.argv[1])\nprint(f'{s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d}')",
        "roman": f"n = int(sys.argv[1]) + {extra}\nout = ''\nfor v, s in zip((1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1), 'M CM D CD C XC L XL X IX V IV I'.split()):\n    while n >= v:\n        out += s\n        n -= v\nprint(out)",
        "size": "n = int(sys.argv[1])\nunits = ['B', 'KiB', 'MiB', 'GiB']\nat = max(i for i in range(4) if i == 0 or n >= 1024 ** i)\ntenths = n * 10 // 1024 ** at\nprint(f'{tenths // 10}.{tenths % 10} {units[at]}')",
        "base": f"n = int(sys.argv[1])\nb = {extra if extra > 10 else extra + 10}\nout = ''\nwhile n:\n    out = '0123456789abcdefghijklmnopqrstuvwxyz'[n % b] + out\n    n //= b\nprint(out)",
        "shift": f"print(''.join(chr((ord(c) - 97 + {extra}) % 26 + 97) for c in sys.argv[1]))",
        "acl": f"m = int(sys.argv[1], 8) & ~{0o100 + extra}\nprint(''.join(c if m >> (8 - i) & 1 else '-' for i, c in enumerate('rwxrwxrwx')))",
    }[kind]
    cases: list[Case] = [([each], "") for each in given[:5]]
    slips = {
        "duration": source.replace("02d", "d"), "roman": source.replace(f" + {extra}", ""), "size": source.replace("1024", "1000"), "base": source.replace("n % b", "n % 10"),
        "shift": source.replace(f"+ {extra})", f"+ {extra + 1})"), "acl": source.replace("& ~", "| "),
    }  # fmt: skip
    return _written(scope, texts[kind], solve, cases, ([given[5]], ""), _python(source), _python(slips[kind]))


def _converted(kind: str, text: str, extra: int) -> str:
    if kind == "shift":
        alphabet = "abcdefghijklmnopqrstuvwxyz"
        return text.translate(str.maketrans(alphabet, alphabet[extra:] + alphabet[:extra]))
    if kind == "acl":
        mode = int(text, 8) & ~(0o100 + extra)
        return "".join(
            "".join(letter if digit & bit else "-" for letter, bit in zip("rwx", (4, 2, 1), strict=True))
            for digit in (mode >> 6, mode >> 3 & 7, mode & 7)
        )
    number = int(text)
    if kind == "duration":
        minutes, seconds = divmod(number, 60)
        return "{:02d}:{:02d}:{:02d}".format(*divmod(minutes, 60), seconds)
    if kind == "roman":
        places = (
            ("", "M", "MM", "MMM"),
            *(tuple(_digit(d, *letters) for d in range(10)) for letters in ("CDM", "XLC", "IVX")),
        )
        return "".join(place[int(digit)] for place, digit in zip(places, f"{number + extra:04d}", strict=True))
    if kind == "size":
        unit = 0
        while unit < 3 and number >= 1024 ** (unit + 1):
            unit += 1
        whole, rest = divmod(number, 1024**unit)
        return f"{whole}.{rest * 10 // 1024**unit} {('B', 'KiB', 'MiB', 'GiB')[unit]}"
    base = extra if extra > 10 else extra + 10
    digits = []
    while number:
        number, rest = divmod(number, base)
        digits.append(chr(48 + rest) if rest < 10 else chr(87 + rest))
    return "".join(reversed(digits))


def _digit(digit: int, one: str, five: str, ten: str) -> str:
    return ("", one, one * 2, one * 3, one + five, five, five + one, five + one * 2, five + one * 3, one + ten)[digit]


@template("scripts", "hard", 3)
def write_line_filter(scope: Scope) -> Draft | None:
    rng = random.Random(scope.seed())
    kind = scope.pick("runs", "pairs", "transpose", "ranges", "wrap")
    extra = scope.between(2, 9)

    def lines(n: int) -> str:
        if kind == "ranges":
            return "".join(f"{number}\n" for number in rng.sample(range(1, n * 2), n))
        if kind == "transpose":
            width = rng.randint(2, 5)
            return "".join(" ".join(rng.choice(STEMS) for _ in range(width)) + "\n" for _ in range(n // 3 + 2))
        if kind == "wrap":
            return " ".join(rng.choice(WORDS) for _ in range(n)) + "\n"
        pool = rng.sample(STEMS, 3 + extra // 3)
        return "".join(rng.choice(pool) + "\n" for _ in range(n))

    def solve(_: list[str], given: str) -> str:
        return _filtered(kind, given.splitlines(), extra)

    texts = {
        "runs": f"reads lines from standard input and prints each run of equal lines that follow each other as 'COUNT LINE', but only runs of up to {extra} lines",
        "pairs": f"reads lines from standard input and prints, in order of first appearance, each line that occurs at least twice, followed by a colon and the difference of the line numbers of its last and its first occurrence times {extra}",
        "transpose": f"reads a table of words separated by blanks (every line has equally many) from standard input and prints it transposed, with columns as lines, words separated by a comma, and the number {extra} at the end of each line after another comma",
        "ranges": f"reads different whole numbers, one a line, from standard input and prints them in rising order on one line, separated by commas, with each run of at least {max(3, extra // 2)} neighbours written as FIRST-LAST",
        "wrap": f"reads words separated by blanks from standard input and prints them in order on lines of at most {extra + 20} characters, putting as many words on each line as fit, with single blanks between them",
    }
    source = {
        "runs": f"import itertools\nfor line, run in itertools.groupby(sys.stdin.read().splitlines()):\n    n = len(list(run))\n    if n <= {extra}:\n        print(n, line)",
        "pairs": f"where = {{}}\nfor n, line in enumerate(sys.stdin.read().splitlines()):\n    where.setdefault(line, []).append(n)\nfor line, at in where.items():\n    if len(at) > 1:\n        print(f'{{line}}:{{(at[-1] - at[0]) * {extra}}}')",
        "transpose": f"for column in zip(*(line.split() for line in sys.stdin)):\n    print(','.join([*column, '{extra}']))",
        "ranges": f"runs = []\nfor n in sorted(map(int, sys.stdin)):\n    if runs and n == runs[-1][-1] + 1:\n        runs[-1].append(n)\n    else:\n        runs.append([n])\nprint(','.join(f'{{r[0]}}-{{r[-1]}}' if len(r) >= {max(3, extra // 2)} else ','.join(map(str, r)) for r in runs))",
        "wrap": f"import textwrap\nprint(textwrap.fill(sys.stdin.read(), {extra + 20}, break_on_hyphens=False))",
    }[kind]
    slips = {
        "runs": source.replace("itertools.groupby(sys.stdin.read().splitlines())", "itertools.groupby(sorted(sys.stdin.read().splitlines()))"),
        "pairs": source.replace("> 1", "> 0"), "transpose": source.replace("','.join", "' '.join"), "ranges": source.replace(">= ", ">= 9"), "wrap": source.replace(f"{extra + 20}", f"{extra + 13}"),
    }  # fmt: skip
    cases: list[Case] = [([], lines(n)) for n in (14, 30, 60)]
    return _written(scope, texts[kind], solve, cases, ([], lines(7)), _python(source), _python(slips[kind]))


def _filtered(kind: str, lines: list[str], extra: int) -> str:
    out: list[str] = []
    if kind == "runs":
        start = 0
        for at in range(1, len(lines) + 1):
            if at == len(lines) or lines[at] != lines[start]:
                out += [f"{at - start} {lines[start]}"] * (at - start <= extra)
                start = at
    elif kind == "pairs":
        for line in dict.fromkeys(lines):
            last = len(lines) - 1 - lines[::-1].index(line)
            out += [f"{line}:{(last - lines.index(line)) * extra}"] * (lines.count(line) > 1)
    elif kind == "transpose":
        table = [line.split() for line in lines]
        out = [",".join(row[at] for row in table) + f",{extra}" for at in range(len(table[0]))]
    elif kind == "ranges":
        numbers = {int(line) for line in lines}
        parts: list[str] = []
        for first in sorted(number for number in numbers if number - 1 not in numbers):
            last = first
            while last + 1 in numbers:
                last += 1
            parts += (
                [f"{first}-{last}"]
                if last - first + 1 >= max(3, extra // 2)
                else [str(number) for number in range(first, last + 1)]
            )
        out = [",".join(parts)]
    else:
        width, line = extra + 20, ""
        for word in " ".join(lines).split():
            if line and len(line) + 1 + len(word) > width:
                out.append(line)
                line = ""
            line = f"{line} {word}".strip()
        out.append(line)
    return "\n".join(out)


@template("scripts", "hard", 2, held_out=True)
def write_log_summary(scope: Scope) -> Draft | None:
    rng = random.Random(scope.seed())
    level = scope.pick("ERROR", "WARN")

    def log(n: int) -> str:
        return "".join(
            f"2024-01-{rng.randint(1, 6):02d} {rng.choice(['INFO', 'WARN', 'ERROR'])} {rng.choice(WORDS)}\n"
            for _ in range(n)
        )

    def solve(_: list[str], given: str) -> str:
        counts = Counter(line.split()[0] for line in given.splitlines() if line.split()[1] == level)
        days = sorted(line.split()[0] for line in given.splitlines())
        return "\n".join(f"{day} {counts[day]}" for day in dict.fromkeys(days))

    body = (
        "counts = {}\nfor line in sys.stdin:\n    day, level = line.split()[:2]\n"
        f"    counts[day] = counts.get(day, 0) + (level == '{level}')\nfor day in sorted(counts):\n    print(day, counts[day])"
    )
    what = f"reads log lines 'DATE LEVEL MESSAGE' from standard input and prints for each date that occurs, in rising order, the date and the number of its lines of level {level} (0 if it has none)"
    return _written(
        scope,
        what,
        solve,
        [([], log(n)) for n in (12, 30, 70)],
        ([], log(4)),
        _python(body),
        _python(body.replace("for day in sorted(counts):", "for day in sorted(d for d in counts if counts[d]):")),
    )
