"""What definitions hold that topology files are not about: users, permissions, parameters, limits. Pure.

Names are told, values never: any of them may be a secret.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from amqpkit.declare.importing.found import Note, listed
from amqpkit.declare.spec.definitions import default_type

OPERATOR: Final = "operator_policy"
LIMITS: Final = "vhost-limits"
NOT_HERE: Final = "not managed here"
_SECRETS: Final = ("password", "password_hash")
_URI: Final = "uri"


def notes(
    document: Mapping[str, Any], mine: Mapping[str, list[Mapping[str, Any]]], vhost: str | None
) -> Iterator[Note]:
    """List what of a definitions file is not for a topology file; `mine` are the items of the chosen vhost."""
    users = document.get("users", [])
    if users:
        yield _named("users", [str(user.get("name")) for user in users])
    for section in ("permissions", "topic_permissions"):
        if mine.get(section):
            yield _named(section.replace("_", " "), [str(item.get("user")) for item in mine[section]])
    if found := document.get("global_parameters"):
        yield _named("global parameters", [str(item.get("name")) for item in found])
    yield from of_parameters(mine.get("parameters", []))
    yield from _of_vhost(document, vhost)
    if fields := sorted({*_secret_fields("users", users), *_secret_fields("parameters", mine.get("parameters", []))}):
        message = f"it holds secrets, of which nothing was taken over: {', '.join(fields)}; keep it out of repositories"
        yield Note("secret", "the definitions file", message)


def of_parameters(parameters: Iterable[Mapping[str, Any]]) -> Iterator[Note]:
    """List a vhost's parameters: shovels, federation, operator policies, limits."""
    by_component: dict[str, list[str]] = defaultdict(list)
    for item in parameters:
        by_component[str(item.get("component"))].append(str(item.get("name")))
    for component, names in sorted(by_component.items()):
        if component == OPERATOR:
            yield from of_operator_policies(names)
        elif component == LIMITS:
            yield Note("unmanaged", "vhost limits", NOT_HERE)
        else:
            yield _named(f"{component} parameters", names)


def of_operator_policies(names: Collection[str]) -> Iterator[Note]:
    """List operator policies: they rule over what the file declares, so that a plan is blocked by them."""
    for name in sorted(names):
        message = f"{NOT_HERE}; where it reaches queues of the file, plan wants --accept-policy {name}"
        yield Note("unmanaged", f"operator policy {name}", message)


def default_queue_type(document: Mapping[str, Any], vhost: str | None) -> str:
    """Say of which type a queue is that names none: the vhost's default, else classic."""
    return default_type(_vhost(document, vhost))


def _of_vhost(document: Mapping[str, Any], vhost: str | None) -> Iterator[Note]:
    about = _vhost(document, vhost)
    if about.get("limits"):
        yield Note("unmanaged", "vhost limits", NOT_HERE)
    metadata = {**about, **(about.get("metadata") or {})}
    said = [key for key in ("description", "tags", "default_queue_type") if _is_said(metadata.get(key))]
    if said:
        yield Note("unmanaged", f"the vhost's {', '.join(said)}", NOT_HERE)


def _is_said(value: object) -> bool:
    return bool(value) and value not in ("classic", "undefined")


def _vhost(document: Mapping[str, Any], vhost: str | None) -> Mapping[str, Any]:
    """Give what is said about the vhost: at the top of its own file, or in a cluster's list."""
    if "metadata" in document or document.get("rabbitmq_definition_format") == "single_virtual_host":
        return document
    return next((item for item in document.get("vhosts", ()) if item.get("name") == vhost), {})


def _named(what: str, names: Iterable[str]) -> Note:
    return Note("unmanaged", what, f"{listed(sorted(set(names)))}: {NOT_HERE}")


def _secret_fields(section: str, items: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Name the fields that hold passwords, hashes or addresses with credentials."""
    for item in items:
        yield from (f"{section}.{key}" for key in _SECRETS if item.get(key))
        value = item.get("value")
        for key, each in value.items() if isinstance(value, Mapping) else ():
            if key.endswith(_URI) and "@" in str(each):
                yield f"{section}.{item.get('component')}.{key}"
