"""What is in the queues, as Prometheus gauges: the last reading, each time the registry is asked."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from amqpkit.operate.observe import Reading


class BrokerCollector(Collector):
    """Shows readings as gauges; what is unknown has no sample. Register it, and `show` it each reading."""

    def __init__(self) -> None:
        """Start with nothing read."""
        self._readings: Sequence[Reading] = ()
        self._up = False

    def show(self, readings: Sequence[Reading]) -> None:
        """Take over a reading."""
        self._readings, self._up = readings, True

    def fail(self, known: Sequence[Reading] = ()) -> None:
        """The broker could not be asked, but for what is `known`: old numbers would look like new ones."""
        self._readings, self._up = known, False

    def collect(self) -> Iterable[Metric]:
        """Give the gauges."""
        up = GaugeMetricFamily("amqpkit_broker_up", "Whether the broker could be asked.")
        up.add_metric([], float(self._up))
        return [up, *_by_queue(self._readings), _waiting(self._readings), _letters(self._readings)]


class News(Protocol):
    """Whoever brings news of jobs to their log, and counts what becomes of it."""

    late: int
    dropped: int

    @property
    def waiting(self) -> int:
        """How much is not written yet."""


class NewsCollector(Collector):
    """Shows what became of the news of jobs; of a worker without a job log, nothing."""

    def __init__(self, news: News | None) -> None:
        """Ask it at each scrape."""
        self._news = news

    def collect(self) -> Iterable[Metric]:
        """Give two counters and a gauge."""
        news = self._news
        if news is None:
            return []
        late, dropped = "News of jobs that was out of date when it came.", "News of jobs that could not be written."
        return [
            CounterMetricFamily("amqpkit_job_news_late", late, value=news.late),
            CounterMetricFamily("amqpkit_job_news_dropped", dropped, value=news.dropped),
            GaugeMetricFamily("amqpkit_job_news_waiting", "News of jobs not written yet.", value=news.waiting),
        ]


_GAUGES = (
    ("amqpkit_queue_depth", "Messages ready in the work queue.", "depth"),
    ("amqpkit_oldest_message_seconds", "Age of the next message of the work queue, since its publish.", "oldest"),
    ("amqpkit_queue_unacked", "Messages that consumers of the work queue have.", "in_flight"),
    ("amqpkit_consumers", "Consumers that the broker lists on the work queue.", "consumers"),
    ("amqpkit_dead_letter_depth", "Messages ready in the dead-letter queue.", "dead"),
    ("amqpkit_oldest_dead_letter_seconds", "For how long the oldest dead letter has been one.", "oldest_letter"),
)


def _by_queue(readings: Sequence[Reading]) -> list[GaugeMetricFamily]:
    families = []
    for name, text, attribute in _GAUGES:
        family = GaugeMetricFamily(name, text, labels=["queue"])
        for reading in readings:
            value = getattr(reading, attribute)
            if value is not None:
                family.add_metric([reading.queue], value)
        families.append(family)
    return families


def _waiting(readings: Sequence[Reading]) -> GaugeMetricFamily:
    family = GaugeMetricFamily("amqpkit_waiting_retries", "Messages in the delay queues.", labels=["queue", "delay"])
    for reading in readings:
        for delay, count in reading.waiting.items():
            family.add_metric([reading.queue, delay], count)
    return family


def _letters(readings: Sequence[Reading]) -> GaugeMetricFamily:
    text = "Dead letters by fate; `unread` are those beyond the first 500."
    family = GaugeMetricFamily("amqpkit_dead_letters", text, labels=["queue", "fate"])
    for reading in readings:
        for fate, count in reading.letters.items():
            family.add_metric([reading.queue, fate], count)
    return family
