"""Templates on archives (tar, zip, gzip) and on packages that are installed without a network."""

# ruff: noqa: E501  # wordings and scripts are kept in one piece
from __future__ import annotations

from drafts import Draft, Scope, change, integer, string, template
from growth import name, parent
from tree import Tree, state_check
from words import PARTS, STEMS, WORDS

PACK_TAR = """import io, tarfile
def pack(path, members, kind):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as raw:
        with (gzip.GzipFile('', 'wb', 6, raw, 0) if kind == 'gz' else raw) as out, tarfile.open(fileobj=out, mode='w') as tar:
            for member, data, mode in members:
                info = tarfile.TarInfo(member)
                info.mode, info.mtime, info.size = mode, MOMENT, len(data.encode())
                tar.addfile(info, io.BytesIO(data.encode()))
    _late.append((path, MOMENT, MOMENT))"""
PACK_ZIP = """import zipfile
def pack(path, members, kind):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as out:
        for member, data, mode in members:
            info = zipfile.ZipInfo(member, (2023, 5, 4, 12, 0, 0))
            info.external_attr = mode << 16
            out.writestr(info, data)
    _late.append((path, MOMENT, MOMENT))"""

Member = tuple[str, str, int]


def _members(scope: Scope, n: int) -> list[Member]:
    made: dict[str, Member] = {}
    places = [
        scope.pick("", "./") + place for place in ["", *[part + "/" for part in scope.some(PARTS, 4)], "deep er/more/"]
    ]
    prefix = "./" if any(place.startswith("./") for place in places) else ""
    while len(made) < n:
        path = (
            prefix
            + scope.pick(*places).removeprefix("./")
            + f"{scope.pick('', '', '.')}{scope.pick(*STEMS)}{scope.pick('', ' ')}{scope.between(1, 99)}.{scope.pick('txt', 'log', 'cfg')}"
        )
        lines = [scope.pick(*WORDS) for _ in range(scope.between(1, 6))]
        made[path] = (path, "\n".join(lines) + "\n", scope.pick(0o644, 0o600, 0o755))
    return list(made.values())


def _packed(scope: Scope, n: int, *, wrong_suffix: float = 0.3) -> tuple[str, list[Member]]:
    """A tar archive, packed or not, whose suffix may lie about that."""
    members = _members(scope, n)
    kind = scope.pick("gz", "plain")
    suffix = {"gz": "tar.gz", "plain": "tar"}[kind] if not scope.chance(wrong_suffix) else scope.pick("tar", "backup")
    path = f"{scope.home()}/{scope.stem()}.{suffix}"
    scope.tree.code(PACK_TAR)
    scope.tree.code(f"pack({path!r}, {members!r}, {kind!r})")
    return path, members


@template("archives", "easy", 2)
def count_members(scope: Scope) -> Draft | None:
    path, members = _packed(scope, scope.between(14, 40))
    extension = scope.pick("txt", "log", "cfg")
    gold = sum(member.endswith("." + extension) for member, _, _ in members)
    question = scope.how_many(
        f"regular files ending in .{extension} in the tar archive {path}",
        "Its suffix may not tell how it is compressed.",
    )
    solution = f"tar -tf {path} | grep -c '\\.{extension}$'"
    return integer(scope, question, gold, solution, len(members), tags=["tar"])


@template("archives", "medium", 2)
def search_in_archive(scope: Scope) -> Draft | None:
    path, members = _packed(scope, scope.between(15, 30))
    word = scope.pick(*WORDS)
    lines = [line for _, data, _ in members for line in data.split()]
    word = scope.pick(*lines)
    code = scope.token(10)
    at = scope.between(0, len(members) - 1)
    if scope.chance(0.5):
        members[at] = (members[at][0], members[at][1] + f"secret={code}\n", members[at][2])
        scope.tree._calls[-1] = (
            f"pack({path!r}, {members!r}, {'gz' if 'gz' in scope.tree._calls[-1][-5:] else 'plain'!r})"
        )
        question = scope.ask(
            f"One of the files in the archive {path} has a line of the form secret=VALUE. What is VALUE?",
            f"Find the VALUE of the line secret=VALUE that is in some file inside {path} (a tar archive).",
        )
        return string(
            scope, question, code, f"tar -xOf {path} | sed -n 's/^secret=//p'", members[at][0], tags=["tar", "grep"]
        )
    gold = sum(any(line == word for line in data.split()) for _, data, _ in members)
    question = scope.how_many(f"files in the tar archive {path} with at least one line that is exactly '{word}'")
    solution = (
        f"mkdir /tmp/out && tar -xf {path} -C /tmp/out", f"grep -rlx '{word}' /tmp/out | wc -l",
    )  # fmt: skip
    return integer(scope, question, gold, solution, len(members), tags=["tar", "grep"])


