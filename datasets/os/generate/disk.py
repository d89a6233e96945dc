"""Templates on what fills a disk: heavy folders, sparse files, quotas and copies."""

# ruff: noqa: E501  # wordings and scripts are kept in one piece
from __future__ import annotations

from collections import Counter, defaultdict

from drafts import Draft, Scope, change, integer, size, string, template
from growth import EXTENSIONS, fill, folders, has_extension, name, parent
from tree import state_check
from words import STEMS


@template("disk", "medium", 3)
def heaviest_folder(scope: Scope) -> Draft | None:
    root = scope.home()
    places = folders(scope, root, scope.between(5, 8))
    tops = [place for place in places if parent(place) == root]
    fill(scope, places, scope.between(25, 45))
    weights = {top: sum(node.n_bytes for _, node in scope.tree.files(top)) for top in tops}
    order = sorted(tops, key=lambda top: -weights[top])
    if len(tops) < 3 or weights[order[0]] < weights[order[1]] + 500:
        return None
    question = scope.what(
        f"the name of the folder directly inside {root} whose files take the most bytes in total, all its subfolders included",
        "Count file lengths, not disk blocks. Hidden folders take part. Give the name only, not the path.",
    )
    solution = (
        f"cd {root} && find . -mindepth 2 -type f -printf '%P\\t%s\\n' | awk -F'\\t' '{{split($1, p, \"/\"); s[p[1]] += $2}}"
        " END {for (d in s) if (s[d] > m) {m = s[d]; b = d} print b}'"
    )
    return string(scope, question, name(order[0]), solution, name(order[1]), name(order[-1]), tags=["sum", "group"])


@template("disk", "medium")
def bytes_by_extension(scope: Scope) -> Draft | None:
    root = scope.home()
    places = folders(scope, root, scope.between(3, 5))
    extensions = scope.some(EXTENSIONS, 4)
    fill(scope, places, scope.between(30, 50), extensions)
    sums: Counter[str] = Counter()
    for path, node in scope.tree.files(root):
        sums[name(path).rpartition(".")[2]] += node.n_bytes
    (_, most), (second, _) = sums.most_common(2)
    question = scope.ask(
        f"Group all regular files below {root} by extension (the part after the last dot). How many bytes does the extension with the largest total have?",
        f"Which file extension (after the last dot) takes the most bytes below {root}? Answer with its total number of bytes.",
    )
    solution = (
        f"find {root} -type f -printf '%s %f\\n' | awk '{{n = $1; e = $0; sub(/.*\\./, \"\", e); s[e] += n}}"
        " END {for (e in s) if (s[e] > m) m = s[e]; print m}'"
    )
    return integer(scope, question, most, solution, sums[second], sum(sums.values()), tags=["sum", "group"])


@template("disk", "hard")
def sparse_files(scope: Scope) -> Draft | None:
    root = scope.home()
    places = folders(scope, root, 3)
    holes = []
    for number in range(scope.between(8, 14)):
        path = f"{scope.pick(*places)}/{scope.pick('disk', 'image', 'volume', 'db')}{scope.pick('-', ' ')}{number}.img"
        full = scope.between(1, 24) * 4096
        if scope.chance(0.5):
            length = full + scope.between(3, 40) * 65_536
            scope.tree.code(f"file({path!r}, b'#' * {full}, size={length})")
            holes.append(length)
        else:
            scope.tree.code(f"file({path!r}, b'#' * {full})")
    if len(holes) < 3:
        return None
    question = scope.what(
        f"the sum of the lengths in bytes (as shown by ls -l) of the sparse .img files below {root}",
        "A file is sparse when its allocated blocks are fewer than its length needs.",
    )
    solution = f"find {root} -type f -name '*.img' -printf '%s %b\\n' | awk '$2 * 512 < $1 {{s += $1}} END {{print s}}'"
    return size(scope, question, sum(holes), solution, len(holes), max(holes), tags=["sparse", "sum"])


