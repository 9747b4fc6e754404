"""The HTTP transport and TLS."""

import asyncio
import ssl
import subprocess

import pytest
import uvloop
from cryptography.hazmat.primitives import serialization

from distributary.core.deliver.credential import ClientCertificate
from kit.fake_sink import OK, FakeSink
from kit.http_attempts import TableResolver, opened, send
from kit.servers import Authority


def run(scenario):
    """Run on the loop that the product uses."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(scenario)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """A function that makes a self-signed certificate for a name, of a given time."""
    folder = tmp_path_factory.mktemp("tls")
    (folder / "index").write_text("")
    (folder / "conf").write_text(
        f"[ca]\ndefault_ca=d\n[d]\ndatabase={folder}/index\nnew_certs_dir={folder}\n"
        "default_md=sha256\npolicy=p\nrand_serial=yes\nunique_subject=no\n"
        "copy_extensions=copyall\n[p]\nCN=supplied\n"
    )

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=folder)

    def make(name, start="20240101000000Z", end="20991231000000Z"):
        path = folder / f"{name}.pem"
        openssl(
            *("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"),
            *("-keyout", "key", "-out", "request"),
        )
        openssl(
            *("ca", "-batch", "-selfsign", "-config", "conf", "-keyfile", "key", "-notext"),
            *("-startdate", start, "-enddate", end, "-in", "request", "-out", "certificate"),
        )
        path.write_text((folder / "key").read_text() + (folder / "certificate").read_text())
        return path

    return make


def tls_attempt(certificate, host, *, trusted=True, version=None, timeout_s=30.0):
    """The answers of two attempts by TLS, and the sink."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate)
    if version is not None:
        server.set_ciphers("ALL:@SECLEVEL=0")
        server.minimum_version = version
        server.maximum_version = version
    client = ssl.create_default_context(cafile=certificate) if trusted else None
    names = TableResolver({host: ["127.0.0.1"]})

    async def scenario():
        async with FakeSink(tls=server) as sink, opened(resolver=names, tls=client) as transport:
            answers = [await send(transport, sink.uri(host=host), timeout_s) for _ in range(2)]
            return answers, sink

    return run(scenario())


def test_delivers_by_tls(certificates):
    """A trusted certificate of the right name: delivered, and the connection is kept."""
    answers, sink = tls_attempt(certificates("good.example"), "good.example")
    assert [answer.status for answer in answers] == [204, 204]
    assert sink.connections == 1
    assert sink.requests[0].header("host") == f"good.example:{sink.port}"


def test_refuses_a_certificate_of_another_name(certificates):
    """S10: class ``tls``, and no request leaves."""
    answers, sink = tls_attempt(certificates("good.example"), "other.example")
    assert {answer.reason for answer in answers} == {"tls"}
    assert not sink.requests


def test_refuses_a_certificate_that_nobody_signed(certificates):
    """S10: self-signed is not trusted."""
    answers, sink = tls_attempt(certificates("self.example"), "self.example", trusted=False)
    assert {answer.reason for answer in answers} == {"tls"}
    assert not sink.requests


def test_refuses_an_expired_certificate(certificates):
    """S10: expired is refused, though trusted."""
    certificate = certificates("old.example", "20200101000000Z", "20200102000000Z")
    answers, sink = tls_attempt(certificate, "old.example")
    assert {answer.reason for answer in answers} == {"tls"}
    assert not sink.requests


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_refuses_an_old_version_of_tls(certificates):
    """S10: TLS 1.0 is not spoken, and there is no fall-back."""
    certificate = certificates("tls10.example")
    answers, sink = tls_attempt(certificate, "tls10.example", version=ssl.TLSVersion.TLSv1)
    assert {answer.reason for answer in answers} == {"tls"}
    assert not sink.requests


