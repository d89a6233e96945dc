"""Templates on modes, owners, symbolic links and hard links."""

# ruff: noqa: E501  # wordings and scripts are kept in one piece
from __future__ import annotations

import os
from collections.abc import Callable

from drafts import Draft, Scope, change, integer, string, template
from growth import fill, folders, name, newline_name, parent
from tree import Node, Tree, state_check
from words import STEMS

MODES = (0o600, 0o640, 0o644, 0o664, 0o666, 0o700, 0o755, 0o775, 0o777, 0o444, 0o4755, 0o2755)
UIDS = (1201, 1202, 1203, 1204)


def _mixed(scope: Scope, root: str, n: int, *, modes: tuple[int, ...] = MODES) -> None:
    """Files of many modes and owners."""
    places = folders(scope, root, scope.between(3, 5))
    while len(scope.tree.files(root)) < n:
        path = f"{scope.pick(*places)}/{scope.pick(*STEMS)}{scope.pick('', ' ', '-')}{scope.between(1, 99)}{scope.pick('.sh', '.conf', '.key', '', '.py')}"
        if path not in scope.tree.nodes:
            data = f"{scope.token(5)}\n"
            scope.tree.file(
                path, data, mode=scope.pick(*modes), uid=scope.pick(0, *UIDS), gid=scope.pick(0, 0, 1300, 1301)
            )
    scope.tree.link(f"{places[-1]}/{scope.stem()}", scope.tree.files(root)[0][0])


@template("permissions", "easy", 3)
def count_by_mode(scope: Scope) -> Draft | None:
    root = scope.home()
    _mixed(scope, root, scope.between(40, 80))
    files = [node for _, node in scope.tree.files(root)]
    kinds: tuple[tuple[str, str, Callable[[Node], bool]], ...] = (
        ("are writable by others (the world-write bit is set)", "-perm -o+w", lambda node: bool(node.mode & 0o002)),
        ("are executable for their owner", "-perm -u+x", lambda node: bool(node.mode & 0o100)),
        ("group members may write to (the group-write bit is set)", "-perm -g+w", lambda node: bool(node.mode & 0o020)),
        ("nobody but the owner has any permission on (no bit for group or others)", "! -perm /077", lambda node: not node.mode & 0o077),
        ("have the set-user-ID or the set-group-ID bit", "-perm /6000", lambda node: bool(node.mode & 0o6000)),
        ("others may neither read nor write nor execute", "! -perm /007", lambda node: not node.mode & 0o007),
    )  # fmt: skip
    what, test, fits = scope.pick(*kinds)
    gold = sum(fits(node) for node in files)
    question = scope.ask(
        f"How many regular files below {root} {what}?"
        if not what.startswith(("group", "nobody", "others"))
        else f"Count the regular files below {root} that {what}.",
        f"Look at {root} and everything below it: the number of regular files that {what}?",
    )
    return integer(
        scope,
        question,
        gold,
        f"find {root} -type f {test} -printf x | wc -c",
        len(files),
        len(files) - gold,
        tags=["find", "mode"],
    )


@template("permissions", "easy", 2)
def count_by_owner_and_mode(scope: Scope) -> Draft | None:
    root = scope.home()
    _mixed(scope, root, scope.between(60, 110))
    uid = scope.pick(*UIDS)
    files = [node for _, node in scope.tree.files(root)]
    bit, word = scope.pick(
        (0o004, "readable by others"), (0o002, "writable by others"), (0o100, "executable for the owner")
    )
    gold = sum(node.uid == uid and bool(node.mode & bit) for node in files)
    question = scope.how_many(
        f"regular files below {root} that belong to user ID {uid} and are {word}",
        scope.pick("", "Only permission bits matter here."),
    )
    test = {0o004: "-perm -o+r", 0o002: "-perm -o+w", 0o100: "-perm -u+x"}[bit]
    slips = (sum(node.uid == uid for node in files), sum(bool(node.mode & bit) for node in files))
    return integer(
        scope,
        question,
        gold,
        f"find {root} -type f -uid {uid} {test} -printf x | wc -c",
        *slips,
        tags=["find", "mode", "owner"],
    )


