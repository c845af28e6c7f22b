"""Rows and shapes of SimuMax's measurements: JSON elements one by one, names taken apart and checked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from explorer.base.errors import InputError
from explorer.base.formats import parse_json
from explorer.score.reading import count, no_surrogates, positive, read_text, reference_if_any

FOLDER = Path("measured") / "simumax"
"""Folder of the shapes in the reference folder, if they are not next to the rows."""
FIELDS = ("case", "model", "layer_num", "mbc", "real_ms", "real_alloc_gib")
"""Fields that a row needs."""
_DEGREE = re.compile(r"(tp|pp|dp|cp|ep|etp|seq|mbc|mbs|l)(\d+)")


class Element(NamedTuple):
    """One element of a JSON list: its value, or its problem."""

    number: int
    """Position in the list, from 1."""
    value: Mapping[str, Any]
    problem: str = ""


def elements(path: Path) -> Iterator[Element]:
    """Yield the elements of a file's JSON list; one that is not JSON is a problem, the rest is still read.

    Raises:
        InputError: the file cannot be read, or holds no list.
    """
    text = read_text(path)
    if not text.lstrip().startswith("["):
        raise InputError("no list of rows", file=str(path), found=text[:40], allowed="a JSON list of objects")
    decoder, number, broken = json.JSONDecoder(), 0, False
    at = _next(text, text.index("[") + 1)
    while text[at : at + 1] not in ("", "]"):
        number += 1
        broken = False
        try:
            no_surrogates(text[at : at + 4096].split("}")[0])
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError, InputError) as error:
            yield Element(number, {}, f"no JSON: {error}")
            at, broken = _next(text, _following(text, at)), True
            continue
        if isinstance(value, dict):
            yield Element(number, value)
        else:
            yield Element(number, {}, f"{value!r} where an object is needed")
        at = _next(text, end)
    if text[at + 1 :].strip() or (at == len(text) and not broken):
        yield Element(number + 1, {}, "the list does not end with the file: cut short, or text follows")


def _next(text: str, at: int) -> int:
    """Return the position after blanks and commas: an element, the list's end, or the text's."""
    match = re.compile(r"[\s,]*").match(text, at)
    return match.end() if match else at


def _following(text: str, at: int) -> int:
    """Return the position of the element after a broken one: the next brace that opens a line's object."""
    found = re.compile(r"\n\s*\{|,\s*\{").search(text, at + 1)
    return found.end() - 1 if found else len(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Setting in which a row was run."""

    case: str
    """Name of the case."""
    model: str
    """Name of the model."""
    layers: int
    """Number of blocks of the model."""
    tensor: int = 1
    """Tensor-parallel size."""
    pipeline: int = 1
    """Pipeline stages."""
    data: int = 1
    """Data-parallel replicas."""
    context: int = 1
    """Context-parallel size."""
    expert: int = 1
    """Expert-parallel size."""
    sequence: int = 4096
    """Tokens of a sample."""
    microbatches: int = 1
    """Microbatches of one replica in a step."""
    microbatch: int = 1
    """Samples of one microbatch on one replica."""
    fused_loss: bool = False
    """Whether cross entropy is one kernel."""


_FIELDS = {
    "l": "layers", "tp": "tensor", "pp": "pipeline", "dp": "data", "cp": "context", "ep": "expert",
    "seq": "sequence", "mbc": "microbatches", "mbs": "microbatch",
}  # fmt: skip


def setting_of(row: Mapping[str, Any], devices: int) -> Setting:
    """Return the setting of a row: its name, checked against its other fields.

    Raises:
        InputError: a field is missing or wrong, name and fields disagree, or degrees do not make `devices`.
    """
    case = _text(row, "case")
    found = _degrees(case, "case")
    for key, field in (("layer_num", "l"), ("mbc", "mbc")):
        _agree(found, field, count(_present(row, key), key), key)
    for field, number in _degrees(str(row.get("parallel", "")), "parallel").items():
        _agree(found, field, number, "parallel")
    if "etp" in found and found.pop("etp") != 1:
        raise InputError("experts are not split inside here", key="case", found=case, allowed="etp1")
    setting = Setting(
        case=case,
        model=_text(row, "model"),
        fused_loss="cef" in case.split("_"),
        **{_FIELDS[field]: number for field, number in found.items()},
    )
    product = setting.tensor * setting.pipeline * setting.data * setting.context
    if product != devices:
        raise InputError(
            f"{setting.tensor} tensor x {setting.context} context x {setting.data} data"
            f" x {setting.pipeline} pipeline parallel on {devices} GPUs",
            key="case", found=product, allowed=str(devices),
        )  # fmt: skip
    _check_divisors(setting)
    return setting


def _degrees(text: str, key: str) -> dict[str, int]:
    """Return numbers by the word before them: `tp2_pp1` and `tp2pp1` alike.

    Raises:
        InputError: a number is not a count, or is given twice with different values.
    """
    found: dict[str, int] = {}
    for part in text.split("_"):
        words = _DEGREE.findall(part)
        if "".join(word + number for word, number in words) != part:
            continue  # the model's name, or a remark
        for word, number in words:
            _agree(found, word, count(number, key), key)
    return found


def _agree(found: dict[str, int], field: str, number: int, key: str) -> None:
    if found.setdefault(field, number) != number:
        raise InputError(
            f"{field} is {found[field]} in the name and {number} in {key}", key=key, found=number,
            allowed=str(found[field]),
        )  # fmt: skip


def _check_divisors(setting: Setting) -> None:
    for what, whole, by, part in (
        ("layers", setting.layers, "pipeline stages", setting.pipeline),
        ("tokens", setting.sequence, "tensor x context parallel", setting.tensor * setting.context),
        ("replicas", setting.data * setting.context * setting.tensor, "expert parallel", setting.expert),
    ):
        if whole % part:
            raise InputError(
                f"{whole} {what} on {part} {by}", key="case", found=whole, allowed=f"a multiple of {part}"
            )


def _text(row: Mapping[str, Any], key: str) -> str:
    value = _present(row, key)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{value!r}", key=key, found=value, allowed="a name")
    return value.strip()


def _present(row: Mapping[str, Any], key: str) -> Any:
    if key not in row:
        raise InputError(f"no {key!r}", key=key, allowed=", ".join(FIELDS))
    return row[key]


def measured(row: Mapping[str, Any], key: str) -> float:
    """Return a measured quantity.

    Raises:
        InputError: it is missing, or not a finite number above 0.
    """
    return positive(_present(row, key), key)


def model_file(model: str, folder: Path) -> Path:
    """Return the file of a model's shapes, `model_NAME.json` or with a suffix: near the rows, or published.

    Raises:
        InputError: there is none.
    """
    places = [folder]
    if reference := reference_if_any():
        places.append(reference / FOLDER)
    if re.fullmatch(r"[\w.-]+", model):
        for place in places:
            exact = place / f"model_{model}.json"
            if exact.is_file():
                return exact
            if others := sorted(place.glob(f"model_{model}_*.json")):
                return others[0]
    raise InputError(
        f"no shapes of model {model!r}",
        key="model",
        found=model,
        allowed=f"a file model_{model}.json beside the rows",
    )


def model_shapes(path: Path) -> Mapping[str, Any]:
    """Return the shapes in a model's file.

    Raises:
        InputError: it is not a JSON object.
    """
    try:
        found = parse_json(read_text(path), ours=False)
    except InputError as error:
        raise error.within(file=str(path)) from None
    if not isinstance(found, dict):
        raise InputError("no object of shapes", file=str(path), found=str(found)[:40])
    return found
