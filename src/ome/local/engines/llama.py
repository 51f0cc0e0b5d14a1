"""`local/llama`: a real language model on a laptop's processor, through llama.cpp in the `xllamacpp` wheel.

The wheel's server listens on loopback only; the front here has the pod's port, answers health probes while the model
loads, finishes what is under way before it ends, and gives a base model the form of a conversation.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from ome.local.engines.serving import InFlight, argument_parser, counting, json_body, models, parse, refusal, run

# A base model has never seen a chat; questions and answers it has. `--chat-template model` uses the weights' own.
TRANSCRIPT = (
    "{% for m in messages %}{% if m.role == 'user' %}Question: {{ m.content }}\n"
    "{% elif m.role == 'assistant' %}Answer: {{ m.content }}\n\n"
    "{% else %}{{ m.content }}\n\n{% endif %}{% endfor %}{% if add_generation_prompt %}Answer:{% endif %}"
)
TRANSCRIPT_STOPS = ["\nQuestion:", "\n\n"]
FORWARDED = ("/v1/completions", "/v1/embeddings", "/tokenize", "/detokenize")


class Model:
    """The loaded server, or the reason why there is none."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.address = ""
        self.problem = ""
        self.seconds = 0.0
        self._server: Any = None

    async def load(self) -> None:
        """Load the weights in a thread; the event loop answers probes meanwhile."""
        began = time.monotonic()
        try:
            await asyncio.to_thread(self._load)
        except (OSError, RuntimeError, ValueError) as error:
            self.problem = str(error)
            return
        self.seconds = time.monotonic() - began
        print(f"model loaded in {self.seconds:.1f} s", flush=True)

    def _load(self) -> None:
        import xllamacpp  # type: ignore[import-not-found, unused-ignore]

        options = self.options
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(weights(options.model_path))
        parameters.n_ctx = options.ctx_size
        parameters.n_parallel = options.parallel
        parameters.hostnames = ["127.0.0.1"]
        parameters.port = 0
        if options.embeddings:
            parameters.embedding = True
            parameters.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
        if options.threads:
            parameters.cpuparams.n_threads = options.threads
        if options.chat_template == "transcript":
            parameters.chat_template = TRANSCRIPT
        elif options.chat_template != "model":
            parameters.chat_template = options.chat_template
        self._server = xllamacpp.Server(parameters)
        self.address = self._server.listening_address


def weights(path: str) -> Path:
    """The GGUF file at a path, which may be a folder holding one. Raises ValueError saying what is missing."""
    if not path:
        raise ValueError("--model-path is not set: where are the weights?")
    found = Path(path)
    if found.is_file():
        return found
    files = sorted(found.glob("*.gguf")) if found.is_dir() else []
    if not files:
        raise ValueError(f"no .gguf file at {path}")
    return files[0]


def build_app(model: Model, name: str, in_flight: InFlight, session: aiohttp.ClientSession) -> web.Application:
    """Probes, models, chat completions (streaming too), and what else llama.cpp answers."""

    def unready() -> web.Response | None:
        if model.problem:
            return refusal(f"the model could not be loaded: {model.problem}", 500, "server_error")
        if not model.address:
            return refusal("the model is being loaded", 503, "unavailable_error")
        return None

    async def health(_: web.Request) -> web.Response:
        return unready() or web.json_response({"status": "ok", "loadSeconds": round(model.seconds, 2)})

    async def list_models(_: web.Request) -> web.Response:
        return web.json_response(models(name))

    async def chat(request: web.Request) -> web.StreamResponse:
        try:
            body = await json_body(request)
        except ValueError as error:
            return refusal(str(error))
        if model.options.chat_template == "transcript":
            body.setdefault("stop", TRANSCRIPT_STOPS)
            body.setdefault("temperature", 0.2)
            body.setdefault("max_tokens", 256)
        body["model"] = name
        return await forward(request, body)

    async def other(request: web.Request) -> web.StreamResponse:
        try:
            body = await json_body(request)
        except ValueError as error:
            return refusal(str(error))
        return await forward(request, body)

    async def forward(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        problem = unready()
        if problem is not None:
            return problem
        async with session.post(model.address + request.path, json=body) as inner:
            if body.get("stream"):
                answer = web.StreamResponse(status=inner.status, headers={"content-type": inner.content_type})
                await answer.prepare(request)
                async for chunk in inner.content.iter_any():
                    await answer.write(chunk)
                await answer.write_eof()
                return answer
            found = await inner.json(content_type=None)
            return web.json_response(_named(found, name), status=inner.status)

    app = web.Application(middlewares=[counting(in_flight)], client_max_size=8 * 2**20)
    for path in ("/health", "/healthz", "/health_generate", "/ready"):
        app.router.add_get(path, health)
    app.router.add_get("/v1/models", list_models)
    app.router.add_post("/v1/chat/completions", chat)
    for path in FORWARDED:
        app.router.add_post(path, other)
    return app


def _named(found: Any, name: str) -> Any:
    """The answer under the served name, its text without the blank that a transcript begins with."""
    if not isinstance(found, dict):
        return found
    if "model" in found:
        found["model"] = name
    for choice in found.get("choices") or ():
        message = choice.get("message")
        if isinstance(message, dict) and isinstance(message.get("content"), str):
            message["content"] = message["content"].strip()
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argument_parser("A llama.cpp server for one model.")
    parser.add_argument("--ctx-size", type=int, default=2048, help="tokens of context, shared by parallel requests")
    parser.add_argument("--parallel", type=int, default=2, help="requests answered at the same time")
    parser.add_argument("--threads", type=int, default=0, help="processor threads (0: one for each core)")
    parser.add_argument("--embeddings", action="store_true", help="serve embeddings instead of chat")
    parser.add_argument(
        "--chat-template",
        default="transcript",
        help="transcript (for base models), model (the weights' own), or a template llama.cpp knows",
    )
    options = parse(parser, arguments)
    name = options.served_model_name or Path(options.model_path).name or "llama"

    async def build() -> tuple[web.Application, InFlight]:
        in_flight, model = InFlight(), Model(options)
        timeout = aiohttp.ClientTimeout(total=None)
        app = build_app(model, name, in_flight, aiohttp.ClientSession(timeout=timeout))
        app["loading"] = asyncio.create_task(_load_or_exit(model))
        return app, in_flight

    return run(build, options.host, options.port)


async def _load_or_exit(model: Model) -> None:
    await model.load()
    if model.problem:
        # A server that can never answer must crash, so that the kubelet says so.
        print(f"the model could not be loaded: {model.problem}", file=sys.stderr, flush=True)
        os._exit(1)


if __name__ == "__main__":
    # llama.cpp's own teardown may outlive the pod's patience; the answers are out, nothing is left to save.
    code = main()
    sys.stdout.flush()
    os._exit(code)