@template("permissions", "medium", 3)
def repair_modes(scope: Scope) -> Draft | None:
    root = scope.home()
    places = folders(scope, root, scope.between(3, 5))
    for place in places[1:]:
        if scope.chance(0.6):
            scope.tree.folder(place, mode=scope.pick(0o777, 0o700, 0o775))
    for _ in range(scope.between(12, 20)):
        path = f"{scope.pick(*places)}/{scope.pick(*STEMS)}{scope.pick('', ' ', '_')}{scope.between(1, 99)}{scope.pick('.sh', '.txt', '.html')}"
        if path not in scope.tree.nodes:
            scope.tree.file(path, f"{scope.token(5)}\n", mode=scope.pick(0o777, 0o666, 0o600, 0o755, 0o644))
    outside = f"/etc/{name(root)}-{scope.stem()}.conf"
    scope.tree.file(outside, f"{scope.token(5)}\n", mode=0o600)
    scope.tree.link(f"{root}/{scope.stem()}.conf", outside)
    folder_mode = scope.pick(0o755, 0o750, 0o2775)
    script_mode = scope.pick(0o755, 0o750, 0o744)
    file_mode = scope.pick(0o644, 0o640, 0o664)
    after = scope.tree.after()
    for path in scope.tree.below(root):
        node = scope.tree.nodes[path]
        if node.kind == "folder":
            after.change(path, mode=folder_mode)
        elif node.kind == "file":
            after.change(path, mode=script_mode if path.endswith(".sh") else file_mode)
    question = scope.order(
        f"Set the permissions below {root}: folders ({root} included) {folder_mode:o}, regular files ending in .sh {script_mode:o}, all other regular files {file_mode:o}.",
        f"Permissions in {root} are a mess. Every folder, {root} itself too, must get mode {folder_mode:o}; each regular file mode {file_mode:o}, except those named *.sh, which get {script_mode:o}.",
    )
    solution = (
        f"find {root} -type d -exec chmod {folder_mode:o} {{}} +\nfind {root} -type f -name '*.sh' -exec chmod {script_mode:o} {{}} +\n"
        f"find {root} -type f ! -name '*.sh' -exec chmod {file_mode:o} {{}} +"
    )
    slips = (
        f"chmod -R {folder_mode:o} {root}",
        f"find {root} -type f -exec chmod {file_mode:o} {{}} +",
        f"rm -rf {root}/*",
    )
    return change(scope, question, state_check(scope.tree, after, (root, outside)), solution, *slips, tags=["mode"])


@template("permissions", "easy", 2)
def hand_over_files(scope: Scope) -> Draft | None:
    root = scope.home()
    _mixed(scope, root, scope.between(18, 28), modes=MODES[:10])
    outside = f"/var/{name(root)}-{scope.stem()}"
    scope.tree.file(outside, f"{scope.token(5)}\n", uid=1201, gid=1300)
    scope.tree.link(f"{root}/{scope.stem()}.ref", outside)
    old, new, group = scope.pick(*UIDS), 1400 + scope.between(1, 40), 1500 + scope.between(1, 40)
    after = scope.tree.after()
    fits = [path for path, node in scope.tree.files(root) if node.uid == old]
    if len(fits) < 3:
        return None
    for path in fits:
        after.change(path, uid=new, gid=group)
    question = scope.order(
        f"User ID {old} has left. Give every regular file below {root} that belongs to that user ID to user ID {new} and group ID {group}.",
        f"Hand all regular files below {root} owned by user ID {old} over to user ID {new}, group ID {group} (there are no names for these IDs).",
    )
    solution = f"find {root} -type f -uid {old} -exec chown {new}:{group} {{}} +"
    slips = (f"chown -R {new}:{group} {root}", f"find {root} -type f -uid {old} -exec chown {new} {{}} +")
    return change(scope, question, state_check(scope.tree, after, (root, outside)), solution, *slips, tags=["owner"])


