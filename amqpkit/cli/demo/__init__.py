"""`amqpkit demo`: the shop's messages, travelling."""

from typing import Annotated

from cyclopts import Parameter

from amqpkit.cli.usage import UsageError


async def demo(  # noqa: PLR0913 - a command's options
    *,
    url: Annotated[str | None, Parameter(show_default=False)] = None,
    user: Annotated[str | None, Parameter(show_default=False)] = None,
    password_file: Annotated[str | None, Parameter(show_default=False)] = None,
    vhost: Annotated[str | None, Parameter(show_default=False)] = None,
    api: Annotated[str | None, Parameter(show_default=False)] = None,
    yes: Annotated[bool, Parameter(negative=())] = False,
    json_: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Watch messages travel through a topology: retries, dead letters, a fan-out, crashes, duplicates.

    In memory and in virtual time, which takes a few seconds and touches no broker. With --url on that broker, with
    short delays: the topology is applied first, and what was made is deleted at the end.

    Exit codes: 0 everything ended as it had to, 1 it did not.

    Parameters
    ----------
    url
        A broker to play on, as amqp://user:password@host:5672/vhost. Only what is given here counts, never the
        environment.
    user
        The user, when the URL names none.
    password_file
        A file that holds the password alone, when the URL has none.
    vhost
        The virtual host, instead of the URL's.
    api
        The management API, as http://user:password@host:15672 (default: the broker's host, port 15672).
    yes
        Go on although queues of the demo's names are there already; they are used and not deleted.
    json_
        Print one JSON document: lines [{at, message, path, text, kind}], journeys [{message, queue, calls, crashes,
        duplicates, delays, ended, why}], problems, ok.
    """
    from amqpkit.cli.connect import AdminOptions
    from amqpkit.cli.demo.perform import in_memory, on_broker
    from amqpkit.cli.demo.screen import JsonScreen, TextScreen

    if url is None:
        where = (
            ("--user", user),
            ("--password-file", password_file),
            ("--vhost", vhost),
            ("--api", api),
            ("--yes", yes),
        )
        if given := [name for name, value in where if value]:
            msg = f"{', '.join(given)} without --url: the demo in memory has no broker to ask"
            raise UsageError(msg)
        return await in_memory(JsonScreen() if json_ else TextScreen(pace=0.05))
    options = AdminOptions(url=url, user=user, password_file=password_file, password=None, vhost=vhost, api=api)
    return await on_broker(JsonScreen() if json_ else TextScreen(), options, yes=yes)
