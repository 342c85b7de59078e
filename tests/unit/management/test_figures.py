"""What the management API counts, read from listings as RabbitMQ 4.3 and 4.0 give them."""

from datetime import UTC, datetime

import pytest

from amqpkit.brokers.management import wire
from amqpkit.ports import ListedConsumer, QueueFigures


@pytest.mark.parametrize(
    ("item", "figures"),
    [
        ({"name": "young"}, QueueFigures()),
        (
            {
                "name": "q",
                "messages_ready": 3,
                "messages_unacknowledged": 2,
                "message_bytes_ready": 1234,
                "delivery_limit": "unlimited",
                "head_message_timestamp": 1577836800,
                "message_stats": {
                    "ack": 10,
                    "ack_details": {"rate": 2.0, "avg_rate": 0.5},
                    "publish": 20,
                    "publish_details": {"rate": 4.0},
                },
            },
            QueueFigures(3, 2, 10, 0.5, 4.0, datetime(2020, 1, 1, tzinfo=UTC), unlimited=True, ready_bytes=1234),
        ),
        ({"name": "q", "delivery_limit": 20, "head_message_timestamp": None}, QueueFigures(unlimited=False)),
    ],
)
def test_figures_that_are_not_there_are_unknown(item, figures) -> None:
    assert wire.figures(item) == figures


@pytest.mark.parametrize(("timeout", "seconds"), [(1800000, 1800.0), (1, 0.001), ("undefined", None), (None, None)])
def test_a_consumer_s_timeout_is_in_seconds(timeout, seconds) -> None:
    item = {"consumer_tag": "t", "queue": {"name": "q", "vhost": "/"}, "consumer_timeout": timeout}

    assert wire.consumer(item) == ListedConsumer("q", "t", seconds)
