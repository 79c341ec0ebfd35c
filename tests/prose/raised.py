"""The messages of a source file: errors as they are raised, whole, and the other texts with words in them.

An error can get its text in two places: `raise _wrong("it is empty")`, and `_wrong` puts "connection string:"
before it. A reader sees both, so this module joins them. A value that only a run has stays as `{code}`.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from tests.prose.texts import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

WORDS_MIN = 4
WORDS_IN_A_PART_MIN = 6  # fewer words are a label or the end of another text
CHOICES_MAX = 3
_VALUE = re.compile(r"\{[^{}]*\}")
_WORD = re.compile(r"[A-Za-z]{2,}")
# A pattern, a path, a script or an example: no person reads it as a message.
_CODE = re.compile(r"\(\?|^eyJ|^/proc/|^#!|^\{\"|^Default `")
_ERROR = re.compile(
    r"(?:Error|Exception|BadParameter|Problem|NotMeasured|Misfit|NoSchema|RetryLater|RejectRecord)$"
)
# The text of these is the reason in a longer message, which another file makes.
_LONGER = {
    "Misfit": "RejectRecord: the payload does not fit {type}: ",
    "NoSchema": "RejectRecord: the payload does not fit {type}: ",
    "RetryLater": "RetryLater: the record waits for its next attempt: ",
    "UnusableTokenError": "EndpointError: there is no Entra ID token to connect with: ",
    "Problem": "ehkafka check, {step} failed: ",
    "NotMeasured": "ehkafka check, {step} was not measured: ",
    "ehkafka/cli/produce.py ValueError": "ConfigurationError: line {number} cannot be written: ",
    "ehkafka/cli/settings/text.py ValueError": "ConfigurationError: {setting}={value} is not understood: ",
}
# What stands before the parts of a file, where another file or function puts it.
_BEFORE = {
    "ehkafka/handlers/spec.py": "ConfigurationError: handler {name}: ",
    "ehkafka/handlers/batch.py": "ConfigurationError: batch handler {name}: ",
    "ehkafka/workers/option.py": "ConfigurationError: handler {name}: ",
    "ehkafka/run/steer/action.py": "Nothing was done: record {name} ",
    "ehkafka/spark/writer/rows.py": "Row {number} of the task's batch ",
    "ehkafka/intake/caught_up.py": "Not caught up: partition {partition} waits: ",
    "ehkafka/positions/same_log.py": "The log of {partition} was compared with the commit: ",
    "ehkafka/cli/reload/reloading.py": "ehkafka run --reload ",
    "ehkafka/cli/settings/given.py": "ehkafka {command} ",
    "ehkafka/checks/group.py": "ehkafka check, step {step}: ",
    "ehkafka/checks/kafka.py": "ehkafka check, step {step}: ",
    "ehkafka/checks/login.py": "ehkafka check, step {step}: ",
    "ehkafka/checks/network.py": "ehkafka check, step {step}: ",
    "ehkafka/checks/run.py": "ehkafka check, step {step}: ",
    "ehkafka/offsets/checkpoints.py": "ehkafka offsets, partition {number}: ",
    "ehkafka/cli/offsets/plans.py": "ehkafka offsets, effect of the move: ",
    "ehkafka/offsets/skipping.py": "ehkafka offsets skip, effect on the commit: ",
    "ehkafka/offsets/source.py": "The place of checkpoints is ",
    "ehkafka/members/asking.py": "Nothing was done: member {number}: ",
    "ehkafka/run/steer/key_actions.py": "Action on a key: ",
    "ehkafka/ranges/loss.py": "Records are missing: ",
    "ehkafka/endpoint/properties/advice.py": "{property}={value} is not recommended: ",
    "ehkafka/endpoint/properties/setting_checks.py": "ConfigurationError: {property}={value} is refused: ",
    "ehkafka/spark/source/option_text.py": "ConfigurationError: Option {name}: {value} is not understood; ",
    "ehkafka/spark/engine/group/run_commits.py": "GroupInUseError: group {name} is in use: ",
    "ehkafka/spark/engine/group/hand_over.py": "GroupInUseError: group {name} is in use: ",
    "ehkafka/transactions/loop.py": "Health: ",
    "ehkafka/intake/contact.py": "Health: ",
    "ehkafka/recovery/letters/target.py": "The dead letter of {record}: ",
    "ehkafka/outputs/sender.py": "Health: ",
    "ehkafka/outputs/one_producer.py": "Health: ",
    "ehkafka/endpoint/keys/source.py": "The connection string cannot be read from {name}: ",
    "ehkafka/offsets/compare.py": "ehkafka offsets diff, partition {number}: ",
    "ehkafka/cli/dlq.py": "ehkafka dlq: ",
    "ehkafka/codecs/reason.py": "RejectRecord: the payload does not fit {type}: ",
    "ehkafka/recovery/failures.py": "The handler failed on record {name}: ",
}


class Message(NamedTuple):
    """A text of a file; a part is a text that other words surround."""

    text: str
    is_part: bool


class _Maker(NamedTuple):
    """A function that makes an error out of its arguments, and the call of the error's class in it."""

    stem: str
    names: tuple[str, ...]
    made: ast.Call


