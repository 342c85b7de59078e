"""`python -m amqpkit.cli`."""

import sys

from amqpkit.cli import main

sys.exit(main())
