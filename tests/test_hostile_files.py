"""Every reader meets every hostile file: an error of ours, one line of bounded length, and no code is run."""

from __future__ import annotations

import ast
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from explorer.base.errors import LONGEST_VALUE, ExplorerError, InputError
from explorer.base.plain_data import read_document, write_document
from explorer.base.trust import require_trust
from explorer.cli.main import build_parser, main
from explorer.export import import_config
from explorer.models import load_model
from explorer.plan import load_plan
from tests.support.hostile import (
    OF_MODULES,
    OWN_FILES,
    READABLE,
    READERS,
    Reader,
    hostile_paths,
    traps,
)  # fmt: skip
from widgets.history.file import read_session
from widgets.history.load import restore

ROOT = Path(__file__).parents[1]
READING = {
    "read_bytes", "read_text", "read_packed", "read_json", "read_document", "read_standard_input", "unpack",
}  # fmt: skip
LONGEST_LINE = 6000  # of a message with all that it quotes
CASES = [pytest.param(reader, id=reader.name) for reader in READERS]

TRAP = '''"""Whoever imports or calls this has run code that a file named."""
from pathlib import Path

Path(__file__).with_name("pwned").touch()


def factory(**_):
    raise AssertionError("called")
'''


@pytest.mark.parametrize("reader", CASES)
def test_hostile_content_is_refused_in_one_line(reader: Reader, tmp_path: Path) -> None:
    wrong = []
    for name, path in hostile_paths(tmp_path, reader.ending):
        try:
            reader.read(path)
        except ExplorerError as error:
            told = error.as_dict()
            if len(str(error)) > LONGEST_LINE or len(told["found"] or "") > LONGEST_VALUE:
                wrong.append(f"{name}: a message of {len(str(error))} letters")
        except (Exception, RecursionError, MemoryError) as error:  # noqa: BLE001 - just what must not be
            wrong.append(f"{name}: {type(error).__name__}: {str(error)[:100]}")
    assert not wrong


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, which is the working one, with a module that tells when it is imported."""
    (tmp_path / "trap_module.py").write_text(TRAP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path  # type: ignore[misc]
    sys.modules.pop("trap_module", None)


@pytest.mark.parametrize("reader", CASES)
def test_no_reader_runs_code_that_a_file_names(reader: Reader, trap: Path) -> None:
    named = [f"{path}:factory" for path in ("trap_module", "trap_module.py", "./trap_module.py")]
    if reader.name == "Hugging Face":
        del named[1:]  # a model type that nobody knows costs the seconds in which transformers is imported
    for name, text in [item for reference in named for item in traps(reference).items()]:
        path = trap / f"file{reader.ending or '.json'}"
        path.write_text(text)
        with suppress(ExplorerError):
            reader.read(path)
        assert not (trap / "pwned").exists(), name
        assert "trap_module" not in sys.modules, name


def test_every_module_that_reads_files_meets_them() -> None:
    found = set()
    for path in [*(ROOT / "explorer").rglob("*.py"), *(ROOT / "widgets").rglob("*.py")]:
        calls = {
            node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call)
        }
        if calls & READING:
            found.add(".".join(path.relative_to(ROOT).with_suffix("").parts))
    found -= {"explorer.base.files", "explorer.base.formats"}
    found.remove("explorer.run.launching.status")  # unpacks the page of a struct
    assert found == {*OF_MODULES, *OWN_FILES}, "say in tests/support/hostile.py how they come in"
    assert set(OF_MODULES.values()) <= {reader.name for reader in READERS}
    readable = {"accelerate", "deepspeed", "megatron", "megatron_bridge", "plan", "schedule_csv", "torchrun",
                "torchtitan"}  # fmt: skip
    assert readable == READABLE, "a target that is read needs a reader there"


def test_what_is_refused_says_the_ways_out(trap: Path) -> None:
    (trap / "plan.yaml").write_text(traps("trap_module:factory")["plan"])
    with pytest.raises(InputError, match=r"'trap_module:factory', which runs code") as caught:
        load_plan("plan.yaml")
    assert caught.value.file == "plan.yaml"
    for way in ("--model", "--trust", "load_model", "hf:PATH"):
        assert way in str(caught.value.allowed)


@pytest.mark.parametrize("command", ["check", "explain", "export --to plan -o out", "trace -o t.json"])
def test_no_command_runs_it(command: str, trap: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (trap / "plan.yaml").write_text(traps("trap_module:factory")["plan with settings"])
    name, *rest = command.split()
    assert main([name, "plan.yaml", *rest]) == 2
    assert "runs code" in capsys.readouterr().err
    assert not (trap / "pwned").exists()


FACTORY = '''"""A model of the user's own."""
from explorer.models.synthetic import chain


