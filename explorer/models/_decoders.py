"""Shared parts of language models: checks of their sizes, inputs, and the choice of attention kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping

from explorer.base.errors import InputError
from explorer.base.registry import Option
from explorer.models.builder import GraphBuilder, Value

ATTENTION = Option(
    name="attention",
    default="fused",
    help="fused: one kernel that keeps no scores; unfused: scores, softmax and product in memory",
    choices=("fused", "unfused"),
)

DOCUMENTS = Option(
    name="documents", default="",
    help="lengths of documents packed into a sample (1024+3072), again until it is full, or of each of equal"
    " ones; attention stays within a document",
)  # fmt: skip

LOSS = Option(
    name="loss", default="kernel", choices=("kernel", "plain"),
    help="cross entropy that keeps log-probabilities: one kernel, or Megatron-LM's operators in fp32",
)  # fmt: skip
"""If not given, a framework decides it."""

FUSED_LOSS = Option(
    name="fused_loss", default=False, help="cross entropy that writes its gradient over the logits"
)


MOST_LAYERS, MOST_SIZE = 10_000, 10**9
"""Upper limits of the number of blocks, and of widths and other sizes."""


def check_sizes(family: str, sizes: Mapping[str, int], *, least: int = 1) -> None:
    """Refuse sizes that no model has.

    Raises:
        InputError: a size below `least`, or one so large that it must be a slip.
    """
    for name, size in sizes.items():
        most = MOST_LAYERS if name == "layers" else MOST_SIZE
        if not least <= size <= most:
            raise InputError(
                f"{family} with {name} {size}", key=name, found=size, allowed=f"{least} to {most:,}"
            )


def check_divides(family: str, part: str, parts: int, whole: str, size: int) -> None:
    """Refuse parts that are not equal.

    Raises:
        InputError: `size` is not a multiple of `parts`.
    """
    if size % parts:
        raise InputError(
            f"{family} of {whole} {size} cannot have {part} {parts}",
            key=part,
            found=parts,
            allowed=f"a divisor of {size}",
        )


def check_at_most(family: str, part: str, parts: int, whole: str, size: int) -> None:
    """Refuse more parts than there are.

    Raises:
        InputError: `parts` is above `size`.
    """
    if parts > size:
        raise InputError(
            f"{family} of {whole} {size} cannot have {part} {parts}",
            key=part,
            found=parts,
            allowed=f"at most {size}",
        )


def padded(vocab: int, multiple: int) -> int:
    """Pad the rows of an embedding up to a `multiple`, as Megatron does to split them evenly; 0 leaves them.

    >>> padded(50257, 128)
    50304
    """
    return math.ceil(vocab / multiple) * multiple if multiple else vocab


def positions_within(name: str, sequence_length: int | None, positions: int) -> int:
    """Return the sequence length to build, `positions` if none is asked for.

    Raises:
        InputError: the length exceeds the table of learned positions.
    """
    seq = sequence_length or positions
    if seq > positions:
        raise InputError(
            f"{name} has {positions} learned positions and cannot read {seq} tokens",
            key="sequence_length",
            found=seq,
            allowed=f"1 to {positions}",
        )
    return seq


def read_documents(text: str, sequence_length: int, *, fused: bool) -> tuple[int, ...]:
    """Return the lengths of documents that a setting states, those of one document only once.

    >>> read_documents("1024+3072", 8192, fused=True)
    (1024, 3072)

    Raises:
        InputError: no length, one below 1, together more than a sample has, or an attention in parts, which
            computes all pairs of tokens anyway.
    """
    if not text:
        return ()
    parts = [part.strip() for part in text.split("+")]
    lengths = tuple([int(part) if part.isdecimal() else 0 for part in parts])
    if min(lengths) < 1 or sum(lengths) > sequence_length:
        raise InputError(
            f"documents of {text} tokens in a sample of {sequence_length}", key="documents", found=text,
            allowed=f"lengths joined by +, together at most {sequence_length}",
        )  # fmt: skip
    if not fused:
        raise InputError(
            "an attention in parts computes all pairs of tokens, whatever documents they are of",
            key="documents", found=text, allowed="attention=fused, or none",
        )  # fmt: skip
    return lengths


def tokens_and_targets(b: GraphBuilder, seq: int) -> tuple[Value, Value]:
    """Add the inputs of a language model: tokens, and the tokens that follow them."""
    return b.input("tokens", {"seq": seq}, dtype="int64"), b.input("targets", {"seq": seq}, dtype="int64")


def mix(
    b: GraphBuilder,
    name: str,
    *inputs: Value,
    heads: int,
    head: int,
    fused: bool = True,
    causal: bool = True,
    dropout: bool = False,
    plain_softmax: bool = False,
    documents: tuple[int, ...] = (),
) -> Value:
    """Add attention as one layer `name`.attention, or as its parts `name`.scores, .softmax, ... .

    The parts are computed for all pairs of tokens, even those that the mask hides.
    """
    if fused:
        return b.attention(
            f"{name}.attention", *inputs, heads=heads, head=head, causal=causal, documents=documents
        )
    return b.attention_parts(
        name, *inputs, heads=heads, head=head, dropout=dropout, plain_softmax=plain_softmax
    )
