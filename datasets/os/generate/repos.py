"""Templates on git repositories; object names are computed here, so that a check can compare whole histories.

Invariant: commits have given authors and times, so the same history has the same names everywhere.
"""

# ruff: noqa: E501  # wordings and scripts are kept in one piece
from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field

from drafts import Draft, Scope, change, integer, string, template
from inspection import digest
from tree import state_check
from words import PEOPLE, STEMS, WORDS

Files = dict[str, str]
START = 1_680_000_000


def _object(kind: str, data: bytes) -> str:
    return hashlib.sha1(f"{kind} {len(data)}\0".encode() + data).hexdigest()


def tree_name(files: Files) -> str:
    """The name git gives to a tree of regular files."""
    entries: dict[str, tuple[str, str]] = {}
    for top in sorted({path.partition("/")[0] for path in files}):
        inner = {path[len(top) + 1 :]: data for path, data in files.items() if path.startswith(top + "/")}
        entries[top] = ("40000", tree_name(inner)) if inner else ("100644", _object("blob", files[top].encode()))
    order = sorted(entries, key=lambda top: top + "/" * (entries[top][0] == "40000"))
    return _object(
        "tree", b"".join(f"{entries[top][0]} {top}\0".encode() + bytes.fromhex(entries[top][1]) for top in order)
    )


@dataclass(frozen=True, slots=True)
class Commit:
    name: str
    parent: str
    author: str
    time_s: int
    subject: str
    files: Files


@dataclass(slots=True)
class Repo:
    """A history on branches, written by ``git fast-import``."""

    path: str
    scope: Scope
    commits: list[Commit] = field(default_factory=list)
    branches: dict[str, Commit] = field(default_factory=dict)
    _stream: list[str] = field(default_factory=list)

    def commit(self, branch: str, author: str, subject: str, files: Files, *, base: str = "") -> Commit:
        parent = self.branches.get(branch) or self.branches.get(base)
        time_s = START + 7_000 * len(self.commits)
        who = f"{author.title()} <{author}@example.com> {time_s} +0000"
        text = (
            f"tree {tree_name(files)}\n"
            + (f"parent {parent.name}\n" if parent else "")
            + f"author {who}\ncommitter {who}\n\n{subject}\n"
        )
        made = Commit(
            _object("commit", text.encode()), parent.name if parent else "", author, time_s, subject, dict(files)
        )
        mark = len(self.commits) + 1
        lines = [
            f"commit refs/heads/{branch}\nmark :{mark}\nauthor {who}\ncommitter {who}\ndata {len(subject.encode()) + 1}\n{subject}\n"
        ]
        if parent:
            lines.append(f"from :{self.commits.index(parent) + 1}\n")
        before = parent.files if parent else {}
        lines += [f"D {path}\n" for path in before if path not in files]
        lines += [
            f"M 100644 inline {path}\ndata {len(data.encode())}\n{data}\n"
            for path, data in files.items()
            if before.get(path) != data
        ]
        self._stream += [*lines, "\n"]
        self.commits.append(made)
        self.branches[branch] = made
        return made

    def put(self, branch: str, *, tags: dict[str, Commit] | None = None) -> None:
        tree = self.scope.tree
        stream = "".join(self._stream)
        for tag, commit in (tags or {}).items():
            stream += f"reset refs/tags/{tag}\nfrom :{self.commits.index(commit) + 1}\n\n"
        tree.code(
            f"import subprocess\nfolder({self.path!r})\n"
            "def git(*words, stdin=None):\n"
            f"    subprocess.run(['git', '-C', {self.path!r}, *words], input=stdin, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={{'PATH': os.environ['PATH'], 'HOME': '/nonexistent', 'GIT_CONFIG_NOSYSTEM': '1'}})\n"
            f"git('init', '-q', '-b', {branch!r}, '--template=')\n"
            f"git('config', 'user.name', 'Operator')\ngit('config', 'user.email', 'operator@example.com')\n"
            f"git('fast-import', '--quiet', stdin={stream!r}.encode())\ngit('reset', '-q', '--hard', {branch!r})"
        )
        for path, data in self.branches[branch].files.items():
            tree._put(f"{self.path}/{path}", data.encode(), mode=0o644, uid=0, gid=0, mtime=0, size=None)

    def line_of(self, branch: str) -> list[Commit]:
        """The commits of a branch, oldest first."""
        named = {commit.name: commit for commit in self.commits}
        found: list[Commit] = []
        at: Commit | None = self.branches[branch]
        while at:
            found.append(at)
            at = named.get(at.parent)
        return found[::-1]


