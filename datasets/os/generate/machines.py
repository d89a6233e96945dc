"""Templates on what is alive in a session: processes, and servers on the loopback interface."""

# ruff: noqa: E501  # wordings and scripts are kept in one piece
from __future__ import annotations

import ipaddress

from drafts import Draft, Scope, integer, string, template
from inspection import digest
from tree import state_check
from words import SERVICES, WORDS

PROBE_PROCESSES = "for p in /proc/[0-9]*; do c=$(tr '\\0' ' ' < $p/cmdline 2>/dev/null) && case $c in FILTER*) echo \"$c\";; esac; done"


Record = tuple[str, dict[str, str], str, str, bool]
"""Command line, environment, working folder, file held open, whether that file is deleted afterwards."""


def _launch(records: list[Record]) -> str:
    """Bash that starts sleeping processes with these command lines, apart from the shell, and waits until they are there."""
    lines = ["("]
    for command, environment, cwd, opened, _ in records:
        spelled = " ".join(f"{key}={value}" for key, value in environment.items())
        out = f">> {opened}" if opened else "> /dev/null"
        lines.append(
            f"cd {cwd} && env -i {spelled} setsid bash -c 'exec -a \"{command}\" sleep infinity' < /dev/null {out} 2>&1 &"
        )
    lines.append(")")
    pattern = records[-1][0].split()[0].rpartition("/")[0]
    lines.append(
        f"for i in $(seq 200); do n=0; for p in /proc/[0-9]*/cmdline; do IFS= read -r -d '' c < $p; case $c in {pattern}/*) n=$((n + 1));; esac; done 2> /dev/null; "
        f"[ $n -ge {len(records)} ] && break; sleep 0.01; done"
    )
    lines += [f"rm {opened}" for _, _, _, opened, deleted in records if deleted]
    lines.append("unset i n p c")
    return "\n".join(lines)


def _workers(scope: Scope, n: int) -> tuple[str, list[Record]]:
    folder = f"/opt/{scope.project()}"
    names = scope.some(SERVICES, 4)
    records: list[Record] = []
    for number in range(n):
        cwd = f"{folder}/{scope.pick('data', 'spool', 'work-dir')}"
        queue = scope.pick("fast", "slow", "bulk")
        command = f"{folder}/bin/{scope.pick(*names)} --shard {number} --queue {queue}"
        records.append((command, {"STAGE": scope.pick("live", "test"), "TOKEN": scope.token(10)}, cwd, "", False))
    for each in ("data", "spool", "work-dir", "log"):
        scope.tree.folder(f"{folder}/{each}")
    for each in names:
        scope.tree.file(f"{folder}/bin/{each}", "placeholder\n", mode=0o755)
    return folder, records


def _service(record: Record) -> str:
    return record[0].split()[0].rpartition("/")[2]


@template("processes", "easy", 3)
def count_processes(scope: Scope) -> Draft | None:
    folder, records = _workers(scope, scope.between(16, 32))
    queue = scope.pick("fast", "slow", "bulk")
    service = scope.pick(*[_service(record) for record in records])
    gold = sum(f"--queue {queue}" in record[0] and _service(record) != service for record in records)
    start = _launch(records)
    question = scope.how_many(
        f"running processes of programs in {folder}/bin other than {service} that were started with '--queue {queue}'"
    )
    solution = f"cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\\0' ' ' | grep -oE '{folder}/bin/[a-z]+ --shard [0-9]+ --queue [a-z]+' | grep -v '/bin/{service} ' | grep -c -- '--queue {queue}'"
    draft = integer(
        scope,
        question,
        gold,
        solution,
        len(records),
        sum(f"--queue {queue}" in record[0] for record in records),
        tags=["ps"],
    )
    return draft and Draft(
        draft.question,
        draft.tree,
        draft.solution,
        draft.gold,
        "integer",
        start=start,
        tags=draft.tags,
        slips=draft.slips,
    )