@template("permissions", "hard", 2, held_out=True)
def shared_folder(scope: Scope) -> Draft | None:
    root = scope.home()
    _mixed(scope, root, scope.between(10, 16), modes=MODES[:10])
    gid = 1600 + scope.between(1, 60)
    after = scope.tree.after()
    for path in scope.tree.below(root):
        node = scope.tree.nodes[path]
        if node.kind == "folder":
            after.change(path, gid=gid, mode=0o2770)
        elif node.kind == "file":
            after.change(path, gid=gid, mode=(node.mode | (node.mode & 0o700) >> 3) & 0o770)
    question = scope.order(
        f"Make {root} a folder shared by group ID {gid}: everything in it (folders and regular files, {root} included) gets that group; folders get mode 2770; "
        "for each regular file the group gets, besides what it has, the permissions its owner has, and others get none. Owners stay.",
    )
    solution = (
        f"find {root} ! -type l -exec chgrp {gid} {{}} +\nfind {root} -type d -exec chmod 2770 {{}} +\n"
        f"find {root} -type f -exec chmod g+u,o= {{}} +"
    )
    slip = f"chgrp -hR {gid} {root}\nchmod -R 2770 {root}"
    return change(scope, question, state_check(scope.tree, after, (root,)), solution, slip, tags=["mode", "group"])


def _resolve(tree: Tree, path: str) -> str | None:
    """Where a chain of links ends; None when it leads nowhere or round in a circle."""
    for _ in range(20):
        node = tree.nodes.get(path)
        if node is None or node.kind != "link":
            return None if node is None else path
        path = os.path.normpath(os.path.join(parent(path), node.data.decode()))
    return None


def _linked(scope: Scope, root: str) -> list[str]:
    """Links below ``root``: good, dangling, chained, circular, to folders."""
    tree = scope.tree
    places = folders(scope, root, 4)
    fill(scope, places, scope.between(10, 16))
    targets = [path for path, _ in tree.files(root)] + places[1:]
    links: list[str] = []
    for number in range(scope.between(14, 24)):
        path = f"{scope.pick(*places)}/{scope.pick(*STEMS)}{scope.pick('', ' ')}{number}"
        kind = scope.pick("good", "good", "relative", "dangling", "relative dangling", "chain")
        target = scope.pick(*targets)
        if kind == "chain" and links:
            target = scope.pick(*links)
        elif "dangling" in kind:
            target = f"{parent(target)}/{scope.pick(*STEMS)}.gone{number}"
        tree.link(path, os.path.relpath(target, parent(path)) if "relative" in kind else target)
        links.append(path)
    first, second = f"{places[1]}/ring-a", f"{places[2]}/ring-b"
    tree.link(first, second)
    tree.link(second, first)
    return [*links, first, second]


@template("links", "medium", 3)
def count_dangling_links(scope: Scope) -> Draft | None:
    root = scope.home()
    links = _linked(scope, root)
    broken = [path for path in links if _resolve(scope.tree, path) is None]
    good = scope.chance(0.3)
    gold = len(links) - len(broken) if good else len(broken)
    question = scope.how_many(
        f"symbolic links below {root} that lead to an existing file or folder"
        if good
        else f"symbolic links below {root} that do not lead to an existing file or folder",
        "Follow chains of links to their end; links that go round in a circle lead nowhere.",
    )
    solution = f"find {root} -type l {'' if good else '!'} -exec test -e {{}} ';' -printf x | wc -c"
    return integer(scope, question, gold, solution, len(links), len(links) - gold, tags=["symlink"])


@template("links", "easy", 2)
def remove_dangling_links(scope: Scope) -> Draft | None:
    root = scope.home()
    broken = [path for path in _linked(scope, root) if _resolve(scope.tree, path) is None]
    after = scope.tree.after()
    for path in broken:
        after.remove(path)
    question = scope.order(
        f"Delete the symbolic links below {root} that do not lead to an existing file or folder, also those in a circle. Links that work stay.",
        f"Clean up {root}: remove each symbolic link in it or its subfolders that is broken (its chain ends nowhere or is a circle).",
    )
    solution = f"find {root} -type l ! -exec test -e {{}} ';' -print0 > /tmp/broken\nxargs -0 rm -- < /tmp/broken"
    slips = (f"find {root} -type l -delete", f"find {root} -type l -name '*gone*' -delete")
    return change(
        scope, question, state_check(scope.tree, after, (root,)), solution, *slips, tags=["symlink", "delete"]
    )


