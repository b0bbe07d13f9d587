"""A tiny model of ERNIE-4.5's architecture that recites a fixed text: real to vLLM, exact for tests.

Its layers add nothing to the residual stream, and its output matrix maps each token to the one that follows it in
`LOOP`, so that every answer, whatever the prompt, is `LOOP` over and over. The emoji in it is four tokens of one
byte each: cut there, an answer holds half a character. At the default sampling the recital never ends; at
temperature 2 and top_p 1 it ends by itself after a few rounds.
"""

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import Ernie4_5Config, Ernie4_5ForCausalLM, GenerationConfig, PreTrainedTokenizerFast

LOOP = "天地玄黄，宇宙洪荒。日月盈昃😀辰宿列张！寒来暑往；秋收冬藏、闰余成岁？律吕调阳\n"
"""What the model says, over and over; no character comes twice."""

SPECIAL = ["<unk>", "<s>", "</s>", "<|begin_of_sentence|>", "<|end_of_sentence|>"]
CORPUS = ["你好，请用一句话介绍你自己。", "退货期限是几天？", "User: ", "Assistant: ", "You are a helpful assistant."]
TEMPLATE = (
    "{{ '<|begin_of_sentence|>' }}{% for m in messages %}"
    "{% if m['role'] == 'system' %}{{ m['content'] + '\\n' }}"
    "{% elif m['role'] == 'user' %}{{ 'User: ' + m['content'] + '\\n' }}"
    "{% elif m['role'] == 'assistant' %}{{ 'Assistant: ' + m['content'] + '<|end_of_sentence|>' }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ 'Assistant: ' }}{% endif %}"
)
HIDDEN, HEAD_DIM = 256, 32  # 32 is the smallest head that vLLM's CPU attention takes
CERTAINTY = 80.0  # the logit of the token that follows; the others stay below a third of it
END_SHARE = 0.975  # the logit of </s> after a round, as a share of CERTAINTY


def make_tiny_model(folder: Path, layers: int = 2) -> Path:
    """Write model, tokenizer and generation defaults into `folder` (bf16 safetensors, 0.6 MB a layer); returns it.

    More `layers` say the same more slowly: on two cores about 450 tokens/s with 2, 45 with 48.
    """
    tokenizer = _tokenizer()
    torch.manual_seed(45)
    model = Ernie4_5ForCausalLM(_config(len(tokenizer), layers))
    with torch.no_grad():
        _recite(model, tokenizer)
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        do_sample=True,
        temperature=0.8,
        top_p=0.8,
        repetition_penalty=1.0,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    model.bfloat16().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _config(vocabulary: int, layers: int) -> Ernie4_5Config:
    """ERNIE-4.5-0.3B's config, smaller; untied, since input and output matrix differ here."""
    return Ernie4_5Config(
        vocab_size=vocabulary, hidden_size=HIDDEN, intermediate_size=HIDDEN, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=2, head_dim=HEAD_DIM, max_position_embeddings=131072,
        tie_word_embeddings=False, dtype="bfloat16",
    )  # fmt: skip


def _tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE of about 1,000 tokens, trained on LOOP's characters and a few lines."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    characters = [character for character in LOOP if not _is_emoji(character)]
    bpe.train_from_iterator([*characters * 9, *CORPUS * 3], trainer)
    return for_chat(bpe)


def for_chat(bpe: Tokenizer) -> PreTrainedTokenizerFast:
    """`bpe` with ERNIE's special tokens and chat template."""
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<unk>",
        additional_special_tokens=SPECIAL[3:], model_max_length=131072,
    )  # fmt: skip
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def _is_emoji(character: str) -> bool:
    """Outside the Basic Multilingual Plane: four bytes of UTF-8."""
    return ord(character) > 0xFFFF


def _recite(model: Ernie4_5ForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """Set the weights so that each token of LOOP is followed by the next."""
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
    directions = torch.nn.functional.normalize(torch.randn(len(tokenizer), HIDDEN), dim=1)
    model.model.embed_tokens.weight.copy_(directions)
    model.model.norm.weight.fill_(1.0)  # RMSNorm makes the direction sqrt(HIDDEN) long
    head = torch.zeros(len(tokenizer), HIDDEN)
    loop = [token for character in LOOP for token in tokenizer.encode(character, add_special_tokens=False)]
    assert len(set(loop)) == len(loop), "a token of LOOP comes twice: what follows it would be ambiguous"
    for token, follower in zip(loop, [*loop[1:], loop[0]], strict=True):
        head[follower] += directions[token]
    head[loop[0]] += directions[tokenizer.encode("Assistant: ", add_special_tokens=False)[-1]]
    head[tokenizer.eos_token_id] += END_SHARE * directions[loop[-1]]
    model.lm_head.weight.copy_(head * CERTAINTY / HIDDEN**0.5)