@pytest.mark.slow
def test_a_handshake_that_hangs_costs_the_deadline_alone():
    """S10: the total deadline covers the handshake, and the connection is closed."""

    async def scenario():
        gone = asyncio.Event()

        async def silent(reader, writer):
            while await reader.read(1000):
                pass
            gone.set()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        uri = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        async with server, opened() as transport:
            answer = await send(transport, uri, 0.3)
            await asyncio.wait_for(gone.wait(), 60)
            return answer

    assert run(scenario()).reason == "timeout"


def test_trusts_the_certificates_that_a_destination_brings(certificates):
    """``ca_certs``: for that destination alone, dialled elsewhere, and by its own name."""
    certificate = certificates("orders.shop.svc")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate)
    text = certificate.read_text()
    trusted = {"ca_certs": text[text.index("-----BEGIN CERTIFICATE") :]}

    async def scenario():
        async with FakeSink(tls=server) as sink, opened() as transport:
            uri = "https://orders.shop.svc/in"
            dial = {"dial": f"127.0.0.1:{sink.port}"}
            answers = [
                await send(transport, uri, **dial),
                await send(transport, uri, **dial, **trusted),
                await send(transport, uri, **dial, **trusted),
                await send(transport, uri, **dial),
                await send(transport, "https://other.svc/in", **dial, **trusted),
            ]
            return answers, sink

    answers, sink = run(scenario())
    assert [getattr(answer, "reason", None) for answer in answers] == [
        "tls", None, None, "tls", "tls",
    ]  # fmt: skip
    assert [request.header("host") for request in sink.requests] == ["orders.shop.svc"] * 2


def test_a_client_certificate_is_shown_to_a_sink_that_asks_for_one(tmp_path):
    """By each subscription its own, over its own connection; without one nothing is delivered."""
    authority = Authority(tmp_path)
    own, other = (shown(authority, name) for name in ("own", "other"))
    stranger = shown(Authority(tmp_path / "stranger"), "stranger")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.ca_file)
    server.load_cert_chain(*authority.server())
    server.verify_mode = ssl.CERT_REQUIRED
    seen = []

    async def note(_request, writer):
        subject = dict(part for (part,) in writer.get_extra_info("peercert")["subject"])
        seen.append(subject["commonName"])
        writer.write(OK)

    async def scenario():
        async with FakeSink(note, tls=server) as sink, opened() as transport:
            trust = {"ca_certs": authority.ca_certs}
            uri = sink.uri(host="127.0.0.1")
            return [
                await send(transport, uri, client_certificate=each, **trust)
                for each in (own, other, own, None, stranger)
            ]

    *good, without, strange = run(scenario())
    assert [answer.status for answer in good] == [204, 204, 204]
    assert seen == ["own", "other", "own"]
    assert [answer.reason in {"tls", "reset"} for answer in (without, strange)] == [True, True]


@pytest.mark.parametrize(
    "change",
    [
        lambda own, other: ClientCertificate(own.certificate, other.key),
        lambda own, _other: ClientCertificate(own.certificate, "no key"),
        lambda own, _other: ClientCertificate("no certificate", own.key),
        lambda own, _other: ClientCertificate(own.certificate, encrypted(own.key)),
    ],
    ids=["other-key", "no-key", "no-certificate", "password"],
)
def test_a_pair_that_cannot_be_used_is_a_failure_of_tls(tmp_path, change):
    """The store may be damaged: nothing asks for a password, and no word of the key is repeated."""
    authority = Authority(tmp_path)
    own, other = (shown(authority, name) for name in ("own", "other"))

    async def scenario():
        async with FakeSink() as sink, opened() as transport:
            uri = sink.uri(host="127.0.0.1").replace("http:", "https:")
            return await send(transport, uri, client_certificate=change(own, other))

    failure = run(scenario())
    assert failure.reason == "tls"
    assert "client certificate" in str(failure)
    assert own.key.splitlines()[1] not in str(failure)


def shown(authority, name):
    """A certificate of *authority* for *name*."""
    files = authority.server(name)
    return ClientCertificate(files.certificate.read_text(), files.key.read_text())


def encrypted(pem):
    """The same key with a password."""
    key = serialization.load_pem_private_key(pem.encode(), None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    ).decode()
