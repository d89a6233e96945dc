"""Templates on small services: finding out why one does not start, repairing it, stopping one as its program provides for."""

# ruff: noqa: E501  # wordings and scripts are kept in one piece
from __future__ import annotations

import hashlib

from drafts import Draft, Scope, template
from inspection import digest
from tree import state_check
from words import SERVICES, STEMS, WORDS

DAEMON = """#!/bin/bash
# usage: NAME start | check
conf=/etc/PROJECT/NAME.conf
fail() { echo "NAME: $*" >&2; exit 1; }
grep -q $'\\r' "$conf" && fail "$conf has Windows line ends"
while IFS='=' read -r key value; do
  case $key in ''|\\#*) ;; data) data=$value ;; key_file) key_file=$value ;; log_dir) log_dir=$value ;; port) port=$value ;; *) fail "unknown setting '$key' in $conf" ;; esac
done < "$conf"
[ -r "$data" ] && [ -f "$data" ] || fail "no data file '$data'"
[ -f "$key_file" ] || fail "no key file '$key_file'"
[ "$(stat -c %a "$key_file")" = 600 ] || fail "$key_file must have mode 600"
[[ $port =~ ^[0-9]+$ ]] && [ "$port" -ge 1024 ] && [ "$port" -le 65535 ] || fail "port '$port' is not between 1024 and 65535"
[ -d "$log_dir" ] || fail "no log folder '$log_dir'"
[ "${1:-}" = check ] && { echo "NAME: ready"; exit 0; }
[ "${1:-}" = start ] || fail "start or check?"
pid=/run/PROJECT/NAME.pid
[ -e "$pid" ] && fail "already running? $pid exists"
sum=$( { echo "$port"; cat "$data" "$key_file"; } | sha256sum | cut -d' ' -f1)
echo "ready $sum" > /var/lib/PROJECT/NAME.state
echo "NAME started on port $port" >> "$log_dir/NAME.log"
setsid bash -c 'exec -a "PROJECT-NAME" sleep infinity' < /dev/null > /dev/null 2>&1 &
echo $! > "$pid"
"""
PROBE_SERVICE = "p=$(cat /run/PROJECT/NAME.pid 2>/dev/null); tr '\\0' ' ' < /proc/$p/cmdline 2>/dev/null"


@template("services", "hard", 4)
def repair_service(scope: Scope) -> Draft | None:
    tree = scope.tree
    project, service = scope.project(), scope.pick(*SERVICES)
    program = f"/opt/{project}/bin/{service}"
    conf = f"/etc/{project}/{service}.conf"
    data = f"/srv/{project}/{scope.stem()}.dat"
    key_file = f"/etc/{project}/{scope.stem()}.key"
    log_dir = f"/var/log/{project}"
    port = scope.between(2000, 9999)
    faults = scope.some(
        ["crlf", "data moved", "key mode", "log folder", "stale pid", "no bit", "typo", "port"], scope.between(2, 4)
    )
    if "crlf" in faults and "typo" in faults:
        return None
    source = DAEMON.replace("NAME", service).replace("PROJECT", project)
    body = "".join(f"{scope.pick(*WORDS)} {scope.token(6)}\n" for _ in range(5))
    secret = f"{scope.token(16)}\n"
    tree.file(program, source, mode=0o644 if "no bit" in faults else 0o755)
    moved = data.replace(f"/srv/{project}/", f"/srv/{project}/current/")
    place = moved if "data moved" in faults else data
    tree.file(place, body)
    if "data moved" in faults:
        tree.file(f"/srv/{project}/README", f"All data files have moved to /srv/{project}/current.\n")
    tree.file(key_file, secret, mode=0o644 if "key mode" in faults else 0o600)
    right = ["# settings", f"port={port}", f"data={place}", f"key_file={key_file}", f"log_dir={log_dir}"]
    bad_port = f"{port}x" if scope.chance(0.5) else str(port + 70_000)
    now = [
        line.replace(f"port={port}", f"port={bad_port}") if "port" in faults and line.startswith("port")
        else f"data={data}" if line.startswith("data=")
        else line.replace("log_dir", "logdir") if "typo" in faults else line
        for line in right
    ]  # fmt: skip
    tree.file(conf, "".join(line + ("\r\n" if "crlf" in faults else "\n") for line in now))
    if "log folder" not in faults:
        tree.folder(log_dir)
    tree.folder(f"/run/{project}")
    if "stale pid" in faults:
        tree.file(f"/run/{project}/{service}.pid", "2999999\n")
    tree.file(f"/var/lib/{project}/{service}.state", "stopped\n")
    after = tree.after()
    after.change(program, mode=0o755)
    after.change(key_file, mode=0o600)
    after.write(conf, "".join(line + "\n" for line in right))
    state = hashlib.sha256(f"{port}\n{body}{secret}".encode()).hexdigest()
    after.write(f"/var/lib/{project}/{service}.state", f"ready {state}\n")
    after.make(log_dir)
    after.write(f"{log_dir}/{service}.log", f"{service} started on port {port}\n")
    after.write(f"/run/{project}/{service}.pid", "")
    roots = [f"/opt/{project}", f"/etc/{project}", f"/srv/{project}", f"/var/lib/{project}"]
    loose = {f"/run/{project}/{service}.pid": "cm", f"{log_dir}/{service}.log": "m", log_dir: "m"}
    alive = digest(f"{project}-{service} infinity".encode())
    more = (
        f"import subprocess, sys\nrun = subprocess.run(['bash', {program!r}, 'check'], stdin=subprocess.DEVNULL, capture_output=True, timeout=10)\n"
        f"if run.stdout.decode('utf-8', 'replace') != '{service}: ready\\n':\n    wrong('the check says ' + repr(run.stderr))\n"
        f"if digest(sys.argv[-1].strip().encode()) != {alive!r}:\n    wrong('no live process: ' + repr(sys.argv[-1]))\n"
    )
    probe = PROBE_SERVICE.replace("NAME", service).replace("PROJECT", project)
    hint = f" The port should be {port}." * ("port" in faults)
    question = scope.ask(
        f"The service {program} does not start. Find out why, repair its settings and files (not the program's text), and start it with '{program} start'. Change no more than is needed.{hint}",
        f"'{program} start' fails. Repair what is wrong around it, without editing the program, then start it so that it goes on running.{hint} Leave everything that is not at fault alone.",
    )
    fixes = {
        "crlf": f"sed -i 's/\\r$//' {conf}", "data moved": f"sed -i 's#^data=.*#data={place}#' {conf}", "key mode": f"chmod 600 {key_file}", "log folder": f"mkdir -p {log_dir}",
        "stale pid": f"rm /run/{project}/{service}.pid", "no bit": f"chmod 755 {program}", "typo": f"sed -i 's/^logdir=/log_dir=/' {conf}", "port": f"sed -i 's/^port=.*/port={port}/' {conf}",
    }  # fmt: skip
    solution = ("\n".join(fixes[fault] for fault in faults), f"{program} start")
    partial = "\n".join([*[fixes[fault] for fault in faults[1:]], f"bash {program} start; true"])
    slips: tuple[str, ...] = (
        partial,
        f"{solution[0]}",
        f"chmod -R 777 /opt/{project} /etc/{project} /srv/{project}; {solution[0]}; {program} start; true",
    )
    if faults[0] == "no bit":
        slips = slips[1:]
    check = state_check(tree, after, tuple(roots), loose=loose, more=more)
    return Draft(
        question,
        tree,
        solution,
        checks=(("session", probe), ("judge", check)),
        tags=("daemon", *(f"fault:{fault.replace(' ', '-')}" for fault in faults)),
        slips=slips,
    )


