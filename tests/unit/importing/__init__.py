"""What tests of importing share."""

MIXED = """\
version: 1
exchanges:
  mail: {type: topic, alternate-exchange: mail.unrouted}
  mail.unrouted: {type: fanout}
queues:
  mail.unrouted: {bindings: [{source: mail.unrouted}]}
  log: {type: stream, arguments: {x-max-age: 7D}}
work_queues:
  email.send:
    bindings: [{source: mail, routing_key: "email.send.#", arguments: {n: 1, m: "1"}}]
    max-length: 100000
    retry: {delays: [30s, 2m], jitter: 10%}
    dead_letter: {owner: team-messaging}
policies:
  log: {pattern: ^log$, apply-to: streams, definition: {max-length-bytes: 1GiB}}
"""
