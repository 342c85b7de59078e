"""`amqpkit apply` as people and programs meet it."""

import io
import json
import sys
from pathlib import Path

import pika
import pytest

from amqpkit.cli import main
from amqpkit.cli.connect import AdminOptions, redact
from amqpkit.errors import AmqpkitError

FULL = Path(__file__).parents[1] / "unit" / "declare" / "full.yaml"
SMALL = "version: 1\nwork_queues:\n  email.send: {}\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "topology.yaml"
    path.write_text(SMALL)
    return path


class Terminal(io.StringIO):
    def isatty(self):
        return True


def answer(monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", Terminal(text))


def apply(broker, *arguments):
    return main(["apply", *map(str, arguments), "--url", broker.url, "--api", broker.api])


def test_it_says_what_it_will_create_and_what_it_did(broker, capsys):
    assert apply(broker, FULL, "--yes") == 0
    out, err = capsys.readouterr()
    assert "  + queue email.send.retry.30s\n" in out
    assert "to add, 0 to change, 0 to replace, 0 to delete." in out
    assert out.splitlines()[-1].startswith("Created ")
    assert err == ""

    assert apply(broker, FULL) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Nothing to change: all ")
    assert err == ""


def test_the_environment_says_where(broker, capsys, monkeypatch, file):
    monkeypatch.setenv("AMQP_URL", broker.url)
    monkeypatch.setenv("AMQP_API_URL", broker.api.replace("amqpkit:amqpkit@", ""))

    assert main(["apply", str(file), "--yes"]) == 0
    assert broker.vhost in capsys.readouterr().out


def test_it_asks_and_only_yes_is_yes(broker, capsys, monkeypatch, file):
    for text in ("y\n", "\n", ""):
        answer(monkeypatch, text)
        assert apply(broker, file) == 1
        out, err = capsys.readouterr()
        assert "+ queue email.send" in out
        assert "Only yes is accepted: nothing was changed" in err
    assert broker.http("GET", f"queues/{broker.vhost}")[1] == []

    answer(monkeypatch, "yes\n")
    assert apply(broker, file) == 0


def test_without_a_terminal_and_without_yes_nothing_happens(broker, capsys, monkeypatch, file):
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n"))

    assert apply(broker, file) == 1
    assert "--yes" in capsys.readouterr().err
    assert broker.http("GET", f"queues/{broker.vhost}")[1] == []


def test_a_conflict_names_object_argument_both_values_and_the_remedy(broker, capsys, file):
    arguments = {"x-queue-type": "quorum", "x-message-ttl": 5}
    broker.http("PUT", f"queues/{broker.vhost}/email.send.dlq", {"durable": True, "arguments": arguments})

    assert apply(broker, file, "--yes") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "queue email.send.dlq: x-message-ttl is 5 on the broker, the file wants not set; " in err
    assert "under a new name" in err
    assert "nothing was changed" in err
    assert [each["name"] for each in broker.http("GET", f"queues/{broker.vhost}")[1]] == ["email.send.dlq"]


def test_the_document_of_json(broker, capsys, file):
    assert apply(broker, file, "--yes", "--json") == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["format_version"], first["outcome"]) == ("1.0", "applied")
    assert first["broker"]["version"] == broker.version
    assert first["broker"]["vhost"] == broker.vhost
    (queue,) = (each for each in first["changes"] if each["address"] == "queue email.send")
    assert (queue["actions"], queue["done"], queue["before"], queue["properties"]) == (["create"], True, None, [])

    file.write_text("version: 1\nwork_queues:\n  email.send: {max-length: 100}\n")
    assert apply(broker, file, "--yes", "--json") == 0
    (change,) = json.loads(capsys.readouterr().out)["changes"]
    assert (change["address"], change["actions"]) == ("policy amqpkit.email.send", ["update"])
    assert {"name": "max-length", "before": "not set", "after": "100"} in change["properties"]

    assert apply(broker, file, "--json") == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "unchanged"

    file.write_text(SMALL + "exchanges:\n  email.send.x: {type: topic}\n")
    assert apply(broker, file, "--json") == 1
    declined = json.loads(capsys.readouterr().out)
    assert (declined["outcome"], declined["changes"][0]["done"]) == ("declined", False)

    broker.http("PUT", f"exchanges/{broker.vhost}/email.send.x", {"type": "fanout", "durable": True})
    assert apply(broker, file, "--json", "--yes") == 1
    (conflict,) = json.loads(capsys.readouterr().out)["conflicts"]
    assert (conflict["object"], conflict["argument"]) == ("exchange email.send.x", "type")
    assert (conflict["wanted"], conflict["actual"]) == ("topic", "fanout")


