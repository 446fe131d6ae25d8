"""Pods' pages are read within bounds: one that hangs, floods, redirects or lies harms neither the others nor the operator."""

import asyncio
import datetime
import ipaddress
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dev.cluster.machine.ports import free_port
from tests.unit.observe.engine_page import page
from tierwright.observe.readings import Scraped, ScrapeFault, Target
from tierwright.observe.scrape import Scraper, ScrapeSettings, authority

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def good(_: web.Request) -> web.StreamResponse:
    """A page."""
    return web.Response(text=page())


async def hanging(_: web.Request) -> web.StreamResponse:
    """Never an answer."""
    await asyncio.sleep(60)
    return web.Response()


async def dripping(request: web.Request) -> web.StreamResponse:
    """An answer that does not end."""
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(600):
        await response.write(b"# more to come\n")
        await asyncio.sleep(0.1)
    return response


async def flooding(request: web.Request) -> web.StreamResponse:
    """An answer without an end, as fast as it can."""
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(10_000):
        await response.write(b"x" * 65_536)
    return response


async def away(_: web.Request) -> web.StreamResponse:
    """A way to somewhere else."""
    raise web.HTTPFound("/elsewhere")


async def broken(_: web.Request) -> web.StreamResponse:
    """A failure."""
    raise web.HTTPServiceUnavailable


async def garbage(_: web.Request) -> web.StreamResponse:
    """Bytes that are no text."""
    return web.Response(body=bytes(range(256)) * 100)


async def guarded(request: web.Request) -> web.StreamResponse:
    """A page for who has the token."""
    if request.headers.get("Authorization") != "Bearer secret":
        raise web.HTTPUnauthorized
    return web.Response(text=page())


@asynccontextmanager
async def pod(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[Target]:
    """A pod that answers so."""
    app = web.Application()
    app.router.add_get("/metrics", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
    try:
        yield Target(f"{handler.__name__}-{port}", "127.0.0.1", port)
    finally:
        await runner.cleanup()


async def read(
    target: Target, tls: ssl.SSLContext | None = None, token_file: str = "", most: int = 1_000_000
) -> Scraped:
    """One reading of one pod."""
    settings = ScrapeSettings(timeout=1.0, most_bytes=most, token_file=token_file)
    async with Scraper(settings, tls) as scraper:
        return (await scraper.read([target]))[target.uid]


@pytest.mark.parametrize(
    ("handler", "fault", "words"),
    [
        (hanging, ScrapeFault.TIMED_OUT, "within 1 s"),
        (dripping, ScrapeFault.TIMED_OUT, "within 1 s"),
        (flooding, ScrapeFault.TOO_LARGE, "1,000,000 bytes"),
        (away, ScrapeFault.REFUSED, "status 302"),
        (broken, ScrapeFault.REFUSED, "status 503"),
        (guarded, ScrapeFault.REFUSED, "status 401"),
    ],
)
async def test_a_pod_that_gives_no_page_is_told_with_its_cause(
    handler: Handler, fault: ScrapeFault, words: str
) -> None:
    async with pod(handler) as target:
        found = await read(target)
    assert (found.page, found.fault) == (None, fault)
    assert words in found.words


async def test_a_page_is_read_and_one_of_garbage_tells_nothing() -> None:
    async with pod(good) as target:
        found = await read(target)
        assert found.page is not None
        assert found.page.running == 3
    async with pod(garbage) as target:
        found = await read(target)
        assert found.page is not None
        assert found.page.running is None


async def test_a_pod_without_address_or_that_does_not_listen_is_told() -> None:
    assert (await read(Target("a", "", 8000))).fault is ScrapeFault.NO_ADDRESS
    assert (await read(Target("a", "127.0.0.1", free_port()))).fault is ScrapeFault.UNREACHABLE
    assert (await read(Target("a", "::1", free_port()))).fault is ScrapeFault.UNREACHABLE


async def test_pods_that_hang_do_not_keep_others_from_being_read() -> None:
    async with pod(hanging) as slow, pod(good) as fast:
        hung = [Target(f"hung-{number}", slow.host, slow.port) for number in range(8)]
        settings = ScrapeSettings(timeout=0.3, budget=1.0, concurrency=4)
        async with Scraper(settings) as scraper:
            first = await scraper.read([*hung, fast])
            assert {each.fault for uid, each in first.items() if uid != fast.uid} == {ScrapeFault.TIMED_OUT}
            started = time.monotonic()
            again = await scraper.read([*hung, fast])
        assert again[fast.uid].page is not None
        assert again[fast.uid].at - started < 0.3, "it is read before those that were slow"


async def test_a_page_that_waited_while_the_process_stood_still_is_of_another_time() -> None:
    clock = iter([100.0, 160.0])
    async with (
        pod(good) as target,
        Scraper(ScrapeSettings(timeout=3.0), clock=lambda: next(clock)) as scraper,
    ):
        found = (await scraper.read([target]))[target.uid]
    assert (found.page, found.fault) == (None, ScrapeFault.TIMED_OUT)


async def test_all_pods_together_have_a_budget() -> None:
    async with pod(hanging) as slow:
        hung = [Target(f"hung-{number}", slow.host, slow.port) for number in range(20)]
        started = time.monotonic()
        async with Scraper(ScrapeSettings(timeout=0.4, budget=0.6, concurrency=2)) as scraper:
            found = await scraper.read(hung)
        assert time.monotonic() - started < 2
        assert len(found) == 20
        assert any("turn did not come" in each.words for each in found.values())


async def test_the_token_is_read_anew_each_time(tmp_path: Path) -> None:
    token = tmp_path / "token"
    async with pod(guarded) as target:
        settings = ScrapeSettings(token_file=str(token))
        async with Scraper(settings) as scraper:
            assert (await scraper.read([target]))[target.uid].fault is ScrapeFault.REFUSED
            token.write_text("secret\n")
            assert (await scraper.read([target]))[target.uid].page is not None
            token.write_bytes(b"\xff")
            assert (await scraper.read([target]))[target.uid].fault is ScrapeFault.REFUSED


def certificate(folder: Path) -> tuple[str, str]:
    """A certificate of its own authority for a name that nobody calls the pod, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "engine")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("192.0.2.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    cert, secret = folder / "tls.crt", folder / "tls.key"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return str(cert), str(secret)


async def test_with_an_authority_pods_are_read_by_tls_and_others_are_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    ours, theirs = certificate(tmp_path / "a"), certificate(tmp_path / "b")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(*ours)
    async with pod(good, server) as target:
        assert (await read(target, authority(ours[0]))).page is not None
        assert (await read(target, authority(theirs[0]))).fault is ScrapeFault.NOT_TRUSTED
        assert (await read(target)).fault is ScrapeFault.UNREACHABLE
    with pytest.raises(OSError, match="No such file"):
        authority(str(tmp_path / "absent"))
