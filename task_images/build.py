"""Builds the images of a deployment: the project's wheel and its dependencies first, then one image after the other.

Invariant: an image's label ``envhub.digest`` (what its results carry as image digest) is a hash of everything that went into it:
equal inputs give equal digests on every machine. Building needs no network but for the wheels and the base image.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
OUT = ROOT / "dist" / "images"
WHEELS = OUT / "wheels"
REPORT = OUT / "images.json"
PYTHON_IMAGE = "python:3.11-slim"
USERLANDS = ("default", "packages", "ubuntu")
EXTRAS = "db,os,kg,webshop"
INIT = "dumb-init==1.2.5.post1"
IMAGES: Mapping[str, str] = {
    "controller": "envhub/controller",
    "db": "envhub/worker-db",
    "kg": "envhub/worker-kg",
    "alfworld": "envhub/worker-alfworld",
    "webshop": "envhub/worker-webshop",
    "os": "envhub/worker-os",
}
"""Image names by the folder of their Dockerfile; all stand on ``base``."""


@dataclass(frozen=True, slots=True)
class Built:
    """``digest``: hash of the inputs; ``id``: what Docker names the image; ``seconds``: to build it."""

    image: str
    digest: str
    id: str
    n_bytes: int
    seconds: float


class Builder:
    """Builds in order; what every image is made of besides its own Dockerfile is ``common``."""

    def __init__(self, *, version: str, revision: str, common: Sequence[str], labels: Mapping[str, str]) -> None:
        self._version = version
        self._revision = revision
        self._common = tuple(common)
        self._labels = labels
        self.built: list[Built] = []

    def build(self, image: str, dockerfile: Path, arguments: Mapping[str, str], *, on: str = "") -> Built:
        """``on``: digest of the image it stands on. Ends the program when the build fails."""
        began = time.monotonic()
        known = {name: value for name, value in arguments.items() if name not in ("BASE", "USERLAND")}
        inputs = [*self._common, on, dockerfile.read_text("utf-8"), json.dumps(known, sort_keys=True)]
        digest = hashlib.sha256("\n".join(inputs).encode()).hexdigest()
        tag = f"{image}:{self._version}"
        labels = {
            **self._labels,
            "org.opencontainers.image.title": image,
            "org.opencontainers.image.version": self._version,
            "org.opencontainers.image.revision": self._revision,
            "envhub.digest": digest,
        }
        command = ["docker", "build", "--quiet", "--tag", tag, "--file", str(dockerfile)]
        if "ARG DIGEST" in dockerfile.read_text("utf-8"):
            arguments = {**arguments, "DIGEST": digest}
        command += [f"--build-arg={name}={value}" for name, value in arguments.items()]
        command += [f"--label={name}={value}" for name, value in labels.items()]
        image_id = run(*command, str(ROOT)).strip().splitlines()[-1]
        n_bytes = int(run("docker", "image", "inspect", "--format", "{{.Size}}", image_id))
        built = Built(tag, digest, image_id, n_bytes, round(time.monotonic() - began, 1))
        self.built.append(built)
        print(f"{tag}: {n_bytes / 1e6:.0f} MB, digest {digest[:12]}, {built.seconds:g} s", flush=True)
        return built


def main() -> int:
    args = parsed()
    make_wheels()
    python_digest = digest_of_python(args.python_image)
    builder = Builder(
        version=version(),
        revision=args.revision or git_revision(),
        common=[python_digest, *wheel_hashes()],
        labels={
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.base.name": args.python_image,
            "org.opencontainers.image.base.digest": python_digest,
        },
    )
    base = builder.build("envhub/base", dockerfile("base"), {"PYTHON_IMAGE": args.python_image})
    for name in args.only or IMAGES:
        worker = builder.build(IMAGES[name], dockerfile(name), {"BASE": base.id}, on=base.digest)
        if name == "os":
            add_userlands(builder, worker, args.userland or USERLANDS)
    REPORT.write_text(json.dumps([asdict(each) for each in builder.built], indent=1) + "\n", "utf-8")
    return 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Build the images of a deployment.")
    parser.add_argument("--only", action="append", choices=tuple(IMAGES), help="may be repeated (default: all)")
    parser.add_argument(
        "--python-image",
        default=PYTHON_IMAGE,
        metavar="IMAGE",
        help=f"default: {PYTHON_IMAGE}; name@sha256:... pins it",
    )
    parser.add_argument(
        "--userland", action="append", choices=USERLANDS, help="of the os worker; may be repeated (default: all)"
    )
    parser.add_argument("--revision", help="default: that of the git checkout")
    return parser.parse_args()


def make_wheels() -> None:
    """The project's wheel and every package that the images install, for the Python of the images."""
    shutil.rmtree(WHEELS, ignore_errors=True)
    WHEELS.mkdir(parents=True)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-deps", "--wheel-dir", str(WHEELS), str(ROOT))
    (wheel,) = WHEELS.glob("envhub-*.whl")
    machine = platform.machine()
    target = [f"--platform=manylinux{generation}_{machine}" for generation in ("_2_28", "2014")]
    target += ["--python-version=3.11", "--implementation=cp", "--only-binary=:all:"]
    run(*pip, "download", *target, "--dest", str(WHEELS), f"{wheel}[{EXTRAS}]", INIT)


def wheel_hashes() -> Iterator[str]:
    for wheel in sorted(WHEELS.glob("*.whl")):
        yield f"{wheel.name} {hashlib.sha256(wheel.read_bytes()).hexdigest()}"


def digest_of_python(image: str) -> str:
    """The registry's digest of it, or the image id where it came from no registry; pulled when it is not here."""
    if subprocess.run(["docker", "image", "inspect", image], capture_output=True, check=False).returncode:
        run("docker", "pull", image)
    (found,) = json.loads(run("docker", "image", "inspect", image))
    published = [name.partition("@")[2] for name in found["RepoDigests"] or ()]
    return published[0] if published else str(found["Id"])


def add_userlands(builder: Builder, worker: Built, names: Sequence[str]) -> None:
    """Lay the userlands on the image of the os worker, each on the one before."""
    for name in names:
        source = f"envhub/os-{name}"
        if subprocess.run(["docker", "image", "inspect", source], capture_output=True, check=False).returncode:
            run(sys.executable, "-m", "envhub.cli", "images", "build", "os", "--image", name, "--docker")
        digest = run(
            "docker", "image", "inspect", "--format", '{{index .Config.Labels "envhub.digest"}}', source
        ).strip()
        given = {"BASE": worker.id, "USERLAND": source, "NAME": name, "USERLAND_DIGEST": digest}
        worker = builder.build(IMAGES["os"], HERE / "os" / "userland.Dockerfile", given, on=worker.digest)


def dockerfile(name: str) -> Path:
    return HERE / name / "Dockerfile"


def version() -> str:
    found = re.search(r'__version__ = "(.+)"', (ROOT / "envhub" / "__init__.py").read_text("utf-8"))
    assert found is not None
    return found[1]


def git_revision() -> str:
    """``unknown`` outside of a checkout."""
    done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def run(*command: str) -> str:
    """Its stdout. Ends the program with what it said when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command[:6])} ... failed ({done.returncode}):\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
