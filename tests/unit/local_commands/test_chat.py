"""What a conversation remembers of an answer that is cut short."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ome.local.commands.chat import Conversation

QUESTION = {"role": "user", "content": "and then?"}


class Scripted(Conversation):
    """A conversation with a model that says these words and is then interrupted."""

    def __init__(self, *words: str) -> None:
        super().__init__("http://127.0.0.1:1", "model")
        self.words = words

    def _stream(self) -> Iterator[str]:
        yield from self.words
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("words", "remembered"),
    [
        ((), []),
        ((" Once", " upon"), [QUESTION, {"role": "assistant", "content": "Once upon"}]),
    ],
)
def test_an_interrupted_answer(words: tuple[str, ...], remembered: list[dict[str, str]]) -> None:
    conversation = Scripted(*words)
    with pytest.raises(KeyboardInterrupt):
        list(conversation.say("and then?"))
    assert conversation._messages == remembered


def test_an_answer_that_nobody_listens_to_any_more() -> None:
    conversation = Scripted("Once", " upon")
    answer = conversation.say("and then?")
    assert next(answer) == "Once"
    answer.close()
    assert conversation._messages == [QUESTION, {"role": "assistant", "content": "Once"}]