GIT_LOOK = """import subprocess
def git(*words):
    run = subprocess.run(['git', '-c', 'core.fsmonitor=false', '-c', 'log.showSignature=false', *words], cwd='/', stdin=subprocess.DEVNULL, capture_output=True, timeout=20, env={
        'PATH': '/usr/bin:/bin', 'HOME': '/nonexistent', 'GIT_CONFIG_NOSYSTEM': '1', 'GIT_NO_REPLACE_OBJECTS': '1', 'GIT_PAGER': 'cat', 'GIT_DIR': SESSION + REPO + '/.git'}, **outsider())
    return run.stdout.decode('utf-8', 'replace').strip() if run.returncode == 0 else 'failed'
"""


def git_check(repo: Repo, facts: dict[tuple[str, ...], str]) -> str:
    """Python that compares the output of git commands; ``facts`` maps a command to what it must print."""
    wanted = {words: digest(text.strip().encode()) for words, text in facts.items()}
    return f"REPO = {repo.path!r}\n{GIT_LOOK}for words, wanted in {wanted!r}.items():\n    if digest(git(*words).encode()) != wanted:\n        wrong('git ' + ' '.join(words) + ': ' + git(*words))\n"


def heads(repo: Repo, **changed: str) -> tuple[tuple[str, ...], str]:
    """The command and output that list all branches with their commits."""
    names = {branch: commit.name for branch, commit in repo.branches.items()} | changed
    return ("for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads"), "\n".join(
        f"{branch} {name}" for branch, name in sorted(names.items())
    )


def _history(scope: Scope, n: int) -> Repo:
    """A repository with files in two folders, several authors, and a side branch with commits of its own."""
    repo = Repo(scope.home(), scope)
    authors = scope.some(PEOPLE, 4)
    paths = [
        f"{scope.pick('src', 'docs', 'conf')}/{stem}.{scope.pick('py', 'md', 'ini')}" for stem in scope.some(STEMS, 6)
    ]
    files = {path: _content(scope) for path in paths[:3]} | {"README.md": f"{scope.pick(*WORDS)}\n"}
    repo.commit("main", authors[0], "Start of the project", files)
    for number in range(n):
        side = number > n // 3 and scope.chance(0.25)
        branch = "feature" if side else "main"
        base = repo.branches.get(branch) or repo.branches["main"]
        files = dict(base.files)
        for path in scope.some(paths, scope.pick(1, 1, 2)):
            if path in files and scope.chance(0.12) and len(files) > 3:
                del files[path]
            else:
                files[path] = files.get(path, "") + _content(scope)
        subject = f"{scope.pick('Add', 'Fix', 'Change', 'Tidy')} {scope.pick(*WORDS)} {scope.pick(*STEMS)} {number}"
        if files != base.files:
            repo.commit(branch, scope.pick(*authors, authors[0]), subject, files, base="main")
    if "feature" not in repo.branches:
        repo.commit(
            "feature", authors[1], "Try something", {**repo.branches["main"].files, "TRY.md": "x\n"}, base="main"
        )
    return repo


def _content(scope: Scope) -> str:
    return "".join(f"{scope.pick(*WORDS)} = {scope.token(4)}\n" for _ in range(scope.between(1, 3)))


def _touched(commit: Commit, parent: Commit | None) -> set[str]:
    before = parent.files if parent else {}
    return {path for path in {*before, *commit.files} if before.get(path) != commit.files.get(path)}


@template("git", "easy", 2)
def count_commits(scope: Scope) -> Draft | None:
    repo = _history(scope, scope.between(18, 40))
    repo.put("main")
    author = scope.pick(*[commit.author for commit in repo.commits])
    branch, other = scope.pick(("main", "feature"), ("feature", "main"))
    gold = sum(commit.author == author for commit in repo.line_of(branch))
    every = sum(commit.author == author for commit in repo.commits)
    question = scope.how_many(
        f"commits by {author.title()} in the history of the branch {branch} of the git repository {repo.path}"
    )
    only = sum(commit.author == author for commit in repo.line_of(other))
    slips = {every, only, len(repo.line_of(branch))} - {gold}
    return integer(
        scope,
        question,
        gold,
        f"git -C {repo.path} log --format=%an {branch} -- | grep -cx {author.title()}",
        *sorted(slips),
        tags=["log"],
    )


@template("git", "medium", 2)
def file_with_most_commits(scope: Scope) -> Draft | None:
    repo = _history(scope, scope.between(18, 32))
    repo.put("main")
    line = repo.line_of("main")
    counts: Counter[str] = Counter()
    for at, commit in enumerate(line):
        counts.update(_touched(commit, line[at - 1] if at else None))
    (best, most), (second, fewer) = counts.most_common(2)
    if most == fewer:
        return None
    question = scope.ask(
        f"In the git repository {repo.path}, which file was added, changed or deleted by the largest number of commits of branch main? Give its path in the repository.",
        f"Which path was touched by the most commits in the history of main in {repo.path} (a git repository)?",
    )
    solution = f"git -C {repo.path} log --no-renames --format= --name-only main -- | grep . | sort | uniq -c | sort -rn | head -n1 | awk '{{print $2}}'"
    return string(scope, question, best, solution, second, "README.md" if best != "README.md" else second, tags=["log"])


