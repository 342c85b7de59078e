"""What is in no file, and how much of it may go."""

import pytest

from amqpkit.declare.identity import address
from amqpkit.declare.plan import changes as judged
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.extras import FENCE, Owned
from amqpkit.declare.plan.planning import Wishes, make_plan
from amqpkit.model import Binding, Exchange, Holding, Policy, Queue, Topology


def queue(name, **arguments):
    return Queue(name, arguments={"x-queue-type": "quorum", **arguments})


def there(*objects):
    def of(kind):
        return tuple(each for each in objects if isinstance(each, kind))

    return Topology(exchanges=of(Exchange), queues=of(Queue), bindings=of(Binding), policies=of(Policy))


def pruned(*objects, wanted=(), owns=("mail",), holdings=None, retained=(), prune=True):
    base = there(*wanted)
    topology = Topology(base.exchanges, base.queues, base.bindings, base.policies, owns=owns, retained=retained)
    return make_plan(topology, Actual(there(*objects), holdings=holdings or {}), Wishes(prune=prune))


def going(plan):
    return [judged.address(change) for change in plan.steps]


@pytest.mark.parametrize(
    ("name", "inside"),
    [("mail", True), ("mail.a", True), ("mail.a.b", True), ("mails", False), ("mai", False), ("x.mail", False)],
)
def test_owned_is_a_name_and_all_that_is_under_it(name, inside):
    assert (name in Owned.of(["mail"])) is inside


def test_without_prune_extras_are_reported_and_stay():
    plan = pruned(queue("mail.old"), queue("orders"), prune=False)

    assert (plan.steps, plan.extras, plan.blocked) == ((), (queue("mail.old"),), False)


def test_nothing_outside_owns_is_ever_deleted():
    foreign = (
        queue("orders"),
        Exchange("shop"),
        Binding("shop", "orders"),
        Binding("mail", "orders"),
        Policy("mailing", ".*", {"expires": 1}, priority=1),
        Policy("amqpkit.orders", "^orders$", {"max-length": 1}),
    )

    plan = pruned(Exchange("mail"), *foreign, wanted=[Exchange("mail")])

    assert (plan.steps, plan.extras, plan.kept) == ((), (), ())


def test_deletions_come_in_the_reverse_order_of_creations():
    old = (
        Exchange("mail.x"),
        Exchange("mail.dlx"),
        queue("mail.old", **{"x-dead-letter-exchange": "mail.dlx"}),
        queue("mail.dlq"),
        Binding("mail.x", "mail.old"),
        Binding("mail.dlx", "mail.dlq"),
        Policy("amqpkit.mail.old", "^mail\\.old$", {"max-length": 1}),
    )

    assert going(pruned(*old)) == [
        "binding mail.x -> queue mail.old",
        "queue mail.old",
        "binding mail.dlx -> queue mail.dlq",
        "queue mail.dlq",
        "policy amqpkit.mail.old",
        "exchange mail.x",
        "exchange mail.dlx",
    ]


def reasons(plan):
    return {address(each.declared): each.reason for each in plan.kept}


def test_a_queue_that_holds_messages_stays_with_all_that_it_needs_and_loses_its_way_in():
    old = (
        Exchange("mail.x"),
        Exchange("mail.dlx"),
        queue("mail.old", **{"x-dead-letter-exchange": "mail.dlx"}),
        queue("mail.dlq"),
        Binding("mail.x", "mail.old"),
        Binding("mail.dlx", "mail.dlq"),
        Policy("amqpkit.mail.old", "^mail\\.old$", {"max-length": 1}),
    )

    plan = pruned(*old, holdings={"mail.old": Holding(3, 0), "mail.dlq": Holding(0, 0)})

    assert going(plan) == ["binding mail.x -> queue mail.old", "exchange mail.x"]
    assert reasons(plan)["queue mail.old"] == "it holds 3 messages"
    assert reasons(plan).keys() == {
        "queue mail.old",
        "exchange mail.dlx",
        "binding mail.dlx -> queue mail.dlq",
        "queue mail.dlq",
        "policy amqpkit.mail.old",
    }
    assert not plan.blocked


