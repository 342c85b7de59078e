"""`amqpkit dlq`: dead letters; each verb is a module, imported only when it runs."""

from typing import Final

from cyclopts import App, Group, Parameter

_VERBS: Final = (
    ("list", "list_", "List every dead-letter queue of the file, or the letters of one."),
    ("show", "show", "Show one letter: what it is, what it went through, why it died."),
    ("groups", "groups", "Put the letters of a queue together that died of the same thing."),
    ("replay", "replay", "Send letters back to the queue that they failed in."),
    ("discard", "discard", "Throw letters away, for a reason, and note each in an audit file."),
    ("export", "export", "Write letters to a file, byte for byte and type for type."),
    ("import", "import_", "Publish letters from a file."),
)


def build(called: str | None = None) -> App:
    """Build the app of the verbs; as in the app above it, only the `called` one speaks for itself."""
    app = App(
        name="dlq",
        help="Look into dead-letter queues and decide what becomes of the letters. Looking changes nothing.",
        help_format="markdown",
        version_flags=(),
        group_commands=Group("verbs"),
        default_parameter=Parameter(negative=()),
        exit_on_error=False,
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    )
    for name, function, text in _VERBS:
        target = f"amqpkit.cli.dlq.{function}:{function}"
        app.command(target, name=name, help=None if name == called else text)
    return app


dlq: Final = build()
"""For whoever asks for all commands, as the search for a mistyped one does."""
