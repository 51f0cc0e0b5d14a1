"""How an engine serves: one HTTP port, and an ending that loses no request.

After SIGTERM it goes on accepting for a moment, because whoever sends requests may not have heard yet; then the socket
closes, answers that are under way are finished, and the process exits 0.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import web

LAME_DUCK = 1.0  # seconds of accepting after SIGTERM
DRAIN_LIMIT = 600.0  # seconds; the pod's grace period usually ends it earlier
KEEP_ALIVE = 75.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def argument_parser(description: str) -> argparse.ArgumentParser:
    """The options that model servers of the field share; an engine adds its own."""
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False)
    parser.add_argument("--host", default="0.0.0.0", help="address to bind")
    parser.add_argument("--port", type=int, default=8080, help="port to bind")
    parser.add_argument("--model-path", default="", help="file or folder of the weights")
    parser.add_argument("--served-model-name", default="", help="name that clients see")
    return parser


def parse(parser: argparse.ArgumentParser, arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse, and say which options of other engines are ignored instead of failing on them."""
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        print(f"ignored options: {' '.join(unknown)}", file=sys.stderr, flush=True)
    return options


class InFlight:
    """Counts answers that are under way, so that an ending can wait for them."""

    def __init__(self) -> None:
        self.count = 0
        self.ending = False
        self._idle = asyncio.Event()
        self._idle.set()

    @contextlib.contextmanager
    def one(self) -> Any:
        self.count += 1
        self._idle.clear()
        try:
            yield
        finally:
            self.count -= 1
            if not self.count:
                self._idle.set()

    async def wait(self, seconds: float) -> None:
        """Wait until nothing is under way, or for so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()


def counting(in_flight: InFlight) -> Any:
    """A middleware that counts, and closes connections once the ending has begun."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        with in_flight.one():
            answer = await handler(request)
            if in_flight.ending:
                answer.force_close()
            return answer

    return middleware


async def serve_until_terminated(app: web.Application, in_flight: InFlight, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT, then end without losing an answer."""
    runner = web.AppRunner(app, access_log=None, handle_signals=False, keepalive_timeout=KEEP_ALIVE)
    await runner.setup()
    site = web.TCPSite(runner, host, port, backlog=512)
    await site.start()
    print(f"listening on {host}:{port}", flush=True)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
    in_flight.ending = True
    print(f"ending: {in_flight.count} answers under way", flush=True)
    await asyncio.sleep(LAME_DUCK)
    await site.stop()
    await in_flight.wait(DRAIN_LIMIT)
    await runner.cleanup()


def run(build: Callable[[], Awaitable[tuple[web.Application, InFlight]]], host: str, port: int) -> int:
    """Build an engine's app inside the loop and serve it; returns the exit code."""

    async def main() -> None:
        app, in_flight = await build()
        await serve_until_terminated(app, in_flight, host, port)

    try:
        asyncio.run(main())
    except OSError as error:
        print(f"cannot serve on {host}:{port}: {error.strerror or error}", file=sys.stderr, flush=True)
        return 1
    return 0


# -- the OpenAI protocol -----------------------------------------------------------------------------------------------


def completion(model: str, text: str, *, prompt_tokens: int, finish: str = "stop") -> dict[str, Any]:
    """A `chat.completion` object."""
    tokens = len(text.split())
    return {
        "id": f"chatcmpl-{time.time_ns():x}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": tokens,
            "total_tokens": prompt_tokens + tokens,
        },
    }


def models(*names: str) -> dict[str, Any]:
    """The answer of `/v1/models`."""
    return {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "ome"} for name in names]}


def refusal(message: str, status: int = 400, kind: str = "invalid_request_error") -> web.Response:
    """An OpenAI error object."""
    return web.json_response({"error": {"message": message, "type": kind, "code": status}}, status=status)


async def json_body(request: web.Request) -> dict[str, Any]:
    """The request's JSON object. Raises ValueError with a text for the client."""
    try:
        body = await request.json()
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise ValueError("the body is not a JSON object")
    return body


def last_question(body: dict[str, Any]) -> str:
    """What the user said last, as text. Raises ValueError when there are no messages."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ValueError("messages: at least one message is needed")
    content = messages[-1].get("content") if isinstance(messages[-1], dict) else None
    if isinstance(content, list):
        content = " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


async def stream_words(request: web.Request, model: str, words: AsyncIterator[str]) -> web.StreamResponse:
    """Server-sent chunks of a chat completion."""
    answer = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-cache"})
    await answer.prepare(request)
    head = {
        "id": f"chatcmpl-{time.time_ns():x}",
        "object": "chat.completion.chunk",
        "created": int(time.time()),
        "model": model,
    }

    async def send(delta: dict[str, Any], finish: str | None = None) -> None:
        chunk = {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        await answer.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

    await send({"role": "assistant", "content": ""})
    async for word in words:
        await send({"content": word})
    await send({}, "stop")
    await answer.write(b"data: [DONE]\n\n")
    await answer.write_eof()
    return answer
