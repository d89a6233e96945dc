"""Which tree a session starts from: a prepared image, or else a read-only view of this machine's programs.

Invariant: of the machine itself only /usr is shown, without /usr/local and without the hub; /etc is made up, with the packages'
own files where programs need them, and nothing of /home, /root, /var, /run or /opt is there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import envhub
from envhub.core.errors import SandboxUnavailableError
from envhub.sandbox.images import PreparedImage
from envhub.sandbox.stage import Layer

HOST_VIEW = "default"
"""The only image that can be had without being prepared."""

_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_FOLDERS = (
    "boot", "dev", "etc/cron.d", "etc/cron.daily", "etc/skel", "home", "media", "mnt", "opt", "proc", "run", "srv", "sys", "usr",
    "var/backups", "var/cache", "var/lib/misc", "var/local", "var/log", "var/mail", "var/opt", "var/spool/cron/crontabs",
)  # fmt: skip
_FROM_PACKAGES = (
    "adduser.conf", "alternatives", "debian_version", "default/useradd", "deluser.conf", "host.conf", "ld.so.cache",
    "ld.so.conf", "ld.so.conf.d", "login.defs", "magic", "mime.types", "pam.conf", "pam.d", "perl", "protocols", "python3",
    "rpc", "security/limits.conf", "security/pam_env.conf", "services", "shells", "vim",
)  # fmt: skip
_PASSWD = """root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
bin:x:2:2:bin:/bin:/usr/sbin/nologin
sys:x:3:3:sys:/dev:/usr/sbin/nologin
sync:x:4:65534:sync:/bin:/bin/sync
games:x:5:60:games:/usr/games:/usr/sbin/nologin
man:x:6:12:man:/var/cache/man:/usr/sbin/nologin
lp:x:7:7:lp:/var/spool/lpd:/usr/sbin/nologin
mail:x:8:8:mail:/var/mail:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
backup:x:34:34:backup:/var/backups:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
_GROUP = """root:x:0:
daemon:x:1:
bin:x:2:
sys:x:3:
adm:x:4:
tty:x:5:
disk:x:6:
lp:x:7:
mail:x:8:
man:x:12:
sudo:x:27:
www-data:x:33:
backup:x:34:
shadow:x:42:
utmp:x:43:
staff:x:50:
games:x:60:
users:x:100:
nogroup:x:65534:
"""
_PROFILE = """export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
for file in /etc/profile.d/*.sh; do
  [ -r "$file" ] && . "$file"
done
unset file
"""
_TEXTS = {
    "bash.bashrc": "",
    "environment": 'PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"\n',
    "fstab": "",
    "group": _GROUP,
    "gshadow": "".join(line.split(":")[0] + ":*::\n" for line in _GROUP.splitlines()),
    "hosts": "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n",
    "passwd": _PASSWD,
    "profile": _PROFILE,
    "resolv.conf": "",
    "shadow": "".join(line.split(":")[0] + ":*:19700:0:99999:7:::\n" for line in _PASSWD.splitlines()),
    "subgid": "",
    "subuid": "",
}
_SECRET = ("shadow", "gshadow")
_TRUSTED = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "alternatives", "perl", "java")
"""What the image's own programs, loader and interpreters read in /etc, besides python3*: a judge takes it from the image."""


@dataclass(frozen=True, slots=True)
class Userland:
    """``guards``: a tree with a real file or folder wherever a judge's view puts the image's own over the session's."""

    digest: str
    layers: tuple[Layer, ...]
    hidden: tuple[str, ...]
    guards: Path


def of_image(image: PreparedImage, folder: Path) -> Userland:
    root = image.rootfs
    return Userland(
        image.digest, (Layer("/", str(root), "root"),), (), _made(folder, lambda new: _guards(root / "etc", new))
    )


def of_host(folder: Path) -> Userland:
    """The view of this machine, with its made-up parts below ``folder``. Raises SandboxUnavailableError: not on this machine."""
    if not Path("/bin").is_symlink() or not Path("/usr/bin/bash").exists():
        raise SandboxUnavailableError(
            "this machine's own programs cannot be shown to a sandbox (no bash, or /bin apart from /usr); "
            "prepare an image with: envhub images build os"
        )
    root = _made(folder / "host", _host_root)
    local = _made(folder / "local", _empty_local)
    layers = (Layer("/", str(root), "root"), Layer("/usr", "/usr", "usr"), Layer("/usr/local", str(local), "local"))
    guards = _made(folder / "host-guards", lambda new: _guards(root / "etc", new))
    return Userland(host_digest(), layers, _hub_below_usr(), guards)


def host_digest() -> str:
    """Changes with the system's release and the programs that answers depend on most."""
    seen = hashlib.sha256(os.uname().machine.encode())
    for name in ("lib/os-release", "bin/bash", "bin/ls", "bin/python3"):
        path = Path("/usr", name)
        seen.update(path.read_bytes() if path.is_file() else b"none")
    return f"host-{seen.hexdigest()[:16]}"


def _made(folder: Path, make: Callable[[Path], None]) -> Path:
    """``folder``, made at once or not at all."""
    if not folder.is_dir():
        making = folder.with_name(f".making-{folder.name}-{os.getpid()}")
        making.mkdir(mode=0o755, parents=True)
        make(making)
        making.rename(folder)
    return folder


def _host_root(root: Path) -> None:
    for name in _LINKS:
        if Path("/", name).is_symlink():
            (root / name).symlink_to(os.readlink(f"/{name}"))
    for name in _FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, mode in (("root", 0o700), ("tmp", 0o1777), ("var/tmp", 0o1777)):
        (root / name).mkdir()
        (root / name).chmod(mode)
    (root / "var/run").symlink_to("/run")
    (root / "run/lock").mkdir()
    (root / "var/lock").symlink_to("/run/lock")
    _host_etc(root / "etc")


def _host_etc(etc: Path) -> None:
    for name in (*_FROM_PACKAGES, *(path.name for path in Path("/etc").glob("python3.*"))):
        source, target = Path("/etc", name), etc / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        elif source.is_file():
            shutil.copyfile(source, target)
    for name, text in _TEXTS.items():
        (etc / name).write_text(text, "utf-8")
        (etc / name).chmod(0o640 if name in _SECRET else 0o644)
    (etc / "os-release").symlink_to("../usr/lib/os-release")
    (etc / "mtab").symlink_to("/proc/self/mounts")


def _empty_local(local: Path) -> None:
    for name in ("bin", "etc", "games", "include", "lib", "sbin", "share", "src"):
        (local / name).mkdir()


def _guards(etc: Path, guards: Path) -> None:
    names = {*_TRUSTED, *(path.name for path in etc.glob("python3*"))}
    (guards / "run/session").mkdir(parents=True)
    (guards / "etc").mkdir()
    for name in sorted(names):
        if (etc / name).is_dir():
            (guards / "etc" / name).mkdir()
        elif (etc / name).is_file() or name == "ld.so.preload":
            (guards / "etc" / name).write_bytes(b"")


def _hub_below_usr() -> tuple[str, ...]:
    """The hub's own code and data, and its interpreter's packages when it runs in an environment, where /usr would show them."""
    package = Path(envhub.__file__).resolve().parent
    ours = [package, package.parent / "trainer_adapter", package.parent / "datasets"]
    if sys.prefix != sys.base_prefix:
        ours.append(Path(sys.prefix).resolve())
    shown = [path for path in ours if path.is_dir() and path.is_relative_to("/usr")]
    return tuple(str(path) for path in shown if not path.is_relative_to("/usr/local"))