@template("archives", "hard", 2)
def extract_some(scope: Scope) -> Draft | None:
    path, members = _packed(scope, scope.between(14, 24), wrong_suffix=0.5)
    extension = scope.pick("txt", "log", "cfg")
    chosen = [member for member in members if member[0].endswith("." + extension)]
    root = parent(path)
    target = f"{root}/restored"
    tree = scope.tree
    tree.folder(target)
    old = scope.pick(*chosen)[0].removeprefix("./") if chosen else ""
    if len(chosen) < 3:
        return None
    tree.file(f"{target}/{old}", "old content, to be replaced\n")
    tree.file(f"{target}/keep.me", f"{scope.token()}\n")
    after = tree.after()
    for member, data, mode in chosen:
        after.write(f"{target}/{member.removeprefix('./')}", data, mode=mode)
    loose = {p: "mo" for p in after.nodes if p.startswith(target + "/") and after.nodes[p].kind == "folder"}
    loose[path] = "c"
    tree.nodes[path] = after.nodes[path] = tree.nodes[f"{target}/keep.me"]
    question = scope.order(
        f"Restore all files ending in .{extension} from the tar archive {path} to the existing folder {target}, with the paths and permissions they have in the archive; what is there under the same path is replaced.",
        f"Unpack just the .{extension} files of the tar archive {path} below {target}, keeping their folders and modes and overwriting older copies.",
    )
    solution = f"tar -xpf {path} -C {target} --wildcards '*.{extension}'"
    slips = (
        f"tar -xpf {path} -C {target}",
        f"rm -rf {target}/* && tar -xpf {path} -C {target} --wildcards '*.{extension}'",
        f"tar -xpf {path} -C {target} --skip-old-files --wildcards '*.{extension}'",
    )
    return change(
        scope, question, state_check(tree, after, (root,), loose=loose), solution, *slips, tags=["tar", "restore"]
    )


TAR_LOOK = """import io, tarfile
found = content(ARCHIVE, 64 << 20)
if found is None or found[:2] != b'\\x1f\\x8b':
    wrong('no gzip file at ' + ARCHIVE)
try:
    with tarfile.open(fileobj=io.BytesIO(found), mode='r:gz') as tar:
        inside = [(m.name.removeprefix('./').rstrip('/'), m, tar.extractfile(m).read() if m.isreg() else b'') for m in tar.getmembers()]
except (tarfile.TarError, OSError, EOFError):
    wrong('not a tar archive')
facts = sorted(f"{n!r} {m.linkname if m.issym() else digest(d)} {oct(m.mode) if m.isreg() else ''}" for n, m, d in inside if not m.isdir())
if digest('\\n'.join(facts).encode()) != WANTED:
    wrong('other members: ' + repr(facts))
"""


