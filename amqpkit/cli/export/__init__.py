"""`amqpkit export`: a topology file as something that others read; each form is a module, imported when it runs."""

from typing import Final

from cyclopts import App, Group, Parameter

_FORMS: Final = (
    ("definitions", "Write RabbitMQ's definitions, sorted."),
    ("asyncapi", "Write an AsyncAPI 3 document, payload schemas included."),
)

export = App(
    name="export",
    help="Write RabbitMQ definitions, or an AsyncAPI document.",
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
