"""Whether the user may do a plan, found out before its first change."""

import asyncio
import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from amqpkit.declare.plan.changes import Change
from amqpkit.declare.plan.permissions import lacking, needs, questions, sample
from amqpkit.errors import AccessRefused
from amqpkit.model import Binding, Rights
from amqpkit.ports import Admin, Asker, Denied, Gatekeeper

_NAMED: Final = 3
_REQUIRES: Final = "the plan lists what it takes under Requires"
_WORDS: Final = {
    Denied.CONFIGURE: "configure",
    Denied.WRITE: "write",
    Denied.READ: "read",
    Denied.TOPIC: "bind by topic",
}


async def require_permissions(steps: Iterable[Change], admin: Admin, *, hint: str = _REQUIRES) -> None:
    """Raise AccessRefused when the broker would refuse some of the steps, ConnectionFailed.

    An administrator's patterns say which; the broker is asked about some of those, since RabbitMQ reads patterns its
    own way and may take permissions from elsewhere. Of other users' steps it is asked about a few of each kind. An
    Admin that is no Gatekeeper may do all. `hint` says where to read what else it takes.
    """
    if not isinstance(admin, Gatekeeper) or (asker := await admin.asker()) is None:
        return
    doubtful = tuple(step for step in steps if needs(step))
    if asker.rights is not None:
        doubtful = tuple(step for step in doubtful if lacking(step, asker.rights))
    asked = sample(doubtful)
    denied = await _denied(asked, admin)
    if not denied:
        return
    if asker.rights is not None and len(denied) == len(asked):
        raise AccessRefused(_refusal(asker, [need for step in doubtful for need in lacking(step, asker.rights)]))
    raise AccessRefused(_refusal(asker, denied, f", and perhaps more: {_asked(asked, doubtful)}{hint}"))


def _asked(asked: Sequence[Change], doubtful: Sequence[Change]) -> str:
    every = len({needs(step) for step in doubtful})
    return f"{len(asked)} of {every:,} changes were asked about, and " if len(asked) < every else ""


async def _denied(steps: Sequence[Change], keeper: Gatekeeper) -> Sequence[str]:
    """Give the need of each step that the broker denies."""
    answers = await asyncio.gather(*(_answer(step, keeper) for step in steps), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if isinstance(answer, str)]


async def _answer(step: Change, keeper: Gatekeeper) -> str | None:
    for each in questions(step):
        denied = await keeper.denied(each)
        if denied is Denied.TOPIC and isinstance(each, Binding):
            return f"{denied} {each.routing_key} of {each.source}"
        if need := next((need for need in needs(step) if need.startswith(f"{denied} ")), None):
            return need
    return None


def _refusal(asker: Asker, missing: Iterable[str], more: str = "") -> str:
    names: dict[str, dict[str, None]] = defaultdict(dict)
    for need in missing:
        permission, _, name = need.partition(" ")
        names[permission][name] = None
    listed = "; ".join(f"{_WORDS[Denied(permission)]} {_some(tuple(found))}" for permission, found in names.items())
    where = f"-p {shlex.quote(asker.vhost)} {shlex.quote(asker.user)}"
    ways = []
    if names.keys() - {Denied.TOPIC}:
        now = f", now {_shown(asker.rights)}" if asker.rights else ""
        ways.append(f"rabbitmqctl set_permissions {where} CONFIGURE WRITE READ, a pattern each{now}")
    if Denied.TOPIC in names:
        ways.append(f"rabbitmqctl set_topic_permissions {where} EXCHANGE WRITE READ")
    return (
        f'user "{asker.user}" may not do this in vhost "{asker.vhost}"; it lacks permission to {listed}{more} '
        f"({'; '.join(ways)}); nothing was changed"
    )


def _shown(rights: Rights) -> str:
    return " ".join(shlex.quote(each) for each in (rights.configure, rights.write, rights.read))


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(f'"{name}"' for name in names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