@template("processes", "hard", 3)
def environment_of_process(scope: Scope) -> Draft | None:
    folder, records = _workers(scope, scope.between(6, 12))
    chosen = scope.pick(*records)
    shard = chosen[0].split()[2]
    question = scope.ask(
        f"What is the value of the environment variable TOKEN of the running process {folder}/bin/{_service(chosen)} with --shard {shard}?",
        f"A process of {folder}/bin/{_service(chosen)} runs with --shard {shard}. Which TOKEN does it have in its environment?",
    )
    solution = f"tr '\\0' '\\n' < /proc/$(pgrep -f -- '/bin/{_service(chosen)} --shard {shard} ' | head -n1)/environ | sed -n 's/^TOKEN=//p'"
    other = next(record for record in records if record is not chosen)
    return string(
        scope, question, chosen[1]["TOKEN"], solution, other[1]["TOKEN"], tags=["/proc"], start=_launch(records)
    )


@template("processes", "hard", 2)
def deleted_but_open(scope: Scope) -> Draft | None:
    folder, records = _workers(scope, scope.between(5, 9))
    at = scope.between(0, len(records) - 1)
    command, environment, cwd, _, _ = records[at]
    opened = f"{folder}/log/{scope.stem()}.log"
    code = scope.token(11)
    scope.tree.file(opened, f"{scope.pick(*WORDS)}\nrecovery key {code}\n{scope.pick(*WORDS)}\n")
    records[at] = (command, environment, cwd, opened, True)
    question = scope.ask(
        f"Somebody deleted {opened}, but a running process still has it open. The file had a line 'recovery key VALUE'. What is VALUE?",
        f"{opened} was removed by mistake while a process kept it open. Find the VALUE of its line 'recovery key VALUE'.",
    )
    solution = f"f=$(find /proc/[0-9]*/fd -lname '{opened} (deleted)' 2>/dev/null | head -n1); sed -n 's/^recovery key //p' \"$f\""
    return string(scope, question, code, solution, "VALUE", tags=["/proc"], start=_launch(records))


@template("processes", "medium", 3)
def stop_processes(scope: Scope) -> Draft | None:
    folder, records = _workers(scope, scope.between(7, 12))
    queue, stage = scope.pick("fast", "slow", "bulk"), scope.pick("live", "test")
    by_stage = scope.chance(0.4)
    gone = [
        record
        for record in records
        if f"--queue {queue}" in record[0] and (not by_stage or record[1]["STAGE"] == stage)
    ]
    if not 1 < len(gone) < len(records) - 1:
        return None
    left = sorted(record[0] for record in records if record not in gone)
    what = f"'--queue {queue}'" + f" whose environment has STAGE={stage}" * by_stage
    probe = PROBE_PROCESSES.replace("FILTER", f"{folder}/bin/")
    check = f"import hashlib, sys\nlines = sorted({{line.removesuffix(' infinity ').strip() for line in sys.argv[-1].splitlines() if line.strip()}})\nfound = hashlib.sha256('\\n'.join(lines).encode()).hexdigest()[:16]\nif found != {digest(chr(10).join(left).encode())!r}:\n    print('running: ' + '; '.join(lines))\n    raise SystemExit(1)\n"
    question = scope.ask(
        f"Stop all processes of programs in {folder}/bin that were started with {what}. All other processes must go on running.",
        f"End every running process from {folder}/bin with {what}, and no other process.",
    )
    test = (
        f"tr '\\0' ' ' < $p/cmdline 2>/dev/null | grep -q '^{folder}/bin/.*--queue {queue}'"
        + f" && tr '\\0' '\\n' < $p/environ | grep -qx STAGE={stage}" * by_stage
    )
    solution = (f"for p in /proc/[0-9]*; do {test} && kill ${{p#/proc/}}; done; true", "sleep 0.1")
    slips = (f"pkill -f {folder}/bin", f"pkill -o -f -- '--queue {queue}'", "kill -9 -1")
    return Draft(
        question,
        scope.tree,
        solution,
        checks=(("session", probe), ("judge", check)),
        start=_launch(records),
        tags=("kill",),
        slips=slips,
    )


SERVER = """import http.server, json, socketserver, sys, threading
PAGES = json.load(open(sys.argv[1]))
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        pages = PAGES[str(self.server.server_address[1])]
        body = pages.get(self.path)
        self.send_response(200 if body is not None else 404)
        self.end_headers()
        self.wfile.write((body if body is not None else 'not here').encode())
    def log_message(self, *_):
        pass
class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
servers = [Server(('127.0.0.1', int(port)), Page) for port in PAGES]
for server in servers:
    threading.Thread(target=server.serve_forever).start()
open(sys.argv[2], 'w').close()
"""