def document_of(capsys):
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["format_version"] == "1.0"
    assert all(line in err for error in document["errors"] for line in error.splitlines())
    return document


@pytest.mark.parametrize(
    ("text", "arguments", "error"),
    [
        ("version: 1\nwork_queues: 5\nqueues: 7\n", [], "topology.yaml:2:"),
        (SMALL, ["--url", "amqp://u:p@127.0.0.1:1/"], "127.0.0.1:1"),
        (
            SMALL + "vhost: orders\n",
            ["--url", "amqp://u:p@127.0.0.1:1/other"],
            'the topology file is for vhost "orders"',
        ),
    ],
)
def test_an_error_before_the_broker_answers_is_a_document_too(capsys, file, text, arguments, error):
    file.write_text(text)

    assert main(["apply", str(file), "--yes", "--json", *arguments]) == 1
    document = document_of(capsys)
    assert (document["outcome"], document["broker"], document["changes"]) == ("failed", None, [])
    assert error in document["errors"][0]


def test_every_problem_of_the_files_is_an_error_of_the_document(capsys, file):
    file.write_text("version: 1\nwork_queues: 5\nqueues: 7\n")

    assert main(["apply", str(file), "--json"]) == 1
    assert [each.partition(": ")[0].rpartition("topology.yaml")[2] for each in document_of(capsys)["errors"]] == [
        ":2:14",
        ":3:9",
    ]


