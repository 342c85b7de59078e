"""A plan as data, and the page that describes it."""

import json
import re
from dataclasses import replace
from pathlib import Path

from amqpkit.declare.load import load_topology
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.document import document, summary_line
from amqpkit.declare.plan.planning import Wishes, make_plan
from amqpkit.declare.plan.saved import save
from amqpkit.model import Binding, Exchange, Holding, Policy, Queue, Surroundings, Topology
from amqpkit.ports import BrokerInfo

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "plan-format.md").read_text()
FULL = load_topology(Path(__file__).parents[1] / "full.yaml")


def one_of_each():
    """Plan a vhost in which there is everything to do, and something in the way."""
    lossy = Policy("limit", "^mail.classic$", {"max-length": 3, "overflow": "reject-publish"}, "queues", 50)
    in_place = Policy("soft", "^mail.none$", {"max-length": 3}, "queues", 10)
    wanted = replace(
        FULL,
        queues=(*FULL.queues, Queue("mail.classic", type="classic"), Queue("mail.fixed", durable=False)),
        policies=(*FULL.policies, lossy, in_place),
    )
    there = Topology(
        queues=(Queue("mail.classic", type="classic"), Queue("mail.fixed"), Queue("mail.old")),
        policies=(replace(lossy, definition={"max-length": 9}), replace(in_place, priority=5)),
        vhost="v",
    )
    cap = Policy("cap", "mail", {"expires": 5}, "queues", 0)
    actual = Actual(there, Surroundings(operator_policies=(cap,)))
    wishes = Wishes(prune=True)
    return wanted, actual, make_plan(wanted, actual, wishes), wishes


def keys_of(value):
    if isinstance(value, dict):
        return set(value)
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


def test_every_kind_of_change_is_in_the_document_and_the_last_line():
    *_, plan, _ = one_of_each()

    found = {(tuple(each["actions"]), each["risk"], each["blocked"]) for each in document(plan)["changes"]}

    assert found == {
        (("create",), "none", False),
        (("update",), "none", False),
        (("update",), "may_drop", False),
        (("delete", "create"), "replace", True),
        (("delete",), "delete", False),
    }
    assert re.fullmatch(
        r"Plan: \d+ to add, 2 to change \(1 may drop messages\), 1 to replace, 1 to delete\.", summary_line(plan)
    )


def test_every_key_is_described_and_the_document_is_json():
    wanted, actual, plan, wishes = one_of_each()

    kept = save(wanted, actual, plan, wishes, BrokerInfo("4.3.6", "rabbit@here"))

    keys = keys_of(kept) | keys_of(kept["summary"]) | keys_of(kept["changes"]) | keys_of(kept["obstacles"])
    assert [key for key in sorted(keys) if not re.search(rf"\b{re.escape(key)}\b", PAGE)] == []
    assert json.loads(json.dumps(kept)) == kept


def test_a_work_queue_that_stays_is_told_once_with_all_its_parts():
    there = Topology(FULL.exchanges, FULL.queues, FULL.bindings, FULL.policies)
    name = min(FULL.work_queues)
    whole = FULL.work_queues[name]
    actual = Actual(there, holdings={whole.dead_queue: Holding(2, 0)})

    plan = make_plan(Topology(owns=(name,)), actual, Wishes(prune=True))

    (kept,) = document(plan)["kept"]
    assert (kept["address"], kept["reason"]) == (
        f"queue {name}",
        f"queue {whole.dead_queue}: it holds 2 messages; a work queue stays whole",
    )
    assert {
        f"exchange {whole.retry_exchange}",
        f"exchange {whole.dead_exchange}",
        f"queue {whole.dead_queue}",
        f"policy amqpkit.{name}",
        f"policy amqpkit.{name}.parts",
        f"binding {whole.dead_exchange} -> queue {whole.dead_queue}",
    } < set(kept["parts"])
    assert plan.steps == ()
    assert re.search(r"\bparts\b", PAGE)


def test_a_replacement_lists_the_bindings_that_are_to_be_made_again():
    bindings = (Binding("ev", "photo", "photo.#"), Binding("ev", "photo", "image.*", arguments={"n": 1}))
    photo = Queue("photo", "classic", arguments={"x-queue-type": "classic", "x-message-ttl": 1000})
    there = Topology(exchanges=(Exchange("ev", "topic"),), queues=(photo,), bindings=bindings)
    wanted = replace(there, queues=(replace(photo, arguments={**photo.arguments, "x-message-ttl": 2000}),))

    (change,) = document(make_plan(wanted, Actual(there)))["changes"]

    assert change["bindings"] == ["binding ev -photo.#-> queue photo", "binding ev -image.* [n=1]-> queue photo"]
