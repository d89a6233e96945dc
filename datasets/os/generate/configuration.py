"""Templates on configuration files: INI sections, drop-in folders, switches in comments."""

# ruff: noqa: E501  # wordings and scripts are kept in one piece
from __future__ import annotations

from drafts import Draft, Scope, change, integer, template
from growth import name
from tree import state_check
from words import SERVICES, WORDS

KEYS = ("timeout", "retries", "workers", "buffer", "level", "path", "limit", "interval", "depth", "quota")


def _ini(scope: Scope, sections: list[str], *, end: str = "\n") -> list[str]:
    lines = ["; written by setup", ""]
    for section in sections:
        lines.append(f"[{section}]")
        for key in scope.some(KEYS, scope.between(4, 6)):
            lines.append(f"{key}{scope.pick('=', ' = ', '= ')}{scope.between(2, 900)}")
            if scope.chance(0.25):
                lines.append(f"{scope.pick('#', ';')}{key} = {scope.between(2, 900)}")
        lines.append("")
    return lines


@template("configuration", "medium", 3)
def set_ini_value(scope: Scope) -> Draft | None:
    tree = scope.tree
    path = f"/etc/{scope.project()}/{scope.stem()}.ini"
    sections = scope.some(SERVICES, 5)
    lines = _ini(scope, sections)
    section = scope.pick(*sections[1:4])
    start = lines.index(f"[{section}]")
    end = lines.index("", start)
    live = [at for at in range(start + 1, end) if lines[at][0].isalpha()]
    at = scope.pick(*live)
    key = lines[at].split("=")[0].strip()
    if sum(line.split("=")[0].strip() == key for line in lines) < 2:
        return None
    new = str(scope.between(1000, 5000))
    mode = scope.pick(0o640, 0o600, 0o644)
    tree.file(path, "".join(line + "\n" for line in lines), mode=mode, gid=scope.pick(0, 4))
    tree.file(path + ".orig", "".join(line + "\n" for line in lines), mode=mode)
    wanted = [*lines[:at], f"{key} = {new}", *lines[at + 1 :]]

    def normal(text: list[str]) -> str:
        return "\n".join("=".join(part.strip() for part in line.split("=")) for line in text)

    from inspection import digest

    more = (
        f"found = (content({path!r}) or b'').decode('utf-8', 'replace').splitlines()\n"
        "found = '\\n'.join('='.join(part.strip() for part in line.split('=')) for line in found)\n"
        f"if digest(found.encode()) != {digest(normal(wanted).encode())!r}:\n    wrong('other lines')\n"
    )
    root = path.rpartition("/")[0]
    question = scope.order(
        f"Set {key} to {new} in the section [{section}] of {path}. Comments, order, other sections and the owner and mode of the file stay as they are.",
        f"In {path} the value of {key} in section [{section}] must be {new}; every other line, the comments too, keeps its place.",
    )
    solution = f"cp {path} /tmp/old && sed -E '/^\\[{section}\\]/,/^$/s/^{key} *=.*/{key} = {new}/' /tmp/old > {path}"
    slips = (
        f"sed -i -E 's/^{key} *=.*/{key} = {new}/' {path}",
        f"printf '[{section}]\\n{key} = {new}\\n' > {path}",
        f"sed -i -E 's/^[#;]{key} *=.*/{key} = {new}/' {path}",
    )
    return change(
        scope,
        question,
        state_check(tree, tree, (root,), loose={path: "c"}, more=more),
        solution,
        *slips,
        tags=["ini", "sed"],
    )