@template("links", "hard", 2)
def relink_release(scope: Scope) -> Draft | None:
    root = scope.home()
    tree = scope.tree
    versions = [
        f"{major}.{minor}.{patch}"
        for major, minor, patch in scope.some(
            [(a, b, c) for a in range(1, 4) for b in (2, 9, 10, 11) for c in (0, 3, 12)], 6
        )
    ]
    for version in versions:
        tree.file(f"{root}/releases/{version}/VERSION", f"{version}\n")
        tree.file(f"{root}/releases/{version}/bin/run", f"#!/bin/sh\necho {scope.token(4)}\n", mode=0o755)
    order = sorted(versions, key=lambda version: [int(part) for part in version.split(".")])
    current, previous = scope.some(order[:-1], 2)
    tree.link(f"{root}/current", f"releases/{current}")
    tree.link(f"{root}/previous", f"{root}/releases/{previous}")
    tree.file(f"{root}/releases/notes.txt", "see the wiki\n")
    if max(versions) == order[-1]:
        return None
    after = tree.after()
    after.nodes[f"{root}/current"] = Node("link", f"releases/{order[-1]}".encode())
    after.nodes[f"{root}/previous"] = Node("link", f"releases/{current}".encode())
    question = scope.order(
        f"Deploy the highest version in {root}/releases (compare the three numbers): the symbolic link {root}/current must point to it, and {root}/previous to the version that was current until now. "
        "Both links must be relative, of the form releases/VERSION.",
    )
    solution = f'cd {root} && new=$(ls -d releases/*/ | sort -V | tail -n1) && new=${{new%/}} && old=$(readlink current) && ln -sfn "$old" previous && ln -sfn "$new" current'
    slips = (
        f"cd {root} && new=$(ls -d releases/*/ | sort | tail -n1) && ln -sfn $(readlink current) previous && ln -sfn ${{new%/}} current",
        f"cd {root} && ln -sf releases/{order[-1]} current",
    )
    return change(scope, question, state_check(tree, after, (root,)), solution, *slips, tags=["symlink", "versions"])


@template("links", "hard", 2)
def hard_link_names(scope: Scope) -> Draft | None:
    root = scope.home()
    tree = scope.tree
    places = folders(scope, root, 4)
    fill(scope, places, scope.between(10, 15), ["dat", "txt"], largest=3000)
    newline_name(scope, places[1], "dat")
    originals = [path for path, _ in tree.files(root)]
    names = dict.fromkeys(originals, 1)
    for number in range(scope.between(12, 22)):
        existing = scope.pick(*originals[:8])
        tree.hard(f"{scope.pick(*places)}/{scope.pick(*STEMS)} {number}.{scope.pick('dat', 'lnk')}", existing)
        names[existing] += 1
    if scope.chance(0.5):
        total = sum(node.n_bytes for path, node in tree.files(root) if path in originals)
        question = scope.what(
            f"the total length in bytes of the regular files below {root} when a file with several hard links counts only once"
        )
        solution = f"find {root} -type f -printf '%i %s\\n' | sort -u | awk '{{s += $2}} END {{print s}}'"
        return integer(
            scope,
            question,
            total,
            solution,
            sum(node.n_bytes for _, node in tree.files(root)),
            len(originals),
            tags=["hard link", "sum"],
        )
    order = sorted(originals, key=lambda path: -names[path])
    if names[order[0]] == names[order[1]] or "\n" in order[0]:
        return None
    tree.file(f"{root}/START", "Start with the file that has the most hard links.\n")
    code = scope.token(9)
    tree.code(f"open({order[0]!r}, 'r+').write({code!r})")
    question = scope.what(
        f"the first {len(code)} characters in the file below {root} that has the most hard links",
    )
    solution = f"f=$(find {root} -type f -printf '%n %p\\n' | sort -rn | head -n1 | cut -d' ' -f2-); head -c {len(code)} \"$f\"; echo"
    return string(scope, question, code, solution, name(order[0]), tags=["hard link"])