def small():
    return chain([1.0, 1.0], name="small")


def sized(layers="2"):
    return chain([1.0] * int(layers), name="sized")
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model of the user's own, and a plan that was saved of it."""
    (tmp_path / "own_models.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    made = ["simulate", "--model", "own_models.py:small", "--cluster", "dgx-a100", "--stages", "2"]
    assert main([*made, "--microbatches", "1", "-o", "plan.yaml"]) == 0
    yield tmp_path  # type: ignore[misc]
    sys.modules.pop("own_models", None)


def test_a_person_may_name_the_code_beside_the_file(own: Path) -> None:
    assert main(["simulate", "--plan", "plan.yaml", "--baseline", ""]) == 2
    named = ["--model", "own_models.py:small"]
    assert main(["simulate", "--plan", "plan.yaml", "--baseline", "", *named]) == 0
    assert main(["simulate", "--plan", "plan.yaml", "--baseline", "", "--trust"]) == 0
    assert main(["check", "plan.yaml", "--trust"]) == 0
    assert load_plan("plan.yaml", trust=True).graph.name == "small"
    assert load_plan("plan.yaml", trust=("own_models.py:small",)).graph.name == "small"
    with pytest.raises(InputError, match="runs code"):
        load_plan("plan.yaml", trust=("own_models.py:sized",))
    with pytest.raises(InputError, match="runs code"):
        import_config(Path("plan.yaml"), "plan", model=None, cluster=None)
    back = import_config(Path("plan.yaml"), "plan", model="own_models.py:small", cluster=None)
    assert back.graph.name == "small"


def test_a_file_gives_no_arguments_to_code_that_was_named_without(own: Path) -> None:
    data = read_document(own / "plan.yaml")
    data["models"]["model"] = {"reference": "own_models.py:sized", "settings": {"layers": "2"}}
    write_document(data, own / "plan.yaml")
    with pytest.raises(InputError, match="with settings, which runs code"):
        load_plan("plan.yaml", trust=("own_models.py:sized",))
    assert load_plan("plan.yaml", trust=True).graph.name == "sized"
    require_trust("own_models.py:sized", {}, ("own_models.py:sized",))


def test_a_session_may_name_the_model_that_the_workbench_has(own: Path) -> None:
    (own / "s.json").write_text(traps("own_models.py:small")["session"])
    with pytest.raises(InputError, match="runs code"):
        restore(read_session(own / "s.json"))


def test_a_file_does_not_read_standard_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="standard input"):
        load_model("-", trust=False)


def test_every_command_that_takes_a_plan_or_config_knows_trust() -> None:
    commands = next(action for action in build_parser()._actions if isinstance(action.choices, dict)).choices
    taking = {
        name
        for name, parser in commands.items()
        if {"plan", "a", "start", "config", "source"} & {action.dest for action in parser._actions}
    }
    trusting = {name for name, parser in commands.items() if "--trust" in parser._option_string_actions}
    assert taking <= trusting
    assert trusting - taking == {"check"}, "which takes any file"