@template("archives", "hard", 3)
def make_archive(scope: Scope) -> Draft | None:
    import inspection

    root = scope.home()
    tree = scope.tree
    source = f"{root}/{scope.part()}"
    for member, data, mode in _members(scope, scope.between(10, 18)):
        tree.file(f"{source}/{member.removeprefix('./')}", data, mode=mode)
    skip = scope.pick("log", "cfg", "txt")
    tree.file(f"{source}/.cache/big.txt", "cache\n")
    first = tree.files(source)[-1][0]
    tree.link(f"{source}/latest", name(first))
    inside = [
        (path, node)
        for path in tree.below(source)
        if (node := tree.nodes[path]).kind != "folder" and not path.endswith("." + skip) and "/.cache/" not in path
    ]
    if not any(path.endswith("." + skip) for path in tree.nodes) or len(inside) < 5:
        return None
    base = name(source)
    facts = sorted(
        f"{base + path[len(source) :]!r} {node.data.decode() if node.kind == 'link' else inspection.digest(node.data)} {oct(node.mode) if node.kind == 'file' else ''}"
        for path, node in inside
    )
    archive = f"{root}/{scope.stem()}.tar.gz"
    more = f"ARCHIVE, WANTED = {archive!r}, {inspection.digest(chr(10).join(facts).encode())!r}\n{TAR_LOOK}"
    after = tree.after()
    after.write(archive, "")
    question = scope.order(
        f"Pack the folder {source} into the gzip-compressed tar archive {archive}. Member names start with {base}/. Leave out files ending in .{skip} and the folder .cache; hidden files and symbolic links (as links) belong in it.",
        f"Create {archive} (tar, gzip) from {source}, with {base}/ as first part of every name, without *.{skip} files and without .cache, but with hidden files and with symbolic links kept as links.",
    )
    solution = f"tar -czf {archive} -C {root} --exclude='*.{skip}' --exclude=.cache {base}"
    slips = (
        f"tar -czf {archive} {source}",
        f"tar -czf {archive} -C {root} {base}",
        f"tar -cf {archive} -C {root} --exclude='*.{skip}' --exclude=.cache {base}",
        f"tar -czhf {archive} -C {root} --exclude='*.{skip}' --exclude=.cache {base}",
    )
    return change(
        scope,
        question,
        state_check(tree, after, (root,), loose={archive: "cm"}, more=more),
        solution,
        *slips,
        tags=["tar", "exclude"],
    )


@template("archives", "medium", 2, held_out=True)
def nested_zip(scope: Scope) -> Draft | None:
    members = _members(scope, scope.between(12, 20))
    path = f"{scope.home()}/{scope.stem()}.zip"
    code = scope.token(10)
    at = scope.between(2, len(members) - 1)
    members[at] = (members[at][0], f"{scope.pick(*WORDS)}\nkey: {code}\n", 0o644)
    scope.tree.code(PACK_ZIP)
    scope.tree.code(f"pack({path!r}, {members!r}, '')")
    question = scope.ask(f"A file inside the zip archive {path} has a line 'key: VALUE'. What is VALUE?")
    solution = f"python3 -c \"import zipfile; z = zipfile.ZipFile('{path}'); print(''.join(z.read(n).decode() for n in z.namelist()))\" | sed -n 's/^key: //p'"
    return string(scope, question, code, solution, members[at][0], members[0][0], tags=["zip"])


@template("archives", "easy", 2)
def total_unpacked(scope: Scope) -> Draft | None:
    path, members = _packed(scope, scope.between(14, 34))
    gold = sum(len(data.encode()) for _, data, _ in members)
    question = scope.what(
        f"the total length in bytes of all files in the tar archive {path} once they are unpacked",
        "It may be compressed, whatever it is called.",
    )
    return integer(scope, question, gold, f"tar -xOf {path} | wc -c", len(members), gold + 512, tags=["tar", "sum"])


DEBS = """import subprocess
def deb(path, fields, files):
    root = '/tmp/.deb-making'
    for member, data, mode in files:
        file(root + member, data, mode)
    file(root + '/DEBIAN/control', fields)
    done()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    subprocess.run(['dpkg-deb', '-Znone', '--root-owner-group', '-b', root, path], check=True, stdout=subprocess.DEVNULL, env={**os.environ, 'SOURCE_DATE_EPOCH': str(MOMENT)})
    subprocess.run(['rm', '-rf', root], check=True)
    _late.clear()"""