@template("services", "easy", 2)
def stop_service(scope: Scope) -> Draft | None:
    tree = scope.tree
    project = scope.project()
    names = scope.some(SERVICES, 4)
    tree.folder(f"/run/{project}")
    tree.folder(f"/var/lib/{project}")
    worker = (
        "#!/bin/bash\n# usage: worker NAME; on SIGTERM it writes down its queue and ends\n"
        f"trap 'echo \"queue saved $(sha256sum < /var/lib/{project}/$1.queue | cut -c1-20)\" > /var/lib/{project}/$1.saved; rm -f /run/{project}/$1.pid; exit 0' TERM\n"
        f"echo $$ > /run/{project}/$1.pid\n"
        "while :; do sleep 1000 & wait $!; done\n"
    )
    program = f"/opt/{project}/worker"
    tree.file(program, worker, mode=0o755)
    queues = {each: "".join(f"{scope.pick(*STEMS)} {scope.token(5)}\n" for _ in range(4)) for each in names}
    for each, queue in queues.items():
        tree.file(f"/var/lib/{project}/{each}.queue", queue)
    chosen = scope.pick(*names)
    start = (
        "".join(f"( setsid {program} {each} < /dev/null > /dev/null 2>&1 & )\n" for each in names)
        + f"for i in $(seq 300); do [ $(ls /run/{project} | wc -l) -ge {len(names)} ] && break; sleep 0.01; done; unset i"
    )
    after = tree.after()
    after.write(
        f"/var/lib/{project}/{chosen}.saved",
        f"queue saved {hashlib.sha256(queues[chosen].encode()).hexdigest()[:20]}\n",
    )
    for each in names:
        if each != chosen:
            after.write(f"/run/{project}/{each}.pid", "")
    probe = f"for n in {' '.join(names)}; do p=$(cat /run/{project}/$n.pid 2>/dev/null) && [ -n \"$p\" ] && tr '\\0' ' ' < /proc/$p/cmdline 2>/dev/null | grep -q \"worker $n \" && echo $n; done"
    left = [each for each in names if each != chosen]
    more = f"import sys\nif sys.argv[-1].split() != {left!r}:\n    wrong('running: ' + repr(sys.argv[-1]))\n"
    loose = {f"/run/{project}/{each}.pid": "cm" for each in left} | {f"/var/lib/{project}/{chosen}.saved": "m"}
    question = scope.ask(
        f"{program} runs once for each of {', '.join(names)}; the process IDs are in /run/{project}. Stop the one for {chosen} in the way its program provides for, so that it saves its queue; the others go on.",
        f"Shut down the worker {chosen} of {program} cleanly (it must get the chance to save its queue; see the program) and leave the other workers running.",
    )
    pid = f"/run/{project}/{chosen}.pid"
    solution = f"kill -TERM $(cat {pid}); for i in $(seq 300); do [ -e {pid} ] || break; sleep 0.01; done"
    slips = (f"kill -9 $(cat {pid}); rm {pid}", f"pkill -TERM -f {program}; sleep 0.1", f"rm {pid}")
    check = state_check(tree, after, (f"/opt/{project}", f"/var/lib/{project}"), loose=loose, more=more)
    return Draft(
        question,
        tree,
        (solution,),
        checks=(("session", probe), ("judge", check)),
        start=start,
        tags=("signal",),
        slips=slips,
    )
