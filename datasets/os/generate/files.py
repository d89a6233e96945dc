"""Templates on finding, counting, moving, renaming and deleting files."""

# ruff: noqa: E501  # wordings and scripts are kept in one piece
from __future__ import annotations

from drafts import Draft, Scope, change, integer, size, string, template
from growth import DAY, EXTENSIONS, date, fill, folders, has_extension, lures, moment, name, newline_name, parent
from tree import Node, state_check
from words import STEMS


def _grown(scope: Scope, extension: str, *, n: int) -> str:
    """A home with files of several extensions, ``extension`` the most frequent."""
    root = scope.home()
    places = folders(scope, root, scope.between(3, 6))
    others = [each for each in scope.some(EXTENSIONS, 3) if each != extension]
    fill(scope, places, n, [extension, extension, *others])
    lures(scope, places, extension)
    newline_name(scope, scope.pick(*places), extension)
    return root


@template("files", "easy", 3)
def count_files_by_extension(scope: Scope) -> Draft | None:
    extension = scope.pick(*EXTENSIONS)
    root = _grown(scope, extension, n=scope.between(25, 60))
    files = [path for path, _ in scope.tree.files(root) if has_extension(path, extension)]
    entries = [path for path in scope.tree.below(root) if has_extension(path, extension)]
    question = scope.how_many(
        f"regular files whose name ends in .{extension} in {root} and all folders below it",
        scope.pick(
            "Hidden ones count, symbolic links and folders do not.",
            "Count hidden files too, but no links and no folders.",
        ),
    )
    solution = f"find {root} -type f -name '*.{extension}' -printf x | wc -c"
    in_top = sum(parent(path) == root for path in files)
    visible = sum("/." not in path for path in files)
    return integer(
        scope,
        question,
        len(files),
        solution,
        len(entries),
        in_top,
        *[visible] * (visible != len(files)),
        len(files) + 1,
        tags=["find"],
    )


@template("files", "medium", 3)
def count_files_by_size_and_time(scope: Scope) -> Draft | None:
    extension = scope.pick(*EXTENSIONS)
    root = _grown(scope, extension, n=scope.between(40, 70))
    limit = scope.between(15, 40) * 1000
    day = moment(scope) // DAY * DAY
    before = scope.chance(0.5)
    files = scope.tree.files(root)
    fits = [
        path
        for path, node in files
        if has_extension(path, extension) and node.n_bytes > limit and (node.mtime < day) == before
    ]
    loose = [path for path, node in files if node.n_bytes > limit and (node.mtime < day) == before]
    when = f"last modified {'before' if before else 'on or after'} {date(day)} (UTC)"
    question = scope.how_many(
        f"regular .{extension} files below {root} that are larger than {limit} bytes and were {when}",
        "Include hidden files.",
    )
    test = "!" if before else ""
    solution = f"find {root} -type f -name '*.{extension}' -size +{limit}c {test} -newermt '{date(day)} 00:00:00 UTC' -printf x | wc -c"
    if before:
        exact = f"find {root} -type f -name '*.{extension}' -size +{limit}c ! -newermt '{date(day - DAY)} 23:59:59 UTC' -printf x | wc -c"
        return integer(scope, question, len(fits), exact, len(loose), len(files), tags=["find", "time"])
    return integer(scope, question, len(fits), solution, len(loose), len(files), tags=["find", "time"])


@template("files", "medium")
def name_of_extreme_file(scope: Scope) -> Draft | None:
    extension = scope.pick(*EXTENSIONS)
    root = _grown(scope, extension, n=scope.between(30, 50))
    what = scope.pick("largest", "smallest", "newest", "oldest")
    files = [(path, node) for path, node in scope.tree.files(root) if has_extension(path, extension)]
    if len(files) < 6:
        return None

    def key(found: tuple[str, Node]) -> int:
        return found[1].n_bytes if what in ("largest", "smallest") else found[1].mtime

    order = sorted(files, key=key, reverse=what in ("largest", "newest"))
    if key(order[0]) == key(order[1]) or "\n" in order[0][0] + order[1][0] + order[-1][0]:
        return None
    reason = {"largest": "by size in bytes", "smallest": "by size in bytes"}.get(what, "by modification time")
    question = scope.what(
        f"the full path of the {what} regular .{extension} file ({reason}) in {root} and its subfolders"
    )
    field = "%s" if what in ("largest", "smallest") else "%T@"
    sort = "sort -zrn" if what in ("largest", "newest") else "sort -zn"
    solution = f"find {root} -type f -name '*.{extension}' -printf '{field} %p\\0' | {sort} | head -zn1 | tr '\\0' '\\n' | cut -d' ' -f2-"
    return string(scope, question, order[0][0], solution, order[1][0], order[-1][0], tags=["find", "sort"])


