"""Hugging Face configurations built on the meta device: class, example inputs, task.

Nothing is downloaded and no code of a model repository is run: only architectures of the installed
transformers are known (`auto_map` and `trust_remote_code` are ignored).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from explorer.base.errors import InputError
from explorer.graph import Defaults, LayerGraph
from explorer.models.torch_export import capture

_LONGEST = 4096
"""Tokens of one sample if the configuration allows more."""
_POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length")
_SIZES = frozenset({
    "num_hidden_layers", "n_layer", "num_layers", "hidden_size", "n_embd", "d_model", "vocab_size",
    "num_attention_heads", "n_head", "num_heads", "intermediate_size", "d_ff", "num_key_value_heads",
})  # fmt: skip
_TASKS = ("MASKED_LM", "CAUSAL_LM", "IMAGE_CLASSIFICATION", "BASE")
_TASKS_OF_PAIRS = ("SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ", "BASE")
"""Heads to try, in order, if a configuration names none: for most models, and for encoder-decoders."""
_HEADS = ("LM", "LMHeadModel", "ForConditionalGeneration", "Classification")
"""Endings of the names of classes whose first output is logits."""
_TOKENS_PER_STEP = 2**20
_IGNORED = (
    "_attn_implementation",
    "attn_implementation",
    "_experts_implementation",
    "quantization_config",
    "auto_map",
)


def graph_of(
    data: Mapping[str, Any], *, sequence_length: int | None, name: str, file: str = "", shorten: bool = True
) -> LayerGraph:
    """Build the graph of one configuration.

    Args:
        data: content of a `config.json`.
        sequence_length: tokens of one sample; None for the configuration's maximum, at most 4096.
        name: name of the graph.
        file: path of the configuration, for messages and the graph's source.
        shorten: see `capture`.

    Raises:
        InputError: a model that transformers does not know, or values from which it cannot be built.
    """
    import torch

    with torch.device("meta"):
        built = build(data, sequence_length=sequence_length, file=file)
    import transformers

    kind, kwargs = type(built.module).__name__, built.inputs
    length = next((int(x.shape[-1]) for key, x in kwargs.items() if key.endswith("input_ids")), 0)
    versions = f"{kind} of transformers {transformers.__version__}, torch {torch.__version__}"
    graph = capture(
        built.module,
        kwargs=kwargs,
        name=name,
        source=f"Hugging Face configuration {name!r}: {versions}",
        defaults=_defaults(length),
        loss=built.loss,
        shorten=shorten,
    )
    _check_positions(graph, built.config, file)
    return graph


class Built(NamedTuple):
    """A model built from a configuration."""

    module: Any
    """The module, on the device that is the default."""
    inputs: dict[str, Any]
    """Example inputs of one sample, by name, on the meta device."""
    loss: bool
    """Whether its first output is logits."""
    config: Any
    """Its configuration."""


def build(data: Mapping[str, Any], *, sequence_length: int | None, file: str = "") -> Built:
    """Build the module of one configuration; arguments and errors as `graph_of`."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import transformers

    transformers.logging.set_verbosity_error()
    config = _config(data, file)
    kind = _model_class(data, config, file)
    try:
        module = kind(config)
    except Exception as error:
        raise _refused(data, error, file) from error
    inputs = _inputs(module, config, sequence_length, file)
    return Built(module, inputs, kind.__name__.endswith(_HEADS), config)


def _config(data: Mapping[str, Any], file: str) -> Any:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    model_type = data["model_type"]
    try:
        config_class = CONFIG_MAPPING[model_type]
    except KeyError:
        raise InputError(
            f"transformers does not know the model type {model_type!r}",
            file=file,
            key="model_type",
            found=model_type,
            allowed="a type of the installed transformers, such as llama, gpt2, bert or mixtral",
        ) from None
    _check_sizes(data, file)
    plain = {key: value for key, value in data.items() if key not in _IGNORED}
    try:
        config = config_class.from_dict(plain)
    except Exception as error:
        raise _refused(data, error, file) from error
    for part in {id(c): c for c in (config, config.get_text_config())}.values():
        part.use_cache = False
        if (
            getattr(part, "is_encoder_decoder", False)
            and getattr(part, "decoder_start_token_id", None) is None
        ):
            part.decoder_start_token_id = 0
    return config


def _check_sizes(data: Mapping[str, Any], file: str) -> None:
    """Refuse basic sizes that are not whole numbers above 0, from which transformers would build nonsense."""
    for key in _SIZES & data.keys():
        value = data[key]
        if value is None or isinstance(value, list):
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(
                f"{key} is {value!r}", file=file, key=key, found=value, allowed="a whole number above 0"
            )


