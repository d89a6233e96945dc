"""What goes into the userlands of the OS environment: one recipe each, for debootstrap and for Docker alike.

Invariant: everything that changes what a session sees is in the recipe's text, so that its hash and the versions of the
installed packages name the userland.

All are Debian 12. ``ubuntu`` is not Ubuntu: it has what an Ubuntu machine has besides (a user ``ubuntu`` with sudo, lsb_release,
nano, command completion), and its os-release says so. Packages can be installed and removed without a network: apt's only
source is a small pool inside the userland, and it asks no questions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from envhub.core.errors import InvalidRequestError

BASE = "debian:bookworm-slim"
SUITE = "bookworm"
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
CWD = "/root"

COMMON = (
    "bc bsdextrautils bzip2 ca-certificates cron curl file git iproute2 jq less lsof net-tools openssl patch procps psmisc "
    "python3 python3-pip rsync sqlite3 sudo time tree unzip vim-tiny wget xz-utils zip"
)
_POOL = "bc dos2unix ed figlet hello jq lsof nano net-tools pv sl sqlite3 sudo tree unzip zip"
_POOL_DIR = "/usr/share/local-apt"

_PREPARE = ("apt-get update",)
_INSTALL = "DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends {packages}"
_FINISH = (
    f"mkdir -p {_POOL_DIR}",
    f"cd {_POOL_DIR}",
    f"apt-get -o APT::Sandbox::User=root download {_POOL}",
    "for deb in *.deb; do dpkg-deb -f $deb; echo Filename: ./$deb; echo Size: $(stat -c %s $deb); "
    "echo SHA256: $(sha256sum $deb | cut -d' ' -f1); echo; done > Packages",
    "rm -rf /var/lib/apt/lists/* /var/cache/apt/*",
    "rm -rf /etc/apt/sources.list.d",
    f"echo 'deb [trusted=yes] file:{_POOL_DIR} ./' > /etc/apt/sources.list",
    "printf '%s\\n' 'APT::Get::Assume-Yes \"true\";' 'APT::Sandbox::User \"root\";' 'APT::Install-Recommends \"false\";'"
    " 'Acquire::Languages \"none\";' 'Dir::Cache::pkgcache \"\";' 'Dir::Cache::srcpkgcache \"\";' > /etc/apt/apt.conf.d/90session",
    "apt-get update",
    "rm -f /var/cache/apt/archives/*.deb /var/cache/ldconfig/aux-cache /var/cache/debconf/*-old",
    "find /usr/share/doc -type f ! -name copyright -delete",
    "rm -rf /usr/share/man/* /usr/share/info/* /usr/share/locale/* /usr/share/doc-base /tmp/* /var/tmp/* /run/*",
    "find /var/log -type f -delete",
    "ln -s vim.tiny /usr/bin/vim",
    ": > /etc/machine-id",
    "echo LANG=C.UTF-8 > /etc/default/locale",
)
_UBUNTU = (
    "useradd -m -s /bin/bash -G sudo ubuntu",
    "echo 'ubuntu ALL=(ALL) NOPASSWD:ALL' > /etc/sudoers.d/ubuntu",
    "chmod 440 /etc/sudoers.d/ubuntu",
    "printf '%s\\n' 'VARIANT=\"Ubuntu-like\"' 'VARIANT_ID=ubuntu-like' >> /usr/lib/os-release",
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """``packages`` (by spaces; ``COMMON`` among them) come without what they only recommend; then sh runs ``steps`` as root."""

    name: str
    description: str
    packages: str
    steps: tuple[str, ...] = field(default=_FINISH)

    def dockerfile(self) -> str:
        """For the builder that every Docker engine has."""
        variables = " ".join(f"{name}={value}" for name, value in ENVIRONMENT.items())
        run = " \\\n && ".join(self._commands())
        return (
            f"# {self.description} Written by the recipes in envhub/sandbox/recipes.py.\n"
            f"FROM {BASE}\n"
            f"RUN {run}\n"
            f"ENV {variables}\n"
            f"WORKDIR {CWD}\n"
            f'CMD ["bash"]\n'
        )

    def script(self) -> str:
        """What is left to do in a tree that debootstrap has made with ``COMMON``."""
        return "\n".join(("set -eu", *self._commands(), ""))

    def _commands(self) -> tuple[str, ...]:
        return (*_PREPARE, _INSTALL.format(packages=self.packages), *self.steps)


RECIPES: Mapping[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe("default", "Debian 12 with the usual tools.", COMMON),
        Recipe("packages", "The default userland with Node.js and npm.", f"{COMMON} nodejs npm"),
        Recipe(
            "ubuntu",
            "Debian 12 with what an Ubuntu machine has besides; not Ubuntu.",
            f"{COMMON} bash-completion lsb-release nano",
            (*_UBUNTU, *_FINISH),
        ),
    )
}


def recipe(name: str) -> Recipe:
    """Raises InvalidRequestError naming the userlands there are."""
    if name not in RECIPES:
        raise InvalidRequestError(f"no userland {name!r}; valid: {', '.join(RECIPES)}")
    return RECIPES[name]
