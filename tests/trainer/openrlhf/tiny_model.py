"""Makes a folder with a random Qwen2 of some 100 000 parameters and a tokenizer in which a whole tool call is one token.

``python tiny_model.py FOLDER [--endless]``. The model plays like a table of pairs: after the prompt one of the calls, after a call the
end of the turn. So it acts in real environments, is right every few tries, and has something to learn. With ``--endless`` it says
anything, and hardly ever stops.
"""

import sys
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

CALLS = (
    'CALL submit {"answer": 2158}\n',
    'CALL submit {"answer": 7}\n',
    'CALL add {"a": 1, "b": 2}\n',
    'CALL commit_final_answer {"answers": ["Brackwell"]}\n',
    'CALL commit_final_answer {"answers": ["Dunmere"]}\n',
    'CALL execute_sql {"query": "SELECT COUNT(*) FROM farms"}\n',
)
"""Right for calculator/train/0 and db/train/0, wrong, and a turn that goes on, for each."""
_END = "<|end|>"
_TEXT = """### System
You operate a MySQL database by calling tools. Explain your thinking briefly, then call a tool; you may work over several turns.
Additional table information about the question: The database has the tables farms (farm_id INT, farm_name VARCHAR(80), district
VARCHAR(40), area_ha INT, organic BOOLEAN); For a question, `answers` holds the answer: one string for each value, row by row,
"type": "object", "properties": "description": "required": "additionalProperties": false, "type": "string" "number" "array" "items"
You can call these functions: To call one, write a line that holds the word CALL, its name and the JSON object of its arguments:
The results come with the next message. Compute 12 * 99 + 970. Use the tools, then submit the result. Error: Result: ### User
### Assistant
"""
_STRENGTH = 1.5


def main(folder: Path, *, endless: bool) -> None:
    tokenizer = _tokenizer()
    tokenizer.save_pretrained(folder)
    _model(tokenizer, endless=endless).save_pretrained(folder)


def _tokenizer() -> PreTrainedTokenizerFast:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(
        [_TEXT] * 8,
        trainers.BpeTrainer(
            vocab_size=640,
            special_tokens=[_END],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    made.add_tokens([AddedToken(call, normalized=False) for call in CALLS])
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token=_END, pad_token=_END)


def _model(tokenizer: PreTrainedTokenizerFast, *, endless: bool) -> Qwen2ForCausalLM:
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=4096,
            tie_word_embeddings=False,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    calls = tokenizer.convert_tokens_to_ids(list(CALLS))
    with torch.no_grad():
        inputs, outputs = model.model.embed_tokens.weight, model.lm_head.weight
        inputs[:, :2] = torch.tensor([1.0, 0.0])
        outputs[:, :2] = 0.0
        if endless:
            outputs[tokenizer.eos_token_id, 0] = -_STRENGTH
        else:
            inputs[calls, :2] = torch.tensor([0.0, 1.0])
            outputs[calls, 0] = _STRENGTH
            outputs[tokenizer.eos_token_id, 1] = _STRENGTH
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    return model.to(torch.bfloat16)


if __name__ == "__main__":
    main(Path(sys.argv[1]), endless="--endless" in sys.argv)
