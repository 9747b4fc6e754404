"""The bare client library: as many 1 KB messages as it publishes with acknowledgement.

    python benchmarks/_bare.py PROTOCOL PORT COUNT

What a transport's rate is held against: the same broker, message, acknowledgement and window, and
nothing around it. Prints one JSON object: messages a second. Programs of the libraries' own style:
paho with its loop on a thread, nats-py with futures, librdkafka, proton's reactor.
"""

# ruff: noqa: PLC0415 - each library is imported where its protocol is measured, and nowhere else

import asyncio
import json
import sys
import threading
import time

import _kit  # noqa: F401 - for the imports of kit
from _load import BODY
from kit.broker_scenarios import PLACE
from kit.servers import PASSWORD, USER

ATTRIBUTES = {
    "id": "1234567",
    "source": "/sensors/tn-1234567",
    "type": "com.example.reading",
    "specversion": "1.0",
    "subject": "abc",
}
"""Of an event of the load generator, as the bindings carry them beside the data."""


def mqtt(port, count):
    import paho.mqtt.client as paho
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    over, published = threading.Event(), [0]

    def acknowledged(*_):
        published[0] += 1
        if published[0] == count:
            over.set()

    client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.username_pw_set(USER, PASSWORD)
    client.max_inflight_messages_set(256)
    client.max_queued_messages_set(0)
    client.on_publish = acknowledged
    properties = Properties(PacketTypes.PUBLISH)
    properties.ContentType = "application/json"
    properties.UserProperty = list(ATTRIBUTES.items())
    client.connect("127.0.0.1", port)
    client.loop_start()
    while not client.is_connected():
        time.sleep(0.01)
    began_s = time.perf_counter()
    for _ in range(count):
        client.publish(PLACE, BODY, qos=1, properties=properties)
    over.wait()
    took_s = time.perf_counter() - began_s
    client.disconnect()
    client.loop_stop()
    return took_s


def nats(port, count):
    async def run():
        from nats import NATS

        client = NATS()
        await client.connect(f"nats://127.0.0.1:{port}", user=USER, password=PASSWORD)
        jetstream = client.jetstream(publish_async_max_pending=1_000)
        headers = {f"ce-{name}": value for name, value in ATTRIBUTES.items()}
        headers["content-type"] = "application/json"
        began_s = time.perf_counter()
        for number in range(count):
            more = {**headers, "Nats-Msg-Id": f"bare-{began_s}-{number}"}
            await jetstream.publish_async(PLACE, BODY, headers=more)
        await jetstream.publish_async_completed()
        took_s = time.perf_counter() - began_s
        await client.close()
        return took_s

    return asyncio.run(run())


def kafka(port, count):
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 5,
        }
    )
    headers = [(f"ce_{name}", value) for name, value in ATTRIBUTES.items()]
    headers.append(("content-type", "application/json"))
    producer.list_topics(PLACE, timeout=20)
    done = [0]

    def reported(_error, _message):
        done[0] += 1

    began_s = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(PLACE, BODY, headers=headers, on_delivery=reported)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    producer.flush()
    assert done[0] == count
    return time.perf_counter() - began_s


def amqp(port, count, address=f"/amq/queue/{PLACE}"):
    from proton import Message
    from proton.handlers import MessagingHandler
    from proton.reactor import Container

    class Sending(MessagingHandler):
        def __init__(self):
            super().__init__(prefetch=0)
            self.sent = self.settled = 0

        def on_start(self, event):
            connection = event.container.connect(
                f"amqp://127.0.0.1:{port}", user=USER, password=PASSWORD, allowed_mechs="PLAIN"
            )
            event.container.create_sender(connection, address)

        def on_sendable(self, event):
            if not self.sent:
                self.began_s = time.perf_counter()
            while event.sender.credit and self.sent < count:
                properties = {f"cloudEvents:{name}": value for name, value in ATTRIBUTES.items()}
                event.sender.send(
                    Message(
                        body=BODY,
                        durable=True,
                        content_type="application/json",
                        properties=properties,
                    )
                )
                self.sent += 1

        def on_accepted(self, event):
            self.settled += 1
            if self.settled == count:
                self.took_s = time.perf_counter() - self.began_s
                event.connection.close()

    handler = Sending()
    Container(handler).run()
    return handler.took_s


CLIENTS = {"MQTT5": mqtt, "NATS": nats, "KAFKA": kafka, "AMQP": amqp}


def main(protocol, port, count):
    took_s = CLIENTS[protocol](int(port), int(count))
    print(json.dumps({"rate": int(count) / took_s}))


if __name__ == "__main__":
    main(*sys.argv[1:])
