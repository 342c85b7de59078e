"""`amqpkit export`: a topology file as something that others read; each form is a module, imported when it runs."""

from typing import Final

from cyclopts import App, Group, Parameter

_FORMS: Final = (
    ("definitions", "Write RabbitMQ's definitions, sorted."),
    ("asyncapi", "Write an AsyncAPI 3 document, payload schemas included."),
    ("prometheus", "Write alert rules for Prometheus."),
    ("runbook", "Write a runbook for each dead-letter queue."),
)


def build(called: str | None = None) -> App:
    """Build the app of the forms; as in the app above it, only the `called` one speaks for itself."""
    app = App(
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
    for name, text in _FORMS:
        app.command(f"amqpkit.cli.export.{name}:{name}", name=name, help=None if name == called else text)
    return app


export: Final = build()
"""For whoever asks for all commands, as the search for a mistyped one does."""
