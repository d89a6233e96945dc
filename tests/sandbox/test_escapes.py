"""Ways out of a bubblewrap sandbox that must not exist: each test is one that somebody would try."""

import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from envhub.core.clock import SystemClock
from envhub.core.errors import SandboxFileError
from envhub.core.sandbox import Sandbox, SandboxSpec
from envhub.sandbox.bubblewrap import BubblewrapDriver
from envhub.sandbox.owner import Owner
from envhub.sandbox.probe import Machine

pytestmark = [pytest.mark.timeout(60), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def driver(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[BubblewrapDriver]:
    made = driver_in(tmp_path_factory.mktemp("runtime"), machine)
    yield made
    await made.close()


def driver_in(folder: Path, machine: Machine) -> BubblewrapDriver:
    """One that shows this machine's own programs."""
    return BubblewrapDriver(
        machine, owner=Owner.current(), clock=SystemClock(), runtime=folder, image_root=folder / "no-images"
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(driver: BubblewrapDriver) -> Sandbox:
    """One for all that do it no harm."""
    return await driver.start(SandboxSpec())


async def out(box: Sandbox, script: str) -> str:
    return (await box.run(script, timeout_s=20, max_bytes=200_000)).output


@pytest.mark.parametrize(
    ("attempt", "refusal"),
    [
        ("mount -t tmpfs none /mnt", "denied|not permitted|superuser"),
        ("mount --bind / /mnt", "denied|not permitted|superuser"),
        ("umount /proc", "denied|not permitted|superuser"),
        ("umount -l /proc/sys", "denied|not permitted|superuser"),
        ("mount -o remount,rw /proc/sys", "denied|not permitted|superuser"),
        ("mknod /root/disk b 254 0", "not permitted"),
        ("mknod /root/mem c 1 1", "not permitted"),
        ("unshare -U true", "not permitted|No space"),
        ("unshare -m true", "not permitted"),
        ("nsenter -t 1 -m true", "not permitted|denied|Invalid argument"),
        ("chroot / true", "not permitted"),
        ("echo '|/root/x' > /proc/sys/kernel/core_pattern", "Read-only file system"),
        ("echo 1 > /proc/sys/net/ipv4/ip_forward", "Read-only file system"),
        ("echo b > /proc/sysrq-trigger", "Read-only file system|No such file"),
        ("head -c1 /proc/kcore", "Permission denied|No such file"),
        ("head -c1 /proc/kmsg", "Permission denied|not permitted"),
        ("dmesg", "not permitted"),
        ("ls /sys/kernel", "No such file"),
        ("ls /sys/fs/cgroup", "No such file"),
        ("ls /var/run/docker.sock /run/docker.sock", "No such file"),
        ("cat /dev/vda /dev/sda /dev/mem", "No such file"),
        ("hostname other", "denied|not permitted|must be root"),
        ("nice -n -5 true", "Permission denied|cannot set niceness"),
    ],
)
async def test_way_out_is_closed(box: Sandbox, attempt: str, refusal: str) -> None:
    said = await out(box, f"( {attempt} ) 2>&1 | tee /root/said | grep -ciE '{refusal}'; cat /root/said")
    assert said.split()[0] != "0", said


async def test_nothing_in_proc_takes_writes_that_reach_the_machine(box: Sandbox) -> None:
    script = (
        "find /proc -path '/proc/[0-9]*' -prune -o -path /proc/self -prune -o -path /proc/thread-self -prune -o "
        "-type f -perm /222 -print 2>/dev/null | while read -r f; do { : >> $f; } 2>/dev/null && echo $f; done | head"
    )
    assert await out(box, script) == ""


async def test_modes_of_the_machines_devices_and_of_its_proc_stay_as_they_are(box: Sandbox) -> None:
    """Their files are the machine's own: whoever could change a mode here would change it there."""
    files = "/dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /proc/cpuinfo /proc/version /proc/net/dev"
    deeds = "chmod $(stat -c %a $f) $f && echo mode $f; chown $(stat -c %u:%g $f) $f && echo owner $f"
    assert await out(box, f"for f in {files}; do {deeds}; done 2>/dev/null") == ""
    assert await out(box, "echo x > /dev/null && head -c 2 /dev/zero | wc -c; echo x > /dev/stdout") == "2\nx\n"


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("keyctl", "250, 0, -3, 1"),
        ("add_key", "248, 0, 0, 0, 0, 0"),
        ("request_key", "249, 0, 0, 0, 0"),
        ("bpf", "321, 0, 0, 0"),
        ("perf_event_open", "298, 0, 0, -1, -1, 0"),
        ("userfaultfd", "323, 0"),
        ("ptrace", "101, 16, 1, 0, 0"),
        ("process_vm_readv", "310, 1, 0, 0, 0, 0, 0"),
        ("setns", "308, 0, 0"),
        ("open_by_handle_at", "304, 0, 0, 0"),
        ("init_module", "175, 0, 0, 0"),
        ("kexec_load", "246, 0, 0, 0, 0"),
        ("unshare", "272, 0x10000000"),
        ("clone", "56, 0x10000011, 0, 0, 0, 0"),
        ("fsopen", "430, 0, 0"),
        ("mount", "165, 0, 0, 0, 0, 0"),
        ("io_uring_setup", "425, 1, 0"),
        ("clone3", "435, 0, 0"),
    ],
)
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86_64")
async def test_system_call_is_refused(box: Sandbox, call: str, arguments: str) -> None:
    script = (
        f"python3 -c 'import ctypes as c; l=c.CDLL(None,use_errno=True); print(l.syscall({arguments}), c.get_errno())'"
    )
    assert await out(box, script) == ("-1 38\n" if call in ("io_uring_setup", "clone3") else "-1 1\n")


@pytest.mark.parametrize("family", ["AF_PACKET", "AF_VSOCK", "AF_ALG", "AF_KEY"])
async def test_socket_families_beyond_the_namespace_are_refused(box: Sandbox, family: str) -> None:
    script = f"python3 -c 'import socket; socket.socket(socket.{family}, socket.SOCK_RAW)' 2>&1 | tail -1"
    assert "not supported" in await out(box, script)


async def test_typing_into_a_terminal_is_refused(box: Sandbox) -> None:
    script = (
        'python3 -c \'import os, fcntl\nm, s = os.openpty()\ntry: fcntl.ioctl(s, 0x5412, b"x")\n'
        "except OSError as e: print(e.errno)'"
    )
    assert await out(box, script) == "1\n"


async def test_network_of_the_machine_is_out_of_reach_and_its_own_works(box: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        said = await out(box, f"(echo > /dev/tcp/127.0.0.1/{port}) 2>&1; (echo > /dev/tcp/8.8.8.8/53) 2>&1")
    assert "Connection refused" in said and "Network is unreachable" in said
    inside = "python3 -m http.server 8099 &>/dev/null & for i in {1..50}; do (echo > /dev/tcp/127.0.0.1/8099) && break; sleep .1; done"
    assert await out(box, f"{{ {inside}; }} 2>/dev/null; (echo > /dev/tcp/127.0.0.1/8099) && echo served") == "served\n"


async def test_abstract_sockets_of_the_machine_are_out_of_reach(box: Sandbox) -> None:
    name = f"envhub-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + name)
        server.listen()
        connect = f'import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + "{name}")'
        assert "refused" in await out(box, f"python3 -c '{connect}' 2>&1 | tail -1")


async def test_processes_of_the_machine_are_not_there(box: Sandbox) -> None:
    me = os.getpid()
    assert int(await out(box, "ls /proc | grep -c '^[0-9]'")) < 12
    assert "No such process" in await out(box, f"kill -0 {me} 2>&1; [ -e /proc/{me} ] && cat /proc/{me}/cmdline")
    assert await out(box, "readlink /proc/1/root; ls -d /proc/1/root/lost+found 2>/dev/null") == "/\n"


async def test_setuid_program_gives_nothing(box: Sandbox, machine: Machine) -> None:
    if not machine.identity:
        pytest.skip("needs a second user")
    script = "cp /usr/bin/id /usr/bin/sid; chmod 4755 /usr/bin/sid; su nobody -s /bin/sh -c '/usr/bin/sid -u'"
    assert await out(box, script) == "65534\n"


async def test_chroot_with_an_open_folder_does_not_break_out(box: Sandbox) -> None:
    script = (
        'python3 -c \'import os\nos.mkdir("/root/j")\nd = os.open("/", os.O_RDONLY)\n'
        'try: os.chroot("/root/j")\nexcept OSError as e: print(e.errno)\n'
        'os.fchdir(d)\nfor i in range(50): os.chdir("..")\nprint(os.path.exists("lost+found"))\''
    )
    assert await out(box, script) == "1\nFalse\n"


async def test_two_sandboxes_do_not_see_each_other(driver: BubblewrapDriver) -> None:
    one, two = await driver.start(SandboxSpec()), await driver.start(SandboxSpec())
    await out(one, "echo s > /root/mine; echo s > /dev/shm/x; echo s > /tmp/x; sleep 7777 & sleep 7778 &")
    assert await out(two, "ls -A /root/mine /dev/shm/x /tmp/x 2>/dev/null; pgrep -f 777; echo $?") == "1\n"


async def test_environment_of_the_hub_is_not_visible(
    machine: Machine, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENVHUB_WORKER_KEY", "very-secret")
    driver = driver_in(runtime, machine)
    box = await driver.start(SandboxSpec())
    seen = await out(box, "env; cat /proc/*/environ | tr '\\0' '\\n'")
    for view in ("session", "judge"):
        done = await box.exec(["env"], timeout_s=10, view=view)
        seen += done.stdout.decode()
    assert "very-secret" not in seen and seen.count("PATH=") >= 3
    await driver.close()


async def test_links_and_dots_out_of_the_sandbox_lead_nowhere(box: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("host")
    up = "/root/" + "../" * 9 + str(secret)[1:]
    await out(
        box,
        f"ln -s {secret} /root/a; ln -s /proc/1/root{secret} /root/b; ln -s / /root/c; ln -s /proc/self/root /root/d",
    )
    for path in ("/root/a", "/root/b", f"/root/c{secret}", f"/root/d{secret}", up, f"/proc/self/cwd{secret}"):
        with pytest.raises(SandboxFileError):
            await box.get(path, max_bytes=1000)
    for path in ("/root/a", up, f"/proc/1/root{secret}"):
        with contextlib.suppress(SandboxFileError):
            await box.put(path, b"changed")
    assert secret.read_text() == "host"


def _put(box: Sandbox) -> Awaitable[object]:
    return box.put("/root/x\u00e9", b"1")


def _exec(box: Sandbox) -> Awaitable[object]:
    return box.exec(["no-such-program"], timeout_s=10, stdin=b"x")


@pytest.mark.parametrize("enter", [_put, _exec])
async def test_code_of_the_session_never_runs_in_what_enters(
    driver: BubblewrapDriver, enter: Callable[[Sandbox], Awaitable[object]]
) -> None:
    box = await driver.start(SandboxSpec())
    library = os.path.dirname(os.__file__)
    await out(
        box,
        f"mkdir -p {library}/encodings; for f in ascii latin_1 idna utf_16; do "
        f'echo \'open("/root/pwned","w")\' > {library}/encodings/$f.py; done; cp {library}/encodings/ascii.py {library}/linecache.py',
    )
    await enter(box)
    assert await out(box, "ls /root/pwned 2>/dev/null") == ""