def _refused(data: Mapping[str, Any], error: Exception, file: str) -> InputError:
    """Return the error of a configuration that transformers refuses, with the key it is about if known."""
    text = " ".join(str(error).split())

    def named(word: object) -> bool:
        return re.search(rf"(?<!\w){re.escape(str(word))}(?!\w)", text) is not None

    scalars = {k: v for k, v in data.items() if isinstance(v, (str, int, float)) and v not in (0, 1)}
    keys = [key for key in data if named(key)] + [key for key, value in scalars.items() if named(value)]
    key = keys[0] if keys else None
    return InputError(
        f"no model can be built from this configuration: {type(error).__name__}: {text[:200]}",
        file=file,
        key=key,
        found=data.get(key) if key else None,
        allowed="values that the model's configuration class accepts",
    )


def _model_class(data: Mapping[str, Any], config: Any, file: str) -> Any:
    import transformers
    from transformers.models.auto import modeling_auto

    named = data.get("architectures") or []
    for name in named if isinstance(named, list) else [named]:
        # Only what transformers itself exports: any other name is not an architecture.
        found = getattr(transformers, str(name), None)
        if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
            return found
    pair = getattr(config, "is_encoder_decoder", False)
    for task in _TASKS_OF_PAIRS if pair else _TASKS:
        table = "MODEL_MAPPING" if task == "BASE" else f"MODEL_FOR_{task}_MAPPING"
        mapping = getattr(modeling_auto, table, {})
        if type(config) in mapping:
            found = mapping[type(config)]
            return found[0] if isinstance(found, tuple) else found
    raise InputError(
        f"transformers has no model for the type {config.model_type!r}",
        file=file,
        key="architectures",
        found=named,
        allowed="a class that the installed transformers exports",
    )


def _inputs(module: Any, config: Any, sequence_length: int | None, file: str) -> dict[str, Any]:
    """Make example inputs of one sample, on the meta device."""
    main = module.main_input_name
    text = config.get_text_config()
    length = sequence_length or min(_positions(text) or 512, _LONGEST)
    if main == "input_ids":
        found = {main: _tokens(length)}
    elif main == "pixel_values":
        found = {main: _image(config)}
    elif main == "input_features":
        bins, frames = getattr(config, "num_mel_bins", 80), 2 * getattr(config, "max_source_positions", 1500)
        found = {main: _floats(1, bins, frames)}
    elif main == "input_values":
        found = {main: _floats(1, sequence_length or 16000)}
    else:
        raise InputError(
            f"{type(module).__name__} takes {main!r}, for which there is no example",
            file=file,
            key="architectures",
            found=main,
            allowed="models of tokens, images or sound (or module.path:factory with your own inputs)",
        )
    if getattr(config, "is_encoder_decoder", False):
        longest = getattr(config, "max_target_positions", None) or length
        found["decoder_input_ids"] = _tokens(min(length, longest))
    return found


def _positions(config: Any) -> int:
    values = [getattr(config, key, None) for key in _POSITIONS]
    return next((value for value in values if isinstance(value, int) and value > 0), 0)


def _tokens(length: int) -> Any:
    import torch

    return torch.zeros(1, length, dtype=torch.long, device="meta")


def _floats(*shape: int) -> Any:
    import torch

    return torch.zeros(*shape, device="meta")


def _image(config: Any) -> Any:
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", None) or 224
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return _floats(1, getattr(vision, "num_channels", 3), height, width)


def _defaults(length: int) -> Defaults:
    # No configuration says how its model was trained: a million tokens a step is usual for language models.
    batch = max(1, _TOKENS_PER_STEP // length) if length else 1024
    return Defaults(global_batch=batch, sequence_length=length, precision="bf16", optimizer="adamw")


def _check_positions(graph: LayerGraph, config: Any, file: str) -> None:
    """Refuse a sequence longer than a learned table of positions (which may have a few extra rows)."""
    seq, longest = graph.defaults.sequence_length, _positions(config.get_text_config())
    if not longest or seq <= longest:
        return
    for layer in graph.layers:
        for use in layer.parameters:
            rows = graph.parameter[use.name].shape[0] if use.dims[:1] == ("",) else 0
            if layer.kind == "embedding" and longest <= rows <= longest + 2:
                raise InputError(
                    f"a sequence of {seq} tokens, but {use.name!r} has {longest} positions",
                    file=file,
                    key="sequence_length",
                    found=seq,
                    allowed=f"1 to {longest}",
                )