@template("git", "hard", 3)
def who_wrote_line(scope: Scope) -> Draft | None:
    repo = _history(scope, scope.between(14, 28))
    repo.put("main")
    line = repo.line_of("main")
    gone = scope.chance(0.5)
    lines = [
        (number, path, text)
        for number, commit in enumerate(line[1:], 1)
        for path in commit.files
        for text in commit.files[path].splitlines()
        if text not in line[number - 1].files.get(path, "")
    ]
    if len(lines) < 4:
        return None
    number, path, text = scope.pick(*lines)
    last = line[-1].files.get(path, "")
    if gone == (text in last):
        return None
    commit = line[number]
    if sum(text in data for each in line for data in [each.files.get(path, "")]) == 0 or any(
        text in each.files.get(path, "") for each in line[:number]
    ):
        return None
    ask_author = scope.chance(0.4)
    question = scope.ask(
        f"Which commit on branch main of the git repository {repo.path} added the line '{text}' to {path}? "
        + ("Answer with the e-mail address of its author." if ask_author else "Answer with its subject line.")
        + " (The line may be gone by now.)" * gone
    )
    solution = f"git -C {repo.path} log --reverse --format='%{'ae' if ask_author else 's'}' -S'{text}' main -- '{path}' | head -n1"
    gold = f"{commit.author}@example.com" if ask_author else commit.subject
    other = next((each for each in line if each.author != commit.author), line[0])
    return string(
        scope,
        question,
        gold,
        solution,
        f"{other.author}@example.com" if ask_author else line[number - 1].subject,
        tags=["pickaxe"],
    )


@template("git", "medium", 3)
def restore_deleted(scope: Scope) -> Draft | None:
    repo = _history(scope, scope.between(16, 26))
    line = repo.line_of("main")
    lost = {path: commit.files[path] for commit in line for path in commit.files if path not in line[-1].files}
    if not lost:
        return None
    path = scope.pick(*sorted(lost))
    repo.put("main")
    tree = scope.tree
    after = tree.after()
    after.write(f"{repo.path}/{path}", lost[path])
    roots = tuple(
        sorted(
            {f"{repo.path}/{each.partition('/')[0]}" for each in line[-1].files}
            | {f"{repo.path}/{path.partition('/')[0]}"}
        )
    )
    loose = {f"{repo.path}/{path}": "m", f"{repo.path}/{path.partition('/')[0]}": "m"}
    roots = tuple(root for root in roots if root in tree.nodes)
    more = git_check(repo, dict([heads(repo)]))
    question = scope.order(
        f"The file {path} was deleted on branch main of the git repository {repo.path}. Bring it back into the working tree as it was right before its (last) deletion, without committing anything.",
        f"In {repo.path} (git, branch main) {path} is gone. Restore the last version it had before it was deleted; do not commit.",
    )
    find = f"cd {repo.path} && c=$(git rev-list -n1 main -- {path})"
    solution = (f"{find} && git checkout -q $c^ -- {path}",)
    slips = (
        f"mkdir -p {repo.path}/{path.rpartition('/')[0]}; touch {repo.path}/{path}",
        f"{find} && git checkout -q $c^ -- . ; git commit -qm back",
        f"{find} && git reset -q --hard $c^",
    )
    return change(
        scope, question, state_check(tree, after, roots, loose=loose, more=more), solution, *slips, tags=["restore"]
    )


@template("git", "easy", 3)
def mark_release(scope: Scope) -> Draft | None:
    repo = _history(scope, scope.between(14, 26))
    line = repo.line_of("main")
    target = scope.pick(*line[2:-2])
    old = line[1]
    repo.put("main", tags={"v0.1": old})
    tag = f"v{scope.between(1, 9)}.{scope.between(0, 20)}"
    branch = f"maint-{tag[1:]}"
    facts = dict([heads(repo, **{branch: target.name})])
    facts[("rev-parse", f"{tag}^{{commit}}")] = target.name
    facts[("rev-parse", "v0.1^{commit}")] = old.name
    facts[("symbolic-ref", "HEAD")] = "refs/heads/main"
    facts[("tag", "-l")] = "\n".join(sorted(["v0.1", tag]))
    roots = tuple(sorted({f"{repo.path}/{each.partition('/')[0]}" for each in line[-1].files}))
    question = scope.order(
        f"In the git repository {repo.path}, set the tag {tag} on the commit with the subject '{target.subject}' and start a branch {branch} at the same commit. main stays checked out.",
        f"Tag the commit '{target.subject}' of {repo.path} as {tag} and create the branch {branch} there without switching to it (git).",
    )
    find = f"cd {repo.path} && c=$(git log --format='%H %s' main | grep -F ' {target.subject}' | cut -d' ' -f1)"
    solution = f"{find} && git tag {tag} $c && git branch {branch} $c"
    slips = (
        f"cd {repo.path} && git tag {tag} && git branch {branch}",
        f"{find} && git tag {tag} $c && git checkout -q -b {branch} $c",
        f"{find} && git tag {tag} $c",
    )
    return change(
        scope,
        question,
        state_check(scope.tree, scope.tree, roots, more=git_check(repo, facts)),
        solution,
        *slips,
        tags=["tag", "branch"],
    )