@template("files", "easy")
def total_size_of_files(scope: Scope) -> Draft | None:
    extension = scope.pick(*EXTENSIONS)
    root = _grown(scope, extension, n=scope.between(25, 50))
    files = [(path, node) for path, node in scope.tree.files(root) if has_extension(path, extension)]
    gold = sum(node.n_bytes for _, node in files)
    question = scope.what(
        f"the total size in bytes of all regular .{extension} files below {root}",
        "Add up the file lengths (what ls -l shows), not disk blocks; hidden files count.",
    )
    solution = f"find {root} -type f -name '*.{extension}' -printf '%s\\n' | awk '{{s += $1}} END {{print s}}'"
    in_top = sum(node.n_bytes for path, node in files if parent(path) == root)
    return size(
        scope,
        question,
        gold,
        solution,
        in_top,
        sum(node.n_bytes for _, node in scope.tree.files(root)),
        len(files),
        tags=["sum"],
    )


@template("files", "medium", 3)
def move_files_by_extension(scope: Scope) -> Draft | None:
    extension = scope.pick(*EXTENSIONS)
    root = scope.home()
    places = folders(scope, root, scope.between(3, 5))
    fill(
        scope,
        places,
        scope.between(16, 26),
        [extension, extension, *scope.some([e for e in EXTENSIONS if e != extension], 3)],
    )
    target = f"{root}/{scope.pick('collected', 'gathered', 'sorted', 'set-aside')}-{extension}"
    scope.tree.folder(f"{places[-1]}/{scope.stem()}.{extension}")
    scope.tree.link(f"{places[1]}/{scope.stem()}.{extension}", scope.tree.files(root)[0][0])
    moved = [path for path, _ in scope.tree.files(root) if has_extension(path, extension)]
    if (
        len({name(path) for path in moved}) < len(moved)
        or len(moved) < 4
        or all(parent(path) == root for path in moved)
    ):
        return None
    after = scope.tree.after()
    after.make(target)
    for path in moved:
        after.move(path, f"{target}/{name(path)}")
    question = scope.order(
        f"Move every regular file ending in .{extension} from {root} and its subfolders, hidden ones too, straight into the new folder {target}, under the same names.",
        f"Create {target} and move all regular .{extension} files found anywhere below {root} (including hidden ones) directly into it; keep their names.",
    )
    check = state_check(scope.tree, after, (root,), loose={target: "m"})
    solution = (
        f"mkdir {target}\nfind {root} -path {target} -prune -o -type f -name '*.{extension}' -exec mv -t {target} {{}} +",
    )
    copied = f"mkdir {target}\nfind {root} -path {target} -prune -o -type f -name '*.{extension}' -exec cp -pt {target} {{}} +"
    visible = f"mkdir {target}\nmv {root}/*.{extension} {target}"
    return change(scope, question, check, solution, copied, visible, f"mkdir {target}", tags=["find", "move"])


