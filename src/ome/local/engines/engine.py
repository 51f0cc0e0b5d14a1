"""`local/engine`: a stand-in with the face of an OpenAI-compatible model server. It answers at once.

For trying rollouts, routers and clients without weights. Not a model: it says so in its answers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from aiohttp import web

from ome.local.engines.serving import (
    InFlight,
    argument_parser,
    completion,
    counting,
    json_body,
    last_question,
    models,
    parse,
    refusal,
    run,
    stream_words,
)


def build_app(model: str, in_flight: InFlight) -> web.Application:
    """Health, models, chat and text completions; `/whoami` names the pod."""
    pod = os.environ.get("HOSTNAME", "")

    async def healthy(_: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def list_models(_: web.Request) -> web.Response:
        return web.json_response(models(model))

    async def whoami(_: web.Request) -> web.Response:
        return web.json_response({"pod": pod, "model": model, "args": sys.argv[1:]})

    async def chat(request: web.Request) -> web.StreamResponse:
        try:
            body = await json_body(request)
            question = last_question(body)
        except ValueError as error:
            return refusal(str(error))
        text = f'You said: "{question}". I am {model}, a stand-in without weights, in pod {pod or "unknown"}.'
        if body.get("stream"):
            return await stream_words(request, model, _words(text))
        return web.json_response(completion(model, text, prompt_tokens=len(question.split())))

    async def complete(request: web.Request) -> web.StreamResponse:
        try:
            body = await json_body(request)
        except ValueError as error:
            return refusal(str(error))
        answer = completion(model, str(body.get("prompt", "")), prompt_tokens=0)
        answer["object"] = "text_completion"
        answer["choices"] = [{"index": 0, "text": answer["choices"][0]["message"]["content"], "finish_reason": "stop"}]
        return web.json_response(answer)

    app = web.Application(middlewares=[counting(in_flight)])
    for path in ("/health", "/healthz", "/health_generate", "/ready"):
        app.router.add_get(path, healthy)
    app.router.add_get("/v1/models", list_models)
    app.router.add_get("/whoami", whoami)
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_post("/v1/completions", complete)
    return app


async def _words(text: str) -> AsyncIterator[str]:
    for number, word in enumerate(text.split(" ")):
        yield word if not number else f" {word}"


def main(arguments: list[str] | None = None) -> int:
    options = parse(argument_parser("A stand-in for an OpenAI-compatible model server."), arguments)
    name = options.served_model_name or Path(options.model_path).name or "local-engine"

    async def build() -> tuple[web.Application, InFlight]:
        in_flight = InFlight()
        return build_app(name, in_flight), in_flight

    return run(build, options.host, options.port)


if __name__ == "__main__":
    sys.exit(main())
