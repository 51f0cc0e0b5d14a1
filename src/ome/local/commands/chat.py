"""`ome local chat`: talk to a model that the cluster serves, word by word as it answers."""

from __future__ import annotations

import contextlib
import http.client
import json
import sys
import unicodedata
from collections.abc import Generator, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

import click

from ome.local.commands.data import DataDir, read_json
from ome.local.commands.options import data_option, require_running
from ome.local.commands.refusals import Refusal

HELP: Final = "Type a message. /new starts over, Ctrl-C cuts an answer short, Ctrl-D ends."


@click.command()
@data_option
@click.option("--system", default="", help="What the model is told before the conversation.")
@click.argument("service", metavar="[NAMESPACE/NAME]", default="")
def chat(data: DataDir, system: str, service: str) -> None:
    """Chat with a served model in the terminal. Without a name: the only one, or the one of the demo."""
    require_running(data)
    name, url = choose(read_json(data.urls), service)
    terminal = sys.stdin.isatty()
    if terminal:
        click.echo(f"Talking to {name}. {HELP}")
    conversation = Conversation(url, name.partition("/")[2], system)
    for line in _lines(terminal):
        if line == "/new":
            conversation.forget()
            continue
        try:
            with contextlib.closing(conversation.say(line)) as answer:
                for part in answer:
                    click.echo(printable(part), nl=False)
        except KeyboardInterrupt:
            if not terminal:
                raise
        click.echo("")


def choose(urls: dict[str, Any], service: str) -> tuple[str, str]:
    """The service's name and address. Raises Refusal naming what there is."""
    if service:
        key = service if "/" in service else f"demo/{service}"
        if key in urls:
            return key, str(urls[key])
        known = ", ".join(urls) or "none"
        raise Refusal(f"no process pod serves {key}; services that can be reached: {known}")
    entries = {name: url for name, url in urls.items() if not name.endswith(("-engine", "-router", "-decoder"))}
    if len(entries) == 1:
        return next((name, str(url)) for name, url in entries.items())
    if not entries:
        raise Refusal("nothing is served by a process pod; `ome local run` starts a model")
    raise Refusal(f"which one? {', '.join(entries)}")


def _lines(terminal: bool) -> Iterator[str]:
    while True:
        try:
            line = input("> ") if terminal else sys.stdin.readline()
        except (EOFError, KeyboardInterrupt):
            click.echo("")
            return
        if not terminal and not line:
            return
        if line.strip():
            yield line.strip()


class Conversation:
    """The messages so far, and the server."""

    def __init__(self, url: str, model: str, system: str = "") -> None:
        self._url = url
        self._model = model
        self._opening = [{"role": "system", "content": system}] if system else []
        self._messages: list[dict[str, str]] = [*self._opening]

    def forget(self) -> None:
        """Start over."""
        self._messages = [*self._opening]

    def say(self, text: str) -> Generator[str, None, None]:
        """The answer, in parts as they come; what was said of one that is cut short is remembered.

        Raises Refusal when there is none; the message is then forgotten.
        """
        self._messages.append({"role": "user", "content": text})
        answer = ""
        try:
            for part in self._stream():
                part = part if answer else part.lstrip()
                answer += part
                yield part
        except (OSError, ValueError, http.client.HTTPException) as error:
            self._messages.pop()
            raise Refusal(f"the model did not answer: {error}") from error
        except (KeyboardInterrupt, GeneratorExit):
            if answer:
                self._messages.append({"role": "assistant", "content": answer})
            else:
                self._messages.pop()
            raise
        self._messages.append({"role": "assistant", "content": answer})

    def _stream(self) -> Iterator[str]:
        parts = urlsplit(self._url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)
        try:
            body = {"model": self._model, "messages": self._messages, "stream": True}
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
            answer = connection.getresponse()
            if answer.status != 200:
                raise ValueError(f"{answer.status}: {answer.read()[:300].decode('utf-8', 'replace')}")
            for raw in answer:
                line = raw.decode("utf-8", "replace").strip()
                if not line.startswith("data: ") or line == "data: [DONE]":
                    continue
                choices = json.loads(line[6:]).get("choices") or [{}]
                yield str((choices[0].get("delta") or {}).get("content") or "")
        finally:
            connection.close()


def printable(text: str) -> str:
    """The text without control and direction characters, which could play tricks on a terminal; line breaks stay."""
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Cn"))