@template("disk", "hard", 2)
def free_space_by_quota(scope: Scope) -> Draft | None:
    root = scope.home()
    places = folders(scope, root, 3)
    fill(scope, places, scope.between(14, 22), ["cache"], largest=90_000)
    fill(scope, places, 5, ["keep"])
    files = sorted(
        ((node.mtime, path, node) for path, node in scope.tree.files(root) if has_extension(path, "cache")),
        key=lambda each: each[0],
    )
    if len({each[0] for each in files}) < len(files):
        return None
    total = sum(node.n_bytes for _, _, node in files)
    limit = total * scope.between(35, 65) // 100
    after = scope.tree.after()
    left = total
    for _, path, node in files:
        if left <= limit:
            break
        after.remove(path)
        left -= node.n_bytes
    question = scope.order(
        f"The .cache files below {root} must together be at most {limit} bytes long. Delete them from the oldest (by modification time) on, one by one, and stop as soon as that holds.",
        f"Bring the total length of the .cache files in {root} and its subfolders down to at most {limit} bytes by deleting the least recently modified ones, no more of them than needed.",
    )
    solution = (
        f"cd {root}; total=$(find . -type f -name '*.cache' -printf '%s\\n' | awk '{{s += $1}} END {{print s}}')\n"
        "find . -type f -name '*.cache' -printf '%T@ %s %p\\0' | sort -zn | while IFS=' ' read -r -d '' t s p; do "
        f'[ "$total" -le {limit} ] && break; rm -- "$p"; total=$((total - s)); done'
    )
    slips = (
        f"find {root} -name '*.cache' -delete",
        f"cd {root}; rm -- \"$(find . -name '*.cache' -printf '%T@ %p\\n' | sort -n | tail -n1 | cut -d' ' -f2-)\"",
    )
    return change(
        scope, question, state_check(scope.tree, after, (root,)), solution, *slips, tags=["time", "delete", "sum"]
    )


@template("duplicates", "hard", 3)
def count_duplicates(scope: Scope) -> Draft | None:
    root = scope.home()
    _copies(scope, root)
    groups = _groups(scope, root)
    files = scope.tree.files(root)
    sets = [paths for paths in groups.values() if len(paths) > 1]
    extra = sum(len(paths) - 1 for paths in sets)
    members = sum(map(len, sets))
    forms = {
        "extra": (
            extra,
            f"How many regular files below {root} could be deleted without losing any content, keeping exactly one of each set of identical files?",
            len(files) - extra,
        ),
        "distinct": (
            len(groups),
            f"How many different contents do the regular files below {root} have (files with equal bytes count once)?",
            extra,
        ),
        "members": (
            members,
            f"How many regular files below {root} have the same content as at least one other regular file there?",
            len(sets),
        ),
    }
    what = scope.pick(*forms)
    gold, asked, slip = forms[what]
    awk = {
        "extra": "{n++; if (c[$1]++) e++} END {print e}",
        "distinct": "!c[$1]++ {d++} END {print d}",
        "members": "{c[$1]++} END {for (k in c) if (c[k] > 1) m += c[k]; print m}",
    }[what]
    solution = f"find {root} -type f -exec sha256sum -z {{}} + | tr '\\0\\n' '\\n_' | awk '{awk}'"
    return integer(
        scope,
        scope.ask(asked, f"{asked} Symbolic links do not count."),
        gold,
        solution,
        slip,
        len(files),
        tags=["hash", "group"],
    )


@template("duplicates", "hard", 2)
def remove_duplicates(scope: Scope) -> Draft | None:
    root = scope.home()
    _copies(scope, root)
    after = scope.tree.after()
    gone = 0
    for paths in _groups(scope, root).values():
        for path in sorted(paths)[1:]:
            after.remove(path)
            gone += 1
    if gone < 3:
        return None
    question = scope.order(
        f"Some regular files below {root} have identical content. Of each set of identical files keep only the one whose full path comes first in byte order (LC_ALL=C sort), delete the others.",
        f"Remove duplicate regular files below {root}: among files with equal bytes, the one with the first path in LC_ALL=C order stays, the rest goes.",
    )
    solution = (
        "export LC_ALL=C\n"
        f"find {root} -type f -print0 | sort -z | xargs -0 sha256sum -z | while IFS= read -r -d '' l; do h=${{l%% *}}; "
        'f=${l#*  }; case " $seen " in *" $h "*) rm -- "$f";; *) seen="$seen $h";; esac; done'
    )
    slips = (f"find {root} -name '*copy*' -type f -delete", f"find {root} -type f -empty -delete")
    return change(scope, question, state_check(scope.tree, after, (root,)), solution, *slips, tags=["hash", "delete"])


def _copies(scope: Scope, root: str) -> None:
    """Files of which some have the same bytes under other names, some the same name and size but other bytes."""
    places = folders(scope, root, 4)
    for number in range(scope.between(9, 15)):
        data = f"{scope.token(6)}\n"
        for copy in range(scope.pick(1, 1, 2, 3)):
            stem = scope.pick(*STEMS)
            path = f"{scope.pick(*places)}/{stem}{scope.pick('', ' copy', '-copy', '.bak')}-{number}{copy}{scope.pick('', '.txt')}"
            scope.tree.file(path, data)
    twins = scope.some(places, 2)
    for place in twins:
        scope.tree.file(f"{place}/notes.txt", f"{scope.token(6)}\n")
    scope.tree.link(f"{root}/latest", scope.tree.files(root)[0][0])


def _groups(scope: Scope, root: str) -> dict[bytes, list[str]]:
    groups: dict[bytes, list[str]] = defaultdict(list)
    for path, node in scope.tree.files(root):
        groups[node.data].append(path)
    return groups
