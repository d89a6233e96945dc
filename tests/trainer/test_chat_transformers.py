"""Chat formats over a real Hugging Face tokenizer and its template engine."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envhub.core.types import Message
from tests.require import lacking
from tests.trainer.test_chat import ENDS, OPENING, SAID, TOOLS
from tests.trainer.tokenizers import FORGETFUL, MAPPING, NO_TOOLS, SPECIAL, STRING
from trainer_adapter.config import ModelSection
from trainer_adapter.formats import FAMILIES, Source, chat_format
from trainer_adapter.openrlhf.model import rendering
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


def test_a_dry_run_tells_who_writes_conversations(tokenizer: Any, tmp_path: Path) -> None:
    tokenizer.chat_template = MAPPING
    tokenizer.save_pretrained(tmp_path)
    assert "by the tokenizer's chat template" in rendering(ModelSection(path=str(tmp_path)))
    tokenizer.chat_template = NO_TOOLS
    tokenizer.save_pretrained(tmp_path)
    assert "the adapter's own hermes rendering" in rendering(ModelSection(path=str(tmp_path)))
    assert "not on this machine" in rendering(ModelSection(path=str(tmp_path / "none")))


def test_reasoning_that_the_template_drops_is_seen_b008(tokenizer: Any) -> None:
    tokenizer.chat_template = FORGETFUL
    chat = chat_format("hermes", tokenizer, source=Source.TEMPLATE)
    said = Message.assistant("<think>\nwhere?\n</think>\n\nHm.")
    assert chat.rewrites([*OPENING, said, Message.user("Go on.")], TOOLS)
    assert not chat.rewrites([*OPENING, Message.assistant("Hm."), Message.user("Go on.")], TOOLS)


@pytest.mark.parametrize("template", [None, MAPPING, NO_TOOLS])
@pytest.mark.parametrize("name", FAMILIES)
def test_what_a_tool_says_is_never_a_control_token(tokenizer: Any, name: str, template: str | None) -> None:
    """Special tokens, those that a tokenizer calls special without listing them, and added ones in brackets."""
    import tokenizers  # type: ignore[import-not-found, unused-ignore]

    tokenizer = copy.deepcopy(tokenizer)
    added = [
        tokenizers.AddedToken(mark, special=mark == "<|unlisted|>") for mark in ("<tool_call>", "<|unlisted|>", "  ")
    ]
    tokenizer.add_tokens(added)
    assert "<|unlisted|>" not in tokenizer.all_special_tokens
    tokenizer.chat_template = template
    chat = chat_format(name, tokenizer)
    control = set(tokenizer.get_added_vocab().values()) - {tokenizer.convert_tokens_to_ids("  ")}

    def said(text: str) -> list[int]:
        opening = [Message.system(text), Message.user(text)]
        completion = Completion((1,), (-1.0,), SAID[name], FinishReason.STOP, 0, 0)
        ids = [*chat.prompt(opening, TOOLS), *chat.between(completion, [Message.tool("call_0", text)], TOOLS)]
        assert tokenizer.decode(ids).count(text) >= 3
        return [token for token in ids if token in control]

    marks = "".join(dict.fromkeys([*SPECIAL, "<|unlisted|>", "<tool_call>"]))
    assert said(f"a{marks}b") == said("nothing")
    both = tokenizer.convert_tokens_to_ids("  ")
    assert both in chat.prompt([Message.user("two  blanks")], TOOLS), "blanks are text, in one token as ever"


def test_a_model_s_folder_gives_its_format_or_says_which_setting_is_wrong(tokenizer: Any, tmp_path: Path) -> None:
    from trainer_adapter.config import ConfigError, ModelSection
    from trainer_adapter.openrlhf.model import chat_format_of

    tokenizer.chat_template = "{{ thinking }}" + MAPPING
    tokenizer.save_pretrained(tmp_path)
    model = ModelSection(path=str(tmp_path), format="hermes", template_options={"thinking": "on"})
    assert tokenizer.decode(chat_format_of(model).prompt(OPENING, TOOLS)).startswith("on<|im_start|>")
    with pytest.raises(ConfigError, match=r"model\.path .*cannot be loaded"):
        chat_format_of(ModelSection(path=str(tmp_path / "none")))
    raw = json.loads((tmp_path / "tokenizer.json").read_text())
    raw["added_tokens"] = [each for each in raw["added_tokens"] if each["content"] == "<|endoftext|>"]
    (tmp_path / "tokenizer.json").write_text(json.dumps(raw))
    (tmp_path / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}'
    )
    with pytest.raises(ConfigError, match=r"model\.format llama3: .*<\|eot_id\|>"):
        chat_format_of(ModelSection(path=str(tmp_path), format="llama3"))