@pytest.mark.parametrize(
    ("stays", "kept", "reason"),
    [
        (queue("orders", **{"x-dead-letter-exchange": "mail.x"}), "exchange mail.x", "queue orders dead-letters"),
        (Exchange("shop", arguments={"alternate-exchange": "mail.x"}), "exchange mail.x", "exchange shop dead-letters"),
        (Policy("p", ".*", {"dead-letter-exchange": "mail.x"}), "exchange mail.x", "policy p dead-letters"),
        (
            queue("orders", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "mail.q"}),
            "queue mail.q",
            "queue orders dead-letters",
        ),
        (Binding("mail.x", "orders"), "exchange mail.x", "it feeds what is not in this file (queue orders)"),
    ],
)
def test_what_somebody_else_needs_stays(stays, kept, reason):
    plan = pruned(Exchange("mail.x"), queue("mail.q"), stays)

    assert kept not in going(plan)
    assert reasons(plan)[kept].startswith(reason)
    assert len(plan.steps) == 1


def test_what_the_file_itself_no_longer_names_may_go_in_the_same_plan():
    def naming(exchange):
        return Policy("p", "^orders$", {"dead-letter-exchange": exchange})

    plan = pruned(Exchange("mail.x"), naming("mail.x"), wanted=[naming("amq.fanout")])

    assert going(plan) == ["policy p", "exchange mail.x"]


def test_a_queue_with_consumers_stays():
    assert reasons(pruned(queue("mail.q"), holdings={"mail.q": Holding(0, 2)})) == {
        "queue mail.q": "it has 2 consumers"
    }


def test_what_is_to_be_retained_stays():
    plan = pruned(queue("mail.audit"), queue("mail.audit.dlq"), queue("mail.q"), retained=("mail.audit",))

    assert going(plan) == ["queue mail.q"]
    assert set(reasons(plan).values()) == {"on-remove says retain"}


def test_a_fence_that_was_left_behind_goes_even_without_prune():
    fence = Policy(f"{FENCE}mail.q", "^mail\\.q$", {"max-length": 0}, "queues", 999)

    plan = pruned(fence, queue("mail.q"), wanted=[queue("mail.q")], prune=False)

    assert going(plan) == [f"policy {FENCE}mail.q"]
    assert judged.reason(plan.steps[0]) == "an interrupted prune left it"
    assert not plan.blocked


def test_a_fence_that_was_left_behind_goes_first_also_from_a_queue_that_stays():
    fence = Policy(f"{FENCE}mail.q", "^mail\\.q$", {"max-length": 0}, "queues", 999)

    plan = pruned(fence, queue("mail.q"), queue("mail.old"), holdings={"mail.q": Holding(1, 0)})

    assert going(plan) == [f"policy {FENCE}mail.q", "queue mail.old"]
    assert reasons(plan).keys() == {"queue mail.q"}


def test_the_bindings_of_what_is_retained_keep_their_exchange_and_no_other_queue_of_it():
    """A binding goes with either of its ends, so deleting the exchange would undo what the plan says it keeps."""
    old = (
        Exchange("mail", arguments={"alternate-exchange": "mail.rest"}),
        Exchange("mail.rest"),
        queue("mail.audit"),
        queue("mail.other"),
        Binding("mail", "mail.audit", "k"),
        Binding("mail", "mail.other", "k"),
    )

    plan = pruned(*old, retained=("mail.audit",))

    assert going(plan) == ["binding mail -k-> queue mail.other", "queue mail.other"]
    assert reasons(plan)["exchange mail"] == "binding mail -k-> queue mail.audit stays, and needs it"
    assert reasons(plan)["exchange mail.rest"] == "exchange mail stays, and needs it"


def test_an_exchange_that_is_needed_for_a_binding_and_then_for_dead_letters_keeps_what_those_reach():
    old = (
        Exchange("mail"),
        queue("mail.audit", **{"x-dead-letter-exchange": "mail"}),
        queue("mail.dead"),
        Binding("mail", "mail.audit", "k"),
        Binding("mail", "mail.dead", "k"),
    )

    assert going(pruned(*old, retained=("mail.audit",))) == []


@pytest.mark.parametrize("dots", [".", ".."])
def test_what_the_management_api_cannot_name_stays_and_hinders_nothing_else(dots):
    """RabbitMQ's web server takes `/.` and `/..` for a way, however they are encoded (measured): the deletion fails."""
    bound = Binding("mail", "mail.a", dots)

    plan = pruned(
        *(Exchange("mail"), queue("mail.a"), queue("mail.b"), queue(dots), Binding("mail", dots), bound),
        owns=("mail", dots),
    )

    assert going(plan) == ["queue mail.b"]
    for name in (f"queue {dots}", f"binding mail -> queue {dots}", f"binding mail -{dots}-> queue mail.a"):
        assert "delete it with an AMQP client" in reasons(plan)[name]
    assert reasons(plan)["queue mail.a"] == f"binding mail -{dots}-> queue mail.a stays, and needs it"
