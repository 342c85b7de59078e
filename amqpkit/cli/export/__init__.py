"""`amqpkit export`: a topology file as something that others read; each form is a module, imported when it runs."""

from typing import Final

from cyclopts import App, Group, Parameter

_FORMS: Final = (
    ("definitions", "Write RabbitMQ's definitions, sorted."),
    ("asyncapi", "Write an AsyncAPI 3 document, payload schemas included."),
    ("prometheus", "Write alert rules for Prometheus."),
    ("runbook", "Write a runbook for each dead-letter queue."),
)

export = App(
    name="export",
    help="Write definitions, AsyncAPI, alert rules or runbooks.",
    help_format="markdown",
    version_flags=(),
    group_commands=Group("forms"),
    default_parameter=Parameter(negative=()),
    exit_on_error=False,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
for _name, _text in _FORMS:
    export.command(f"amqpkit.cli.export.{_name}:{_name}", name=_name, help=_text)
