"""Which RabbitMQ images the tests run on, and how one gets here: local, pulled, or built from Debian's packages."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import docker.errors

import docker
from tests.containers import engine
from tests.containers.engine import Say

HERE = Path(__file__).parent
SCRIPT = HERE / "build-image"
SETTINGS = HERE.parent.parent / "docker" / "rabbitmq"
# /tmp may be memory, and a root file system is a quarter of a gigabyte.
SCRATCH = Path("/var/tmp")  # noqa: S108 - what is made in it has a random name
BUILT = "amqpkit-test-rabbitmq"
RECIPE = "amqpkit.test.recipe"
# What a Dockerfile would say. The node makes its cookie and its files at the first start.
CHANGES = (
    "USER rabbitmq",
    "WORKDIR /var/lib/rabbitmq",
    "ENV HOME=/var/lib/rabbitmq LANG=C.UTF-8 PATH=/usr/lib/rabbitmq/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "EXPOSE 5672 15672 15692",
    'CMD ["rabbitmq-server"]',
)


class NoImageError(Exception):
    """An image can be neither found, pulled nor built. Says why."""


@dataclass(frozen=True, slots=True)
class Image:
    """One broker to test on: its name in test ids, the image to pull, the Debian suite to build it from, if any."""

    id: str
    name: str
    suite: str = ""

    @property
    def built(self) -> str:
        """The tag of the image that the project builds itself."""
        return f"{BUILT}:{self.id}"


DEFAULT = (Image("4.3", "rabbitmq:4-management", "testing"), Image("4.0", "rabbitmq:4.0-management", "trixie"))


def wanted(environ: dict[str, str]) -> tuple[Image, ...]:
    """Read AMQPKIT_TEST_RABBITMQ_IMAGE, names separated by commas; the default is the newest RabbitMQ and 4.0."""
    names = [name.strip() for name in environ.get("AMQPKIT_TEST_RABBITMQ_IMAGE", "").split(",") if name.strip()]
    if not names:
        return DEFAULT
    suites = {image.built: image.suite for image in DEFAULT}
    ids = [re.sub(r"-.*", "", tagged(name)[1]) for name in names]
    if len(set(ids)) < len(ids):
        ids = [re.sub(r"[^\w.]+", "-", name) for name in names]
    return tuple(Image(key, name, suites.get(name, "")) for key, name in zip(ids, names, strict=True))


def tagged(name: str) -> tuple[str, str]:
    """Split an image's name; a colon before the last slash belongs to a registry's port."""
    repository, colon, tag = name.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (name, "latest")


def recipe() -> str:
    """Name the state of everything that a built image is made from, so that a changed script makes a new one."""
    digest = hashlib.sha256("\n".join(CHANGES).encode())
    for file in (SCRIPT, *sorted(SETTINGS.iterdir())):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def obtain(images: tuple[Image, ...], client: docker.DockerClient, say: Say) -> dict[str, str]:
    """Return the image to run for each id. Raises NoImageError when there is one that cannot be had."""
    with engine.alone():
        found = {image.id: local(image, client) or pulled(image, client, say) for image in images}
        missing = [image for image in images if found[image.id] is None]
        if missing:
            prepare_to_build(missing, say)
            for leftover in SCRATCH.glob("amqpkit-image-*"):
                # Of a run that was killed: only one at a time builds.
                shutil.rmtree(leftover, ignore_errors=True)
            say("building them from Debian packages instead, about a minute; the next run finds them built")
            with ThreadPoolExecutor() as pool:
                built = pool.map(lambda image: build(image, client, say), missing)
                found.update(zip([image.id for image in missing], built, strict=True))
    return {key: name for key, name in found.items() if name is not None}


def local(image: Image, client: docker.DockerClient) -> str | None:
    """Return the name of an image that this engine has: the official one, or ours if its recipe is the present one."""
    for name in dict.fromkeys((image.name, image.built)):
        with suppress(docker.errors.ImageNotFound):
            labels = client.images.get(name).labels
            if not name.startswith(f"{BUILT}:") or labels.get(RECIPE) == recipe():
                return name
    return None


def pulled(image: Image, client: docker.DockerClient, say: Say) -> str | None:
    """Pull an image if a registry has it."""
    if image.name.startswith(f"{BUILT}:"):
        return None
    repository, tag = tagged(image.name)
    say(f"pulling {image.name}")
    try:
        client.images.pull(repository, tag=tag)
    # Every way of not getting it leads to the same next step; requests' errors are OSErrors.
    except (docker.errors.DockerException, OSError) as error:
        said = getattr(error, "explanation", None) or error
        say(f"{image.name} cannot be pulled: {str(said)[:160]}")
        return None
    return image.name


def prepare_to_build(missing: list[Image], say: Say) -> None:
    """Make sure that building is possible on this machine, or say what keeps it from being."""
    names = " and ".join(image.name for image in missing)
    unknown = [image.name for image in missing if not image.suite]
    if unknown:
        buildable = " and ".join(image.built for image in DEFAULT)
        message = f"no registry gives {', '.join(unknown)}, and only {buildable} can be built here"
        raise NoImageError(message)
    if os.geteuid() != 0 or not engine.is_debian():
        message = f"no registry gives {names}, and only root on Debian can build them"
        raise NoImageError(message)
    if shutil.which("debootstrap", path=engine.daemon_path()) is None:
        if os.environ.get("AMQPKIT_BOOTSTRAP") == "0":
            message = f"no registry gives {names}, and AMQPKIT_BOOTSTRAP=0 forbids to install debootstrap to build them"
            raise NoImageError(message)
        engine.install(("debootstrap",), say)


def build(image: Image, client: docker.DockerClient, say: Say) -> str:
    """Build an image from Debian's packages, for the engine. Raises NoImageError with the script's last words."""
    with tempfile.TemporaryDirectory(prefix="amqpkit-image-", dir=SCRATCH) as directory:
        tar = Path(directory) / "root.tar"
        command = [str(SCRIPT), image.suite, str(tar)]
        environ = {**os.environ, "PATH": engine.daemon_path()}
        lines: list[str] = []
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ
        ) as process:
            for line in process.stdout or ():
                lines.append(line.rstrip())
                if line.startswith(f"{image.suite}: "):
                    say(line.rstrip())
        if process.returncode != 0:
            message = f"{SCRIPT.name} {image.suite} failed:\n" + "\n".join(lines[-20:])
            raise NoImageError(message)
        old = [found.id for found in client.images.list(name=image.built)]
        changes = [*CHANGES, f"LABEL {RECIPE}={recipe()}"]
        client.api.import_image(src=str(tar), repository=BUILT, tag=image.id, changes=changes)
    for key in old:
        # Replaced by now; one that a container still uses stays until that is gone.
        with suppress(docker.errors.APIError):
            client.images.remove(key)
    return image.built