def _package_index(scope: Scope, path: str, n: int) -> list[dict[str, str]]:
    """A Packages file as of an apt archive; some packages in several versions."""
    found = []
    names = [
        f"{scope.pick('lib', '', 'python3-')}{stem}{scope.pick('', '-tools', '2', '-data')}"
        for stem in scope.some(STEMS, n)
    ]
    for each in names:
        for version in scope.some(
            ["1.0-1", "1.2-1", "1.10-1", "2.0~rc1-1", "2.0-1", "1:0.9-2"], scope.pick(1, 1, 1, 2, 3)
        ):
            depends = scope.some(names, scope.between(0, 3))
            record = {
                "Package": each,
                "Version": version,
                "Architecture": scope.pick("amd64", "all", "arm64"),
                "Installed-Size": str(scope.between(20, 9000)),
                "Section": scope.pick("net", "utils", "libs", "admin"),
            }
            if depends:
                record["Depends"] = ", ".join(
                    dep + scope.pick("", " (>= 1.0)", " | dummy") for dep in depends if dep != each
                )
            if not record.get("Depends", "x"):
                del record["Depends"]
            found.append(record)
    scope.tree.file(
        path, "".join("".join(f"{key}: {value}\n" for key, value in record.items()) + "\n" for record in found)
    )
    return found


@template("packages", "medium", 3)
def sum_packages(scope: Scope) -> Draft | None:
    path = f"{scope.home()}/dists/stable/Packages"
    records = _package_index(scope, path, scope.between(18, 30))
    section = scope.pick("net", "utils", "libs", "admin")
    architecture = scope.pick("amd64", "all", "arm64")
    fits = [record for record in records if record["Section"] == section and record["Architecture"] == architecture]
    gold = sum(int(record["Installed-Size"]) for record in fits)
    question = scope.what(
        f"the sum of Installed-Size over all entries of the package index {path} that are in section {section} and of architecture {architecture}",
        "If a package is listed in several versions, each entry counts.",
    )
    solution = f'awk -F\': \' \'{{v[$1] = $2}} !NF {{if (v["Section"] == "{section}" && v["Architecture"] == "{architecture}") s += v["Installed-Size"]; split("", v)}} END {{print s}}\' {path}'
    return integer(
        scope,
        question,
        gold,
        solution,
        sum(int(r["Installed-Size"]) for r in records if r["Section"] == section),
        len(fits),
        tags=["apt index"],
    )


@template("packages", "hard", 2)
def reverse_dependencies(scope: Scope) -> Draft | None:
    path = f"{scope.home()}/dists/stable/Packages"
    records = _package_index(scope, path, scope.between(18, 30))

    def needs(record: dict[str, str]) -> set[str]:
        return {part.split()[0] for part in record.get("Depends", "").split(", ") if part}

    package = scope.pick(*[each for record in records for each in sorted(needs(record))])
    users = sorted({record["Package"] for record in records if package in needs(record)})
    if len(users) < 2:
        return None
    question = scope.ask(
        f"Which packages in the index {path} name {package} in their Depends field, in any of their versions, as first alternative? List their names, separated by blanks.",
        f"List (separated by blanks) the names of the packages in {path} of which at least one entry depends on {package}, taking the first alternative of each dependency.",
    )
    solution = f'awk -F\': \' \'$1 == "Package" {{p = $2}} $1 == "Depends" {{n = split($2, d, ", "); for (i = 1; i <= n; i++) {{split(d[i], w, " "); if (w[1] == "{package}") print p}}}}\' {path} | sort -u | tr \'\\n\' \' \''
    return Draft(
        question,
        scope.tree,
        (solution,),
        " ".join(users),
        "items",
        tags=("apt index",),
        slips=(package, " ".join(users[1:]), " ".join([*users, package])),
    )