def _web(scope: Scope, folder: str, pages: dict[int, dict[str, str]]) -> str:
    """A start script of HTTP servers on loopback ports."""
    import json

    scope.tree.file(f"{folder}/serve.py", SERVER)
    scope.tree.file(f"{folder}/pages.json", json.dumps({str(port): found for port, found in pages.items()}), mode=0o600)
    ready = f"{folder}/.ready"
    return (
        f"( setsid python3 {folder}/serve.py {folder}/pages.json {ready} > /dev/null 2>&1 < /dev/null & )\nfor i in $(seq 500); do [ -e {ready} ] && break; sleep 0.01; done\n"
        f"rm -f {ready} {folder}/pages.json; unset i"
    )


FETCH = "python3 - <<'END'\nimport urllib.request\ndef get(port, path='/'):\n    return urllib.request.urlopen(f'http://127.0.0.1:{port}{path}').read().decode()\n"


@template("network", "medium", 3)
def find_port(scope: Scope) -> Draft | None:
    folder = f"/opt/{scope.project()}"
    names = scope.some(SERVICES, scope.between(4, 7))
    ports = scope.some(range(3000, 9900), len(names))
    pages = {
        port: {"/": f"service {name}\n", "/health": scope.pick("ok\n", "degraded\n")}
        for port, name in zip(ports, names, strict=True)
    }
    start = _web(scope, folder, pages)
    at = scope.between(0, len(names) - 1)
    question = scope.ask(
        f"Several HTTP servers listen on 127.0.0.1. On which port does the one answer whose page / says 'service {names[at]}'?",
        f"Find the TCP port on the loopback interface where a web server calls itself 'service {names[at]}' on its page /.",
    )
    ask = (
        FETCH
        + f"ports = {{int(l.split()[1].split(':')[1], 16) for l in open('/proc/net/tcp') if l.split()[3] == '0A'}}\nfor port in sorted(ports):\n    try:\n        text = get(port)\n    except OSError:\n        continue\n    if text == 'service {names[at]}\\n':\n        print(port)\nEND"
    )
    others = [port for port in ports if port != ports[at]]
    return Draft(
        question,
        scope.tree,
        (ask,),
        str(ports[at]),
        "integer",
        start=start,
        tags=("http", "loopback"),
        slips=(str(others[0]), str(len(ports))),
    )


@template("network", "hard", 2)
def follow_pages(scope: Scope) -> Draft | None:
    folder = f"/opt/{scope.project()}"
    ports = scope.some(range(3000, 9900), 5)
    paths = ["/start", *[f"/{scope.token(5)}" for _ in range(4)]]
    code = scope.token(10)
    pages: dict[int, dict[str, str]] = {}
    for at, port in enumerate(ports):
        after = f"next: {ports[at + 1]} {paths[at + 1]}\n" if at < 4 else f"code: {code}\n"
        pages[port] = {"/": f"{scope.pick(*WORDS)}\n", paths[at]: after}
    start = _web(scope, folder, pages)
    question = scope.ask(
        f"Fetch http://127.0.0.1:{ports[0]}/start. It names the port and path of the next page ('next: PORT PATH'), and so on, until a page says 'code: VALUE'. What is VALUE?",
        f"A chain of pages starts at port {ports[0]} of 127.0.0.1, path /start; each says 'next: PORT PATH' for the following one and the last 'code: VALUE'. Report VALUE.",
    )
    solution = (
        FETCH
        + f"port, path = {ports[0]}, '/start'\nwhile True:\n    words = get(port, path).split()\n    if words[0] == 'code:':\n        break\n    port, path = words[1:]\nprint(words[1])\nEND"
    )
    return string(scope, question, code, solution, str(ports[-1]), tags=["http", "loopback"], start=start)


