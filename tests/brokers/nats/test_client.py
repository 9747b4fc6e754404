"""The client of NATS and a real server."""

from distributary.protocols.nats import sink as transport


def test_a_message_comes_back(run, nats_server, connector, way):
    """As it was published, with where an answer goes."""

    async def scenario():
        listener = _Listener()
        async with way() as here:
            destination = here.to(nats_server.port, "x")
            connection = await transport.connect(connector(), destination, listener, 1024)
            connection.subscribe("library.>")
            assert await connection.flush(5)
            connection.publish("library.x", b"payload", reply="somewhere")
            assert await connection.flush(5)
            assert listener.messages == [(b"library.x", b"somewhere", b"", b"payload")]
            await connection.close()

    run(scenario())


def test_the_words_of_an_error_are_there_as_the_server_wrote_them(run, nats_server, connector, way):
    """Case and quotes too: they are matched and told."""

    async def scenario():
        listener = _Listener()
        async with way() as here:
            destination = here.to(nats_server.port, "x")
            connection = await transport.connect(connector(), destination, listener, 1024)
            connection.subscribe("Library.>")
            for subject in ("Library.X", "forbidden.Upper", "Library.Y"):
                connection.publish(subject, b"")
            assert await connection.flush(5)
            assert [each[0] for each in listener.messages] == [b"Library.X", b"Library.Y"]
            assert listener.denials == [
                "'Permissions Violation for Publish to \"forbidden.Upper\"'"
            ]
            await connection.close()

    run(scenario())


class _Listener:
    def __init__(self):
        self.messages = []
        self.denials = []

    def taken(self, _sid, subject, reply, headers, payload):
        self.messages.append((subject, reply, headers, payload))

    def denied(self, text):
        self.denials.append(text)

    def lost(self, answer):
        pass