@template("files", "hard")
def rename_to_lower_case(scope: Scope) -> Draft | None:
    root = scope.home()
    places = folders(scope, root, 2)
    for number in range(scope.between(9, 14)):
        stem = scope.pick(*STEMS)
        stem = scope.pick(
            stem.title(), stem.upper(), stem, f"{stem.title()} Copy", f"{stem}_{scope.pick(*STEMS).upper()}"
        )
        scope.tree.file(f"{scope.pick(*places)}/{stem}{number}.{scope.pick('txt', 'TXT', 'Csv')}", f"{scope.token()}\n")
    scope.tree.file(f"{root}/READ ME.TXT", f"{scope.token()}\n")
    after = scope.tree.after()
    for path, _ in scope.tree.files(root):
        after.move(path, f"{parent(path)}/{name(path).lower().replace(' ', '_')}")
    if len(after.nodes) < len(scope.tree.nodes) or sum(path not in after.nodes for path in scope.tree.nodes) < 5:
        return None
    question = scope.order(
        f"Rename the regular files in {root} and its subfolders so that their names are all lower case with every blank replaced by an underscore; folders keep their names.",
        f"All regular files below {root} need tidy names: lower case letters only, and _ in place of each blank. Folder names stay.",
    )
    solution = (
        f"find {root} -type f -print0 | while IFS= read -r -d '' f; do b=${{f##*/}}; n=$(printf %s \"$b\" | tr 'A-Z ' 'a-z_')"
        ' && [ "$n" = "$b" ] || mv -n "$f" "${f%/*}/$n"; done'
    )
    slip = f'for f in $(find {root} -type f); do mv "$f" "$(echo "$f" | tr A-Z a-z)" 2>/dev/null; done; true'
    return change(
        scope,
        question,
        state_check(scope.tree, after, (root,)),
        solution,
        slip,
        f"rm -rf {root}",
        tags=["rename", "blanks"],
    )


@template("files", "medium")
def delete_old_files(scope: Scope) -> Draft | None:
    extension = scope.pick("tmp", "log", "bak", "dat")
    root = scope.home()
    places = folders(scope, root, scope.between(3, 4))
    fill(scope, places, scope.between(18, 28), [extension, extension, "txt", "conf"])
    newline_name(scope, scope.pick(*places), extension)
    scope.tree.link(f"{places[-1]}/current.{extension}", scope.tree.files(root)[0][0])
    day = moment(scope) // DAY * DAY
    gone = [path for path, node in scope.tree.files(root) if has_extension(path, extension) and node.mtime < day]
    kept = [path for path, node in scope.tree.files(root) if has_extension(path, extension) and node.mtime >= day]
    if len(gone) < 3 or len(kept) < 3:
        return None
    after = scope.tree.after()
    for path in gone:
        after.remove(path)
    question = scope.order(
        f"Delete all regular .{extension} files below {root} that were last modified before {date(day)} (UTC).",
        f"Old .{extension} files use up space: remove the regular ones anywhere below {root} whose modification time is before {date(day)}, 00:00 UTC.",
    )
    solution = f"find {root} -type f -name '*.{extension}' ! -newermt '{date(day - DAY)} 23:59:59 UTC' -delete"
    slips = (
        f"find {root} -name '*.{extension}' -delete",
        f"find {root} ! -newermt '{date(day)} UTC' -type f -delete",
        f"rm -rf {root}/*",
    )
    return change(
        scope, question, state_check(scope.tree, after, (root,)), solution, *slips, tags=["find", "delete", "time"]
    )


@template("files", "hard", held_out=True)
def split_by_year(scope: Scope) -> Draft | None:
    root = scope.home()
    scope.tree.folder(root)
    fill(scope, [root], scope.between(12, 18), ["jpg", "png", "pdf"], largest=4000)
    files = scope.tree.files(root)
    years = {path: date(node.mtime)[:4] for path, node in files}
    if len(set(years.values())) < 2:
        return None
    after = scope.tree.after()
    for year in set(years.values()):
        after.make(f"{root}/{year}")
    for path, year in years.items():
        after.move(path, f"{root}/{year}/{name(path)}")
    question = scope.order(
        f"Sort the files lying directly in {root} into subfolders named after the year of their last modification (UTC), such as {root}/2022. Hidden files too.",
        f"Move each file of {root}, hidden ones included, into a subfolder of {root} whose name is the four-digit year in which the file was last modified (UTC).",
    )
    solution = (
        f"cd {root} && find . -maxdepth 1 -type f -print0 | while IFS= read -r -d '' f; do y=$(date -u -r \"$f\" +%Y);"
        ' mkdir -p "$y"; mv "$f" "$y/"; done'
    )
    loose = {f"{root}/{year}": "m" for year in set(years.values())}
    slip = f'cd {root} && mkdir -p 2022 2023 && for f in *.*; do mv "$f" 2022/; done'
    return change(
        scope, question, state_check(scope.tree, after, (root,), loose=loose), solution, slip, tags=["time", "move"]
    )