@template("configuration", "hard", 3)
def effective_value(scope: Scope) -> Draft | None:
    tree = scope.tree
    root = f"/etc/{scope.project()}"
    key = scope.pick(*KEYS)
    files = [
        "main.conf",
        *[f"conf.d/{number:02d}-{scope.pick(*WORDS)}.conf" for number in sorted(scope.some(range(5, 99), 5))],
    ]
    files += [f"conf.d/99-{scope.pick(*WORDS)}.conf.disabled", f"conf.d/.98-{scope.pick(*WORDS)}.conf"]
    value = last = ""
    first = ""
    for file in files:
        lines = []
        for each in scope.some(KEYS, 4):
            lines.append(f"{each} = {scope.between(100, 99_999)}")
            if scope.chance(0.3):
                lines.append(f"#{each} = {scope.between(100, 99_999)}")
        tree.file(f"{root}/{file}", "".join(line + "\n" for line in lines))
        found = [line.partition("= ")[2] for line in lines if line.startswith(f"{key} ")]
        if found:
            last = found[-1]
            first = first or last
            if file.endswith(".conf") and "/." not in file:
                value = last
    if not value or value in (first, last):
        return None
    question = scope.ask(
        f"A program reads {root}/main.conf and then, in byte order of their names, the files {root}/conf.d/*.conf as a shell would expand that pattern (no hidden files). A later value replaces an earlier one; lines starting with # are comments. Which value does {key} have in the end?",
    )
    solution = f"cat {root}/main.conf $(LC_ALL=C; ls {root}/conf.d/*.conf) | sed -n 's/^{key} = //p' | tail -n1"
    return integer(scope, question, int(value), solution, int(first), int(last), tags=["drop-in"])


@template("configuration", "easy", 2)
def switch_options(scope: Scope) -> Draft | None:
    tree = scope.tree
    path = f"/etc/{scope.project()}.conf"
    options = scope.some(WORDS, 12)
    lines = [
        f"{scope.pick('', '#', '# ')}{scope.pick('use', 'with')}-{option} {scope.pick('yes', 'no', 'auto')}"
        for option in options
    ]
    on = scope.some([line for line in lines if line.startswith("#")] or lines, 1)
    off = scope.some([line for line in lines if not line.startswith("#")] or lines, 1)
    if not on[0].startswith("#") or off[0].startswith("#"):
        return None
    tree.file(path, "## options\n" + "".join(line + "\n" for line in lines))
    tree.link(f"/etc/{scope.stem()}-link.conf", path)
    link = list(tree.nodes)[-1]
    after = tree.after()
    enabled, disabled = on[0].lstrip("# ").split()[0], off[0].split()[0]
    new = [line.lstrip("# ") if line == on[0] else f"#{line}" if line == off[0] else line for line in lines]
    after.change(path, data=("## options\n" + "".join(line + "\n" for line in new)).encode())
    question = scope.order(
        f"In the file that {link} points to, activate the option {enabled} (remove its comment sign and the blank after it, if any) and turn the line of {disabled} into a comment by a # right before it. {name(link)} must remain a symbolic link.",
    )
    solution = f"f=$(readlink -f {link}); sed -E -i 's/^# ?({enabled} )/\\1/; s/^({disabled} )/#\\1/' $f"
    slips = (
        f"sed -E -i 's/^# ?({enabled} )/\\1/; s/^({disabled} )/#\\1/' {link}",
        f"sed -E -i 's/^# ?({enabled} )/\\1/' {path}",
        f"sed -E -i 's/^# ?//; s/^({disabled} )/#\\1/' {path}",
    )
    return change(
        scope, question, state_check(tree, after, (path, link)), solution, *slips, tags=["comment", "symlink"]
    )


@template("configuration", "hard", 2, held_out=True)
def differing_keys(scope: Scope) -> Draft | None:
    tree = scope.tree
    root = scope.home()
    keys = [f"{a}.{b}" for a in scope.some(WORDS, 9) for b in ("size", "rate", "mode")]
    one = {key: str(scope.between(1, 9)) for key in keys}
    two = {key: one[key] if scope.chance(0.55) else str(scope.between(10, 19)) for key in keys if scope.chance(0.85)}
    for file, found in (("old.properties", one), ("new.properties", two)):
        tree.file(
            f"{root}/{file}",
            "# properties\n"
            + "".join(f"{key}{scope.pick('=', ' = ')}{value}\n" for key, value in scope.shuffled(found.items())),
        )
    gold = sum(one.get(key) != two.get(key) for key in keys)
    question = scope.how_many(
        f"keys whose value differs between {root}/old.properties and {root}/new.properties or that only one of the two files has",
        "Blanks around = do not matter.",
    )
    solution = (
        f"for f in old new; do grep -v '^#' {root}/$f.properties | sed 's/ *= */=/' | sort > /tmp/$f; done\n"
        "comm -3 /tmp/old /tmp/new | tr -d '\\t' | cut -d= -f1 | sort -u | wc -l",
    )
    return integer(
        scope,
        question,
        gold,
        solution,
        *({sum(key in two and one[key] != two[key] for key in keys), len(keys)} - {gold}),
        tags=["diff"],
    )