@template("packages", "medium", 3)
def inside_deb(scope: Scope) -> Draft | None:
    root = scope.home()
    tree = scope.tree
    tree.code(DEBS)
    codes = {}
    package = scope.stem()
    versions = scope.some(["1.2-1", "1.9-1", "1.10-1", "2.0~beta-1"], 3)
    for version in versions:
        code = scope.token(9)
        codes[version] = code
        fields = f"Package: {package}\nVersion: {version}\nArchitecture: all\nMaintainer: Nobody <nobody@example.com>\nDescription: {scope.pick(*WORDS)}\n"
        files = [
            (f"/etc/{package}/{package}.conf", f"mode=fast\nserial={code}\n", 0o644),
            (f"/usr/share/{package}/{scope.stem()}.txt", f"serial={scope.token(9)}\n", 0o600),
        ]
        tree.code(f"deb({f'{root}/pool/{scope.token(6)}.deb'!r}, {fields!r}, {files!r})")
    order = ["1.2-1", "1.9-1", "1.10-1", "2.0~beta-1"]
    newest = max(versions, key=order.index)
    question = scope.ask(
        f"{root}/pool holds .deb files of {package} whose names say nothing. What value does serial have in /etc/{package}/{package}.conf of the newest version (as dpkg compares versions)?",
        f"Among the packages in {root}/pool, take the one with the highest version by dpkg's rules. Which serial does it ship in /etc/{package}/{package}.conf?",
    )
    solution = (
        f'cd {root}/pool; for f in *.deb; do echo "$(dpkg-deb -f $f Version) $f"; done | sort -V',
        f'cd {root}/pool; best=; for f in *.deb; do v=$(dpkg-deb -f $f Version); if [ -z "$best" ] || dpkg --compare-versions $v gt $best; then best=$v; file=$f; fi; done; '
        f"dpkg-deb --fsys-tarfile $file | tar -xO ./etc/{package}/{package}.conf | sed -n 's/^serial=//p'",
    )
    others = [code for version, code in codes.items() if version != newest]
    return string(scope, question, codes[newest], solution, *others, tags=["deb"])


@template("packages", "hard", 2)
def unpack_deb(scope: Scope) -> Draft | None:
    root = scope.home()
    tree = scope.tree
    tree.code(DEBS)
    package = scope.stem()
    chosen: list[tuple[str, str, int]] = []
    wanted = f"{package}-tools"
    for each in (wanted, package, f"{package}-data"):
        fields = f"Package: {each}\nVersion: {scope.between(1, 4)}.{scope.between(0, 9)}-1\nArchitecture: all\nMaintainer: Nobody <nobody@example.com>\nDescription: {scope.pick(*WORDS)}\n"
        files = [
            (f"/opt/{package}/bin/{scope.pick(*STEMS)}", f"#!/bin/sh\necho {scope.token(6)}\n", 0o755),
            (f"/opt/{package}/etc/{scope.pick(*STEMS)}.conf", f"{scope.pick(*WORDS)}={scope.token(6)}\n", 0o640),
        ]
        chosen = chosen or files
        tree.code(f"deb({f'{root}/{scope.token(6)}.deb'!r}, {fields!r}, {files!r})")
    target = f"{root}/tree"
    tree.file(f"{target}/KEEP", f"{scope.token()}\n")
    after = tree.after()
    for member, data, mode in chosen:
        after.write(target + member, data, mode=mode)
    question = scope.order(
        f"One of the .deb files in {root} is the package {wanted}. Unpack its files (not the control files) below {target} without installing it, so that its /opt/{package} becomes {target}/opt/{package}; modes as in the package.",
        f"Find the .deb in {root} whose package name is {wanted} and extract its file tree, without its control data, into the existing folder {target}, keeping modes. Do not install it.",
    )
    solution = f'cd {root}; for f in *.deb; do [ "$(dpkg-deb -f $f Package)" = {wanted} ] && dpkg-deb -x $f {target}; done; true'
    slips = (
        f"cd {root}; for f in *.deb; do dpkg-deb -x $f {target}; done",
        f"cd {root}; for f in *.deb; do [ $(dpkg-deb -f $f Package) = {package} ] && dpkg-deb -x $f {target}; done; true",
    )
    return change(
        scope, question, state_check(tree, after, (target,), loose={target: "mo"}), solution, *slips, tags=["deb"]
    )


def folders_of(tree: Tree, root: str) -> list[str]:
    return [path for path in tree.below(root) if tree.nodes[path].kind == "folder"]