def test_a_file_that_is_no_plan_is_a_document_too_and_a_wrong_command_line_is_none(capsys, file, tmp_path):
    saved = tmp_path / "plan.json"
    assert main(["apply", "--plan", str(saved), "--json"]) == 1
    assert "cannot be read" in document_of(capsys)["errors"][0]
    saved.write_text("{}")
    assert main(["apply", "--plan", str(saved), "--json"]) == 1
    assert "no plan of format" in document_of(capsys)["errors"][0]

    assert main(["apply", str(file), "--plan", str(saved), "--json"]) == 64
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b'{"format_version": "1.0", "changes": ' + b"[" * 500 + b"]" * 500 + b"}", "nested too deeply"),
        (b'{"format_version": "1.0", "prune": 1e999}', "too large"),
        (b'{"format_version": NaN}', "NaN is no number"),
        (b"9" * 5_000, "digits"),
        (b"\xff", "decode"),
        (b"", "Expecting value"),
    ],
)
def test_whatever_a_plan_file_holds_it_is_refused_and_not_a_crash(capsys, tmp_path, content, words):
    saved = tmp_path / "plan.json"
    saved.write_bytes(content)

    assert main(["apply", "--plan", str(saved)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"amqpkit: {saved}")
    assert words in err


def test_a_missing_tag_a_held_lock_and_a_stale_plan_are_documents_too(broker, capsys, file, user, urls, tmp_path):
    assert main(["apply", str(file), "--yes", "--json", *urls(user("management"))]) == 1
    document = document_of(capsys)
    assert (document["outcome"], document["broker"]["vhost"]) == ("failed", broker.vhost)
    assert "needs the tag policymaker" in document["errors"][0]

    saved = tmp_path / "plan.json"
    assert main(["plan", str(file), "--out", str(saved), *urls()]) == 0
    holder = pika.BlockingConnection(pika.URLParameters(broker.url))
    holder.channel().queue_declare("amqpkit.lock", exclusive=True, arguments={"x-queue-type": "classic"})
    capsys.readouterr()
    assert apply(broker, file, "--yes", "--json") == 1
    document = document_of(capsys)
    assert document["outcome"] == "failed"
    assert "somebody else is changing this vhost" in document["errors"][0]
    assert document["changes"]
    assert not any(change["done"] for change in document["changes"])
    holder.close()

    broker.http("PUT", f"exchanges/{broker.vhost}/email.send.dlx", {"type": "fanout", "durable": True})
    assert main(["apply", "--plan", str(saved), "--json", *urls()]) == 1
    document = document_of(capsys)
    assert document["outcome"] == "failed"
    assert document["errors"][0].startswith("stale plan: ")


def test_stopped_on_the_way_is_exit_3_and_another_run_does_the_rest(broker, capsys, file, user, urls):
    # Of two users nobody is asked for permissions beforehand: what one is denied, the other may do.
    limited = urls(user("policymaker", configure=r"^(email\.send\..+|amqpkit\.lock)$"))
    other = urls(user("policymaker", configure=r"^email\.send\..+$"))
    limited = [*limited[:3], other[3]]

    assert main(["apply", str(file), "--yes", *limited]) == 3
    out, err = capsys.readouterr()
    assert "Created" not in out
    assert "then stopped; remove the cause, then apply again" in err
    assert 'it needs configure permission on "email.send"' in err
    assert "not done: binding email.send.retry -return-> queue email.send\n" in err
    assert "cret" not in out + err

    assert main(["apply", str(file), "--yes", "--json", *limited]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["outcome"] == "failed"
    assert document["errors"][0].startswith("queue email.send: ")

    assert apply(broker, file, "--yes") == 0
    assert "Created 2, changed 0" in capsys.readouterr().out


@pytest.mark.parametrize("tags", ["policymaker", "administrator"])
def test_a_user_without_permission_on_some_names_is_refused_before_the_first_change(
    broker, capsys, file, user, urls, tags
):
    limited = urls(user(tags, configure=r"^(email\.send\..+|amqpkit\.lock)$"))
    before = broker.http("GET", f"exchanges/{broker.vhost}")[1]

    assert main(["apply", str(file), "--yes", *limited]) == 1
    out, err = capsys.readouterr()
    assert "+ queue email.send\n" in out
    assert f'may not do this in vhost "{broker.vhost}"; it lacks permission to configure "email.send"' in err
    assert f"rabbitmqctl set_permissions -p {broker.vhost} " in err
    assert err.endswith("; nothing was changed\n")
    assert main(["apply", str(file), "--yes", "--json", *limited]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["outcome"], document["changes"][0]["done"]) == ("failed", False)
    assert 'configure "email.send"' in document["errors"][0]
    for listing in ("queues", "bindings", "policies"):
        assert broker.http("GET", f"{listing}/{broker.vhost}")[1] == []
    assert broker.http("GET", f"exchanges/{broker.vhost}")[1] == before


def test_a_user_who_may_make_no_policies_is_refused_before_the_first_change(broker, capsys, file, user, urls):
    assert main(["apply", str(file), "--yes", *urls(user("management"))]) == 1

    err = capsys.readouterr().err
    assert "needs the tag policymaker" in err
    assert "nothing was changed" in err
    assert broker.http("GET", f"exchanges/{broker.vhost}/email.send.dlx")[0] == 404


def test_a_second_apply_at_the_same_time_is_told_that_somebody_holds_the_lock(broker, capsys, file):
    parameters = pika.URLParameters(broker.url)
    parameters.client_properties = {"connection_name": "the other one"}
    holder = pika.BlockingConnection(parameters)
    holder.channel().queue_declare("amqpkit.lock", exclusive=True, arguments={"x-queue-type": "classic"})

    assert apply(broker, file, "--yes") == 1
    err = capsys.readouterr().err
    assert "somebody else is changing this vhost" in err
    assert "try again later" in err
    assert "it is held by " in err  # with the connection's name, once the statistics have it
    assert broker.http("GET", f"queues/{broker.vhost}/email.send")[0] == 404

    holder.close()  # as a crash would
    assert apply(broker, file, "--yes") == 0


def test_another_clusters_management_api_is_refused(broker, capsys, file):
    other = f"{broker.vhost}-cluster"
    _, before = broker.http("GET", "cluster-name")
    # The broker's own word over AMQP against its word over HTTP: an API of our own says that it is somebody else.
    with Impostor(other) as api:
        assert main(["apply", str(file), "--yes", "--url", broker.url, "--api", api]) == 1

    err = capsys.readouterr().err
    assert other in err
    assert before["name"] in err
    assert "--api" in err


class Impostor:
    """A web server that says it is the management API of some cluster."""

    def __init__(self, cluster):
        import http.server
        import threading

        body = json.dumps({"product_version": "4.3.6", "cluster_name": cluster}).encode()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return f"http://127.0.0.1:{self.server.server_port}"

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def test_a_wrong_password_is_no_secret_told(broker, capsys, file):
    url = f"amqp://amqpkit:se%2Fcret@{broker.url.rpartition('@')[2]}"

    assert main(["apply", str(file), "--yes", "--url", url, "--api", broker.api]) == 1
    err = capsys.readouterr().err
    assert "amqpkit" in err
    assert "cret" not in err


def test_nobody_at_the_management_port(broker, capsys, file):
    assert main(["apply", str(file), "--yes", "--url", broker.url, "--api", "http://u:se%2Fcret@127.0.0.1:1"]) == 1
    err = capsys.readouterr().err
    assert "127.0.0.1:1 cannot be reached" in err
    assert "management plugin" in err
    assert "cret" not in err


def test_nobody_at_the_broker(capsys, file):
    assert main(["apply", str(file), "--yes", "--url", "amqp://u:se%2Fcret@127.0.0.1:1/"]) == 1
    err = capsys.readouterr().err
    assert "127.0.0.1:1" in err
    assert "cret" not in err


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("vhost: orders\n", ["--url", "amqp://u:p@127.0.0.1:1/billing"]),
        ("vhost: orders\n", ["--url", "amqp://u:p@127.0.0.1:1/orders", "--vhost", "billing"]),
        ("vhost: orders\n", ["--url", "amqp://u:p@127.0.0.1:1"]),
    ],
)
def test_the_vhost_of_the_file_must_be_the_connections(capsys, file, text, arguments):
    file.write_text(SMALL + text)

    assert main(["apply", str(file), *arguments]) == 1
    assert 'the topology file is for vhost "orders"' in capsys.readouterr().err


