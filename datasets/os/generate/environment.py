"""Templates on the environment of shells: PATH, sourced files, login profiles."""

# ruff: noqa: E501  # wordings and scripts are kept in one piece
from __future__ import annotations

from collections import Counter

from drafts import Draft, Scope, change, integer, string, template
from inspection import digest
from tree import state_check
from words import PEOPLE, WORDS


@template("environment", "medium", 3)
def which_runs(scope: Scope) -> Draft | None:
    tree = scope.tree
    root = scope.home()
    command = f"{scope.stem()}-{scope.pick('run', 'sync', 'ctl')}"
    places = [
        f"{root}/{name}/bin"
        for name in scope.some(["local", "old", "new", "vendor", "team", "legacy", "shared", "alt"], 6)
    ]
    found = []
    for place in places:
        kind = scope.pick("good", "good", "no bit", "folder", "dangling", "absent")
        tree.folder(place)
        if kind == "good":
            tree.file(f"{place}/{command}", f"#!/bin/sh\necho {scope.token(5)}\n", mode=0o755)
            found.append(place)
        elif kind == "no bit":
            tree.file(f"{place}/{command}", f"#!/bin/sh\necho {scope.token(5)}\n", mode=0o644)
        elif kind == "folder":
            tree.folder(f"{place}/{command}")
        elif kind == "dangling":
            tree.link(f"{place}/{command}", f"{root}/gone/{command}")
    if len(found) < 2:
        return None
    order = scope.shuffled(places)
    runs = next(place for place in order if place in found)
    if order[0] == runs:
        return None
    path = ":".join([order[0], f"{root}/missing", *order[1:]])
    tree.file(f"{root}/env.sh", f'PATH="{path}"\nexport PATH\n')
    question = scope.ask(
        f"After '. {root}/env.sh', which file does the shell run for the command {command}? Give its full path.",
        f"With the PATH that {root}/env.sh sets, what is the full path of the program that runs when one types {command}?",
    )
    other = next(place for place in places if place in found and place != runs)
    return string(
        scope,
        question,
        f"{runs}/{command}",
        f"(. {root}/env.sh; type -P {command})",
        f"{order[0]}/{command}",
        f"{other}/{command}",
        tags=["PATH"],
    )


@template("environment", "easy", 3)
def layered_settings(scope: Scope) -> Draft | None:
    tree = scope.tree
    root = scope.home()
    keys = scope.some(["API_URL", "CACHE_DIR", "DB_HOST", "LOG_LEVEL", "MAX_JOBS", "QUEUE", "REGION", "TIMEOUT"], 5)
    values: dict[str, str] = {}
    layers = ["defaults.env", "site.env", f"{scope.pick('live', 'staging')}.env", "local.env"]
    for number, layer in enumerate(layers):
        lines = []
        for key in scope.some(keys, 5 if number == 0 else scope.between(2, 4)):
            value = f"{scope.pick(*WORDS)}-{scope.between(10, 99)}"
            lines.append(
                f"{scope.pick('', 'export ')}{key}={scope.pick(value, repr(value), f'{chr(34)}{value}{chr(34)}')}"
            )
            values[key] = value
            if scope.chance(0.3):
                lines.append(f"# {key}={scope.token(5)}")
            if scope.chance(0.25):
                values[key] = f"{value}-{number}"
                lines.append(f'{key}="${{{key}}}-{number}"')
        tree.file(f"{root}/{layer}", "\n".join(lines) + "\n")
    tree.file(f"{root}/load.sh", "".join(f'. "{root}/{layer}"\n' for layer in layers))
    tree.file(f"{root}/{scope.stem()}.env", "".join(f"{key}={scope.token(6)}\n" for key in keys))
    key = scope.pick(*keys)
    first = next(
        line.partition("=")[2].strip("'\"")
        for line in tree.text(f"{root}/{layers[0]}").splitlines()
        if line.removeprefix("export ").startswith(key + "=")
    )
    if values[key] == first:
        return None
    question = scope.ask(
        f"What is the value of {key} in a shell that has sourced {root}/load.sh?",
        f"A program sources {root}/load.sh. Which value does the variable {key} have then?",
    )
    return string(scope, question, values[key], f'(. {root}/load.sh; echo "${key}")', first, tags=["source"])