# The texts that a name can have.
_Given = dict[str, list[str]]


def messages_of(path: Path) -> list[Message]:
    """Return the messages of a file in the order of its lines, each once."""
    return list(dict.fromkeys(_of(ast.parse(path.read_text()), {}, path)))


def _of(node: ast.AST, given: _Given, path: Path, *, is_in_table: bool = False) -> Iterator[Message]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            given = _given_in(node)
        case ast.Assign(targets=[ast.Name(id=name)]) if name in given:
            return  # it is shown where the name is used
        case ast.Expr(value=ast.Constant()):
            return
        case ast.Call() if texts := _errors(node, given, path):
            yield from (Message(text, is_part=False) for text in texts)
            return
        case ast.Constant(value=str()) | ast.JoinedStr():
            yield from _message(_texts(node, given), path, is_in_table=is_in_table)
            return
    for child in ast.iter_child_nodes(node):
        yield from _of(child, given, path, is_in_table=isinstance(node, ast.Dict))


def _message(texts: list[str], path: Path, *, is_in_table: bool) -> Iterator[Message]:
    for text in texts:
        is_shown = "{" in text or (
            is_in_table and text.endswith(".")
        )  # what is refused stands in tables, too
        least = WORDS_IN_A_PART_MIN if _is_part(text) else WORDS_MIN
        if is_shown and _words(text) >= least and not _CODE.search(text):
            before = _BEFORE.get(str(path.relative_to(ROOT)), "") if _is_part(text) else ""
            yield Message(before + text, is_part=_is_part(text) and not before)


def _words(text: str) -> int:
    return len(_WORD.findall(_VALUE.sub("", text)))


def _is_part(text: str) -> bool:
    """Say whether a text is no sentence by itself: it begins small, or it does not end."""
    return not (re.match(r"[A-Z{<]", text) and re.search(r"[.?!)}>]$", text))


def _given_in(function: ast.FunctionDef | ast.AsyncFunctionDef) -> _Given:
    """Return the texts of the variables that other texts of the function show."""
    used = {
        one.id
        for part in ast.walk(function)
        if isinstance(part, ast.FormattedValue)
        for one in (part.value, *getattr(part.value, "args", ()))
        if isinstance(one, ast.Name)
    }
    found: _Given = {}
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in used and (
                texts := _texts(value, found)
            ):
                found[name] = [*found.get(name, ()), *texts]
    return {name: texts for name, texts in found.items() if len(texts) <= CHOICES_MAX}


