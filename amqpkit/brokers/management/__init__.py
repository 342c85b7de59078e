"""RabbitMQ's management API: reading a vhost and declaring in it."""

from amqpkit.brokers.management.admin import ManagementAdmin

__all__ = ["ManagementAdmin"]
