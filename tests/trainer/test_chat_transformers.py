"""Chat formats over a real Hugging Face tokenizer and its template engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from envhub.core.types import Message
from tests.require import lacking
from tests.trainer.test_chat import ENDS, OPENING, SAID, TOOLS
from tests.trainer.tokenizers import FORGETFUL, MAPPING, NO_TOOLS, SPECIAL, STRING
from trainer_adapter.formats import FAMILIES, Source, chat_format
from trainer_adapter.tokens import Completion, FinishReason

pytestmark = [pytest.mark.trainer, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def tokenizer() -> Iterator[Any]:
    """Byte-level, without merges: nothing is downloaded."""
    try:
        import tokenizers  # type: ignore[import-not-found, unused-ignore]
        import transformers
    except ImportError:
        lacking("trainer", "transformers is not installed in this environment")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    model = tokenizers.models.BPE({piece: number for number, piece in enumerate(alphabet)}, [])
    raw = tokenizers.Tokenizer(model)
    raw.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = tokenizers.decoders.ByteLevel()
    yield transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<|endoftext|>", additional_special_tokens=list(SPECIAL)
    )


@pytest.mark.parametrize(
    ("name", "template"),
    [
        *((name, template) for name in FAMILIES for template in (None, NO_TOOLS)),
        *((name, template) for name in ("hermes", "plain") for template in (MAPPING, STRING, FORGETFUL)),
    ],
)
def test_an_episode_is_the_rendering_of_its_conversation(tokenizer: Any, name: str, template: str | None) -> None:
    tokenizer.chat_template = template
    chat = chat_format(name, tokenizer)
    end = "<|im_end|>" if template and name in ("hermes", "plain") else ENDS.get(name, "")
    messages = list(OPENING)
    ids = list(chat.prompt(messages, TOOLS))
    for _ in range(3):
        sampled = tokenizer.encode(SAID[name] + end, add_special_tokens=False)
        completion = Completion(tuple(sampled), (-1.0,) * len(sampled), SAID[name], FinishReason.STOP, 0, 0)
        action = chat.parse(completion, TOOLS)
        replies = [Message.tool(call.id, "ünï 漢字 🙂") for call in action.tool_calls]
        assert len(replies) == 1
        messages += [action, *replies]
        assert not chat.rewrites(messages, TOOLS)
        ids += [*sampled, *chat.between(completion, replies, TOOLS)]
    text, whole = tokenizer.decode(ids), tokenizer.decode(chat.prompt(messages, TOOLS))
    assert "".join(text.split()) == "".join(whole.split())
    assert text.count("ünï 漢字 🙂") == 3


def test_reasoning_that_the_template_drops_is_seen_b008(tokenizer: Any) -> None:
    tokenizer.chat_template = FORGETFUL
    chat = chat_format("hermes", tokenizer, source=Source.TEMPLATE)
    said = Message.assistant("<think>\nwhere?\n</think>\n\nHm.")
    assert chat.rewrites([*OPENING, said, Message.user("Go on.")], TOOLS)
    assert not chat.rewrites([*OPENING, Message.assistant("Hm."), Message.user("Go on.")], TOOLS)
