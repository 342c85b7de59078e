"""`amqpkit schema`."""

import json

from amqpkit.declare.schema import file_schema


def schema() -> int:
    """Print the JSON Schema of topology files, for editors.

    With the YAML language server: `# yaml-language-server: $schema=amqpkit.schema.json` as a file's first line.
    """
    print(json.dumps(file_schema(), indent=2, ensure_ascii=False))
    return 0