@template("git", "hard", 3)
def commit_one_file(scope: Scope) -> Draft | None:
    repo = _history(scope, scope.between(10, 20))
    repo.put("main")
    tree = scope.tree
    head = repo.branches["main"]
    if len(head.files) < 4:
        return None
    chosen, other = scope.some(sorted(head.files), 2)
    edited = {path: head.files[path] + _content(scope) for path in (chosen, other)}
    for path, data in edited.items():
        tree.file(f"{repo.path}/{path}", data)
    tree.file(f"{repo.path}/{scope.stem()}.tmp", f"{scope.token()}\n")
    subject = f"{scope.pick('Update', 'Correct', 'Refresh')} {scope.pick(*WORDS)} of {chosen.rpartition('/')[2]}"
    facts = {
        ("rev-parse", "main^{tree}"): tree_name({**head.files, chosen: edited[chosen]}),
        ("rev-parse", "main^"): head.name,
        ("log", "-1", "--format=%B", "main"): subject,
        ("rev-parse", "feature"): repo.branches["feature"].name,
        ("symbolic-ref", "HEAD"): "refs/heads/main",
    }
    roots = tuple(sorted({f"{repo.path}/{each.partition('/')[0]}" for each in head.files}))
    question = scope.order(
        f"Several files in the git repository {repo.path} have changes. Commit only the changes of {chosen} on branch main, with the message '{subject}'. The other changes stay uncommitted in the working tree.",
        f"Make one commit on main in {repo.path} (git) that contains nothing but the change of {chosen}; its message is '{subject}'. Do not lose the other changes.",
    )
    base = f"cd {repo.path} && git commit -qm '{subject}'"
    slips = (
        f"{base[: -len(subject) - 7]} -qam '{subject}'",
        f"cd {repo.path} && git add -A && git commit -qm '{subject}'",
        f"{base} -- {chosen} && git checkout -q -- .",
    )
    slips = (f"cd {repo.path} && git commit -qam '{subject}'", *slips[1:])
    return change(
        scope,
        question,
        state_check(tree, tree, roots, more=git_check(repo, facts)),
        f"{base} -- {chosen}",
        *slips,
        tags=["commit"],
    )


@template("git", "hard", 2, held_out=True)
def revert_commit(scope: Scope) -> Draft | None:
    repo = _history(scope, scope.between(8, 14))
    line = repo.line_of("main")
    number = scope.between(2, len(line) - 2)
    target, parent = line[number], line[number - 1]
    touched = _touched(target, parent)
    if any(_touched(commit, line[at - 1]) & touched for at, commit in enumerate(line) if at > number):
        return None
    files = {path: data for path, data in line[-1].files.items() if path not in touched} | {
        path: parent.files[path] for path in touched if path in parent.files
    }
    repo.put("main")
    facts: dict[tuple[str, ...], str] = {
        ("rev-parse", "main^{tree}"): tree_name(files),
        ("rev-parse", "main^"): line[-1].name,
        ("rev-parse", "feature"): repo.branches["feature"].name,
    }
    tree = scope.tree
    after = tree.after()
    for path in touched:
        if path in files:
            after.write(f"{repo.path}/{path}", files[path])
        else:
            after.remove(f"{repo.path}/{path}")
    kept = tuple(sorted(f"{repo.path}/{path}" for path in files))
    loose = dict.fromkeys(kept, "m")
    question = scope.ask(
        f"Undo the commit with the subject '{target.subject}' on branch main of the git repository {repo.path} by one new commit on top of main (history must not be rewritten); later changes stay."
    )
    solution = f"cd {repo.path} && c=$(git log --format='%H %s' main | grep -F ' {target.subject}' | cut -d' ' -f1) && git revert --no-edit $c"
    slips = (f"cd {repo.path} && git reset -q --hard {parent.name}", f"cd {repo.path} && git revert --no-edit HEAD")
    return change(
        scope,
        question,
        state_check(tree, after, (), loose=loose, more=git_check(repo, facts)),
        solution,
        *slips,
        tags=["revert"],
    )