def _errors(call: ast.Call, given: _Given, path: Path) -> list[str]:
    """Return the error that a call makes, as a person sees it; several if a condition chooses its words."""
    name = ast.unparse(call.func)
    last = name.rpartition(".")[2]
    if _ERROR.search(last):
        start = _LONGER.get(f"{path.relative_to(ROOT)} {last}") or _LONGER.get(last) or f"{name}: "
        return [start + text for text in _joined([_texts(one, given) for one in call.args])]
    maker = _maker_of(call.func, path)
    if maker is None:
        return []
    named = dict(zip(maker.names, call.args, strict=False))
    named |= {one.arg: one.value for one in call.keywords if one.arg}
    arguments = {name: _texts(one, given) or [_shown(one)] for name, one in named.items()}
    texts = _joined([_texts(one, arguments) for one in maker.made.args])
    return [f"{ast.unparse(maker.made.func)}: {text}" for text in texts]


def _joined(arguments: list[list[str]]) -> list[str]:
    """Return one text for each choice of words; a code, such as "moved", is no text."""
    texts = ([text for text in one if " " in text] for one in arguments)
    whole = [" ".join((*map(_ended, one[:-1]), *one[-1:])) for one in product(*(one for one in texts if one))]
    return [text for text in whole if _words(text) >= WORDS_MIN]


def _ended(text: str) -> str:
    return text if text.endswith((".", ":", "?", "!")) else f"{text}."


def _texts(node: ast.AST, given: _Given) -> list[str]:
    """Return what an expression shows: its words, and the texts of the names in it."""
    match node:
        case ast.Constant(value=str() as text):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(one) for one in product(*(_pieces(part, given) for part in parts))]
        case ast.Name(id=name) if name in given:
            return given[name]
        case ast.IfExp(body=body, orelse=other):
            return [*_texts(body, given), *_texts(other, given)]
        case ast.BinOp(left=left, op=ast.Add(), right=right) if sides := (
            _texts(left, given),
            _texts(right, given),
        ):
            return (
                ["".join(one) for one in product(*(side or ["{…}"] for side in sides))] if any(sides) else []
            )
    return []


def _pieces(part: ast.AST, given: _Given) -> list[str]:
    match part:
        case ast.Constant(value=value):
            return [str(value)]
        case ast.FormattedValue(value=ast.Name(id=name), conversion=-1) if name in given:
            return given[name]
        case ast.FormattedValue(value=ast.Call(func=ast.Name(id="ended"), args=[ast.Name(id=name)])) if (
            name in given
        ):
            return [_ended(text) for text in given[name]]
        case ast.FormattedValue(value=ast.Call(func=ast.Name(id="shown"))):
            return ["{value}"]
        case ast.FormattedValue(value=value):
            return [_shown(value)]
    return []


def _shown(node: ast.AST) -> str:
    return "{" + ast.unparse(node) + "}"


def _maker_of(called: ast.AST, path: Path) -> _Maker | None:
    """Return the function that a call names: of its own file, of a module, or the only one of that name."""
    match called:
        case ast.Name(id=name):
            room = path.stem
        case ast.Attribute(value=ast.Name(id=room), attr=name):
            pass
        case _:
            return None
    found = _makers().get(name, ())
    of_room = [maker for maker in found if maker.stem in (room, path.stem)]
    return (of_room or found)[0] if len(of_room or found) == 1 else None


@cache
def _makers() -> Mapping[str, tuple[_Maker, ...]]:
    found: dict[str, tuple[_Maker, ...]] = {}
    for path in sorted((ROOT / "ehkafka").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and (maker := _maker(node, path.stem)):
                found[node.name] = (*found.get(node.name, ()), maker)
    return found


def _maker(node: ast.FunctionDef, stem: str) -> _Maker | None:
    names = tuple(
        one.arg for one in (*node.args.args, *node.args.kwonlyargs) if one.arg not in {"self", "cls"}
    )
    match [
        one for one in node.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
    ]:
        case [ast.Return(value=ast.Call(func=func, args=args) as made)] if _ERROR.search(ast.unparse(func)):
            shown = {one.id for arg in args for one in ast.walk(arg) if isinstance(one, ast.Name)}
            return _Maker(stem, names, made) if shown & set(names) else None
    return None