@template("environment", "hard", 3)
def login_variable(scope: Scope) -> Draft | None:
    tree = scope.tree
    project = scope.project()
    key = f"{project.upper()}_{scope.pick('HOME', 'ROOT', 'MODE', 'REGION')}"
    old, new = f"/opt/{project}-{scope.between(1, 4)}", f"/opt/{project} {scope.between(5, 9)}/{scope.part()}"
    first = f"/etc/profile.d/10-{project}.sh"
    last = f"/etc/profile.d/90-{scope.stem()}.sh"
    tree.file(first, f"export {key}={old}\nexport {project.upper()}_OPTS='-q -{scope.token(2)}'\n")
    tree.file(last, f'# loaded last\n[ -n "${key}" ] && export {key}=${{{key}%/}}\nexport {project.upper()}_LANG=en\n')
    options = tree.text(first).rpartition("=")[2].strip().strip("'")
    wanted = digest(f"{new}|{options}|en".encode())
    shell = f'printf "%s|%s|%s" "${key}" "${project.upper()}_OPTS" "${project.upper()}_LANG"'
    more = (
        "import subprocess\n"
        f"run = subprocess.run(['bash', '-lc', {shell!r}], env={{'HOME': '/root', 'PATH': '/usr/bin:/bin'}}, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, **outsider())\n"
        f"if digest(run.stdout) != {wanted!r}:\n    wrong('a login shell says ' + repr(run.stdout))\n"
    )
    after = tree.after()
    check = state_check(tree, after, (first, last), loose={first: "c", last: "c"}, more=more)
    question = scope.ask(
        f"In every login shell (bash -l) the variable {key} must have the value '{new}' instead of '{old}'; it has to be exported, and the other variables set in /etc/profile.d must stay as they are. Both files there that set variables of {project} must remain.",
    )
    solution = f'sed -i "s#^export {key}=.*#export {key}=\'{new}\'#" {first}\nsed -i \'s#^\\[ -n .*#[ -n "${key}" ] \\&\\& export {key}="${{{key}%/}}"#\' {last}'
    slips = (
        f"export {key}='{new}'",
        f"sed -i 's#{old}#{new}#' {first}",
        f"echo \"export {key}='{new}'\" > {first}",
        f"rm {last}",
    )
    return change(scope, question, check, solution, *slips, tags=["profile", "quoting"])


@template("environment", "hard", 2, held_out=True)
def count_settings(scope: Scope) -> Draft | None:
    path = f"{scope.home()}/{scope.stem()}.env"
    keys = [f"{person.upper()}_{word.upper()}" for person in scope.some(PEOPLE, 9) for word in ("url", "key")]
    lines = scope.tree.bulk(
        path,
        scope.seed(),
        scope.between(60, 110),
        "{}{}={}",
        ["", "", "export ", "# ", "#"],
        keys,
        ["", "", "a", "b1", "c22"],
    )
    final: dict[str, str] = {}
    for line in lines:
        if not line.startswith("#"):
            key, _, value = line.removeprefix("export ").partition("=")
            final[key] = value
    gold = sum(bool(value) for value in final.values())
    question = scope.how_many(
        f"different variables that have a non-empty value after {path} was sourced by a shell with an empty environment",
        "Later lines win; lines starting with # are comments.",
    )
    solution = f"env -i bash --noprofile --norc -c 'set -a; . {path}; env' | grep -E '^[A-Z]+_(URL|KEY)=.' | wc -l"
    counts = Counter(line.startswith("#") for line in lines)
    return integer(scope, question, gold, solution, *({len(final), counts[False]} - {gold}), tags=["source"])