def test_a_url_that_does_not_read_cleanly_is_refused_without_its_secret(capsys, file):
    assert main(["apply", str(file), "--url", "amqp://svc:se@cret/w#rd%1@127.0.0.1:5672/v"]) == 1
    err = capsys.readouterr().err
    assert "percent-encoded" in err
    assert "cret" not in err


def test_a_wrong_command_line_is_64(capsys, file):
    assert main(["apply", str(file), "--nope"]) == 64


@pytest.mark.parametrize(
    ("options", "url", "api"),
    [
        ({}, "amqp://guest:guest@localhost:5672/%2F", "http://guest:guest@localhost:15672"),
        ({"url": ""}, "amqp://guest:guest@localhost:5672/%2F", "http://guest:guest@localhost:15672"),
        ({"url": "amqps://u:p@h/a%2Fb"}, "amqps://u:p@h:5671/a%2Fb", "https://u:p@h:15671"),
        ({"url": "amqp://u:p@h:1/a", "vhost": "b/c"}, "amqp://u:p@h:1/b%2Fc", "http://u:p@h:15672"),
        ({"url": "amqp://u:p%40@h", "api": "https://g/x"}, "amqp://u:p%40@h:5672/%2F", "https://u:p%40@g:443/x/api"),
        ({"url": "amqp://u:p@h", "api": "http://a:b@g:1"}, "amqp://u:p@h:5672/%2F", "http://a:b@g:1"),
        ({"url": "amqp://u:p@h?heartbeat=5"}, "amqp://u:p@h:5672/%2F?heartbeat=5", "http://u:p@h:15672"),
    ],
)
def test_where_the_broker_and_its_api_are(options, url, api):
    place = AdminOptions(**options).place()

    assert (place.url.text, place.api) == (url, api)


def test_options_show_no_secret_when_printed():
    options = AdminOptions(url="amqp://u:secret@h/v", api="http://u:secret@h")

    assert "secret" not in repr(options) + repr(options.place()) + str(options.place())


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("amqp://user:secret@host:5672/v", "amqp://user:***@host:5672/v"),
        ("amqp://host/v", "amqp://host/v"),
        ("amqp://user:se@cret/w#rd@host/v", "amqp://***@host/v"),
        ("user:secret@host", "user:***@host"),
        ("http://user:%2Fsecret@[::1]:15672", "http://user:***@[::1]:15672"),
    ],
)
def test_a_url_is_shown_without_its_password(url, shown):
    assert redact(url) == shown


def test_certificates_that_cannot_be_read_are_named():
    from amqpkit.cli.connect import _tls

    with pytest.raises(AmqpkitError, match="certificates"):
        _tls("cafile=/nowhere/ca.pem")
    assert _tls("no_verify_ssl=1").check_hostname is False