@template("network", "hard", 3)
def serve_folder(scope: Scope) -> Draft | None:
    tree = scope.tree
    root = scope.home()
    port = scope.between(3000, 9900)
    body = f"{scope.token(12)}\n"
    file = f"{scope.stem()}.txt"
    tree.file(f"{root}/public/{file}", body)
    tree.file(f"{root}/private/{file}", f"{scope.token(12)}\n")
    tree.file(f"{root}/{file}", f"{scope.token(12)}\n")
    probe = (
        f"python3 -I - <<'END'\nimport urllib.error, urllib.request\nfor path in ('/{file}', '/private/{file}'):\n    try:\n        print(urllib.request.urlopen('http://127.0.0.1:{port}' + path, timeout=3).read().decode())\n"
        "    except urllib.error.HTTPError as error:\n        print('status', error.code)\n    except OSError:\n        print('no answer')\nEND"
    )
    wanted = digest(f"{body}\nstatus 404".encode())
    more = f"import sys\nif digest(sys.argv[-1].strip().encode()) != {wanted!r}:\n    wrong('served: ' + repr(sys.argv[-1]))\n"
    question = scope.order(
        f"Serve the files of {root}/public by HTTP on port {port} of 127.0.0.1, so that /{file} gives {root}/public/{file}; the server must go on running in the background. Nothing outside that folder may be served.",
        f"Start a web server in the background that listens on 127.0.0.1:{port} and has {root}/public, and only that, as its root.",
    )
    solution = (
        f"setsid python3 -m http.server {port} --bind 127.0.0.1 --directory {root}/public > /dev/null 2>&1 < /dev/null &\nfor i in $(seq 300); do (exec 3<> /dev/tcp/127.0.0.1/{port}) 2> /dev/null && break; sleep 0.01; done",
    )
    slips = (solution[0].replace("/public", ""), "true", solution[0].replace(str(port), str(port + 1)))
    check = state_check(tree, tree, (root,), more=more)
    return Draft(
        question, tree, solution, checks=(("session", probe), ("judge", check)), tags=("http", "loopback"), slips=slips
    )


@template("network", "medium", 2)
def addresses_in_network(scope: Scope) -> Draft | None:
    path = f"{scope.home()}/{scope.stem()}.txt"
    base = f"10.{scope.between(1, 200)}"
    lines = scope.tree.bulk(
        path,
        scope.seed(),
        scope.between(120, 300),
        f"{base}.{{}}.{{}}{{}}",
        (0, 15),
        (1, 254),
        ["", "", " # spare", "\t"],
    )
    bits = scope.pick(20, 21, 22, 23)
    network = ipaddress.ip_network(f"{base}.{scope.between(0, 15)}.0/{bits}", strict=False)
    addresses = [line.split("#")[0].strip() for line in lines]
    gold = len({each for each in addresses if ipaddress.ip_address(each) in network})
    question = scope.how_many(
        f"different IPv4 addresses in {path} that belong to the network {network}",
        "There is one address a line, sometimes with a comment after #.",
    )
    solution = f"python3 - <<'END'\nimport ipaddress\nn = ipaddress.ip_network('{network}')\nprint(len({{a for line in open('{path}') if ipaddress.ip_address(a := line.split('#')[0].strip()) in n}}))\nEND"
    slips = {sum(ipaddress.ip_address(each) in network for each in addresses), len(addresses)} - {gold}
    return integer(scope, question, gold, solution, *sorted(slips), tags=["ip"])


@template("network", "medium", 2, held_out=True)
def closed_ports(scope: Scope) -> Draft | None:
    folder = f"/opt/{scope.project()}"
    names = scope.some(SERVICES, 9)
    ports = scope.some(range(3000, 9900), 9)
    dead = sorted(scope.some(range(9), scope.between(2, 4)))
    pages = {port: {"/": "ok\n"} for at, port in enumerate(ports) if at not in dead}
    start = _web(scope, folder, pages)
    path = f"{folder}/endpoints.txt"
    scope.tree.file(
        path,
        "# name address\n" + "".join(f"{name} 127.0.0.1:{port}\n" for name, port in zip(names, ports, strict=True)),
    )
    gold = " ".join(names[at] for at in dead)
    question = scope.ask(
        f"{path} lists services with their address. Which of them do not accept TCP connections at present? Give their names, separated by blanks."
    )
    solution = f"while read -r n a; do case $n in \\#*) continue;; esac; (exec 3<> /dev/tcp/127.0.0.1/${{a#*:}}) 2> /dev/null || printf '%s ' $n; done < {path}"
    return Draft(
        question,
        scope.tree,
        (solution,),
        gold,
        "items",
        start=start,
        tags=("tcp", "loopback"),
        slips=(names[dead[0]], " ".join(names)),
    )
