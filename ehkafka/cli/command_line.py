"""What all commands of the tree have in common: how they look, what arguments they refuse, how that ends.

Knows no command. A mistake in the arguments is one line on stderr and exit code 2, found before any
command's own code runs. Called on the main thread, by typer.

A command is a function: its docstring is the help, its parameters are the options. A parameter of a dataclass
stands for that one's fields, which are options that several commands take. `--debug` comes by itself.
"""

from __future__ import annotations

import inspect
import math
import sys
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from ehkafka.cli.exits import INTERRUPTED, reported, say_line
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Function = Callable[..., int | None]

TEXT_BYTES_MAX: Final = 32_767
"""The longest text that Kafka's protocol carries; no path of Linux is as long either."""

# The keys and values of records are bytes, of any length; none at all is a key, too.
_KEYS: Final = frozenset({"key", "values"})
# Who reads these says which forms a place has.
_PLACES: Final = frozenset({"mirror", "source", "to"})
# Whatever bytes a path has are the path's.
_PATHS: Final = frozenset({"app", "checkpoint", "config", "key", "mirror", "source", "to", "values"})
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
# The end of every parser's error: typer has no name for it that all its releases know.
_UsageError: Final[type[Exception]] = typer.BadParameter.__mro__[1]


class Command(TyperCommand):
    """A command that looks at its arguments before it runs."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse both sides of a flag; typer would let the last one win, `--dry-run --yes` among them."""
        given = set(args[: args.index("--")] if "--" in args else args)
        for parameter in self.params:
            sides = (given.intersection(parameter.opts), given.intersection(parameter.secondary_opts))
            if all(sides):
                names = " and ".join(name for side in sides for name in sorted(side))
                raise _UsageError(f"{names} exclude each other: leave one out", ctx)
        self._refuse_an_option_as_a_value(ctx, args)
        return super().parse_args(ctx, args)

    def _refuse_an_option_as_a_value(self, ctx: Any, args: list[str]) -> None:
        """Refuse `--endpoint --json`; typer would take the second one as the value of the first."""
        options = [one for one in self.get_params(ctx) if one.param_type_name == "option"]
        own = {name for one in options for name in (*one.opts, *one.secondary_opts)}
        valued = {name: one for one in options if not one.is_flag for name in one.opts}  # type: ignore[attr-defined]
        for option, value in pairwise(args[: args.index("--")] if "--" in args else args):
            if option in valued and value in own:
                metavar = valued[option].metavar or "VALUE"
                raise _UsageError(
                    f"{option} has no value, because the option {value} follows it: give {option} {metavar}",
                    ctx,
                )

    def invoke(self, ctx: Any) -> Any:
        """Refuse what no broker, path or clock takes, then run."""
        parameter: Any
        for parameter in self.params:
            name = parameter.name or ""
            if getattr(ctx.get_parameter_source(name), "name", "") == "DEFAULT":
                continue
            for value in _each(ctx.params.get(name)):
                if problem := _problem(name, value):
                    raise typer.BadParameter(problem, ctx=ctx, param=parameter)
        return super().invoke(ctx)


class Commands(TyperGroup):
    """The tree's root and its branches: whatever typer refuses is said as we say everything else."""

    def main(self, args: Any = None, prog_name: Any = None, **more: Any) -> Any:  # type: ignore[override]
        """Run the command that the arguments name, and exit with its code."""
        more["standalone_mode"] = False
        try:
            code = super().main(args, prog_name, **more)
        except _UsageError as error:
            if type(error).__name__ == "NoArgsIsHelpError":  # typer's own way to show the help
                error.show()  # type: ignore[attr-defined]
            else:
                say_line(_sentence(error))
            code = 2
        except typer.Abort:
            code = INTERRUPTED
        sys.exit(code or 0)


class CommandLine(typer.Typer):
    """A typer whose commands are all `Command`."""

    def __init__(self, *, cls: type[Commands] = Commands, **settings: Any) -> None:
        super().__init__(
            cls=cls,
            no_args_is_help=True,
            add_completion=False,
            # Tracebacks are decided on in `exits`; rich's could show local variables, and secrets with them.
            pretty_exceptions_enable=False,
            # With markup `[app]` in a help text would be a style, and not shown.
            rich_markup_mode=None,
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
            **settings,
        )

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:  # type: ignore[override]
        """Declare a command. What its function raises is reported; what it returns is the exit code."""

        def declare(function: Function) -> Function:
            # click keeps the lines of a paragraph apart that begins with this.
            settings.setdefault("help", inspect.getdoc(function).replace("\\b", "\b"))  # type: ignore[union-attr]
            super(CommandLine, self).command(name, cls=Command, **settings)(_spread(function))
            return function

        return declare


def _spread(function: Function) -> Callable[..., None]:
    """Return the function with the fields of its groups in the place of the groups."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    @wraps(function)
    def spread(*, debug: bool, **given: object) -> None:
        made = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        with reported(debug=debug):
            code = function(**given, **made)
        if code:
            raise typer.Exit(code)

    signature = inspect.signature(function)
    parameters = list(_parameters(signature, hints, groups))
    spread.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return spread


def _parameters(
    signature: inspect.Signature, hints: dict[str, Any], groups: dict[str, Any]
) -> Iterator[inspect.Parameter]:
    for name, parameter in signature.parameters.items():
        if name not in groups:
            yield parameter.replace(annotation=hints[name])
            continue
        options = get_type_hints(groups[name], include_extras=True)
        for field in fields(groups[name]):
            default = parameter.empty if field.default is MISSING else field.default
            yield inspect.Parameter(
                field.name, parameter.KEYWORD_ONLY, default=default, annotation=options[field.name]
            )
    yield inspect.Parameter("debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Debug)


def _each(value: object) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else (value,)


def _problem(name: str, value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "give a number that ends"
    if not isinstance(value, str):
        return ""
    if not value.strip() and name not in _KEYS | _PLACES:
        return "the text is empty"
    if "\0" in value and name not in _KEYS:
        return "the text has a NUL character in it, which neither a name nor a path has"
    if name not in _PATHS and any("\ud800" <= one <= "\udfff" for one in value):
        return "the text is not UTF-8, which every broker wants"
    if len(value.encode(errors="replace")) > TEXT_BYTES_MAX and name not in _KEYS:
        return f"the text is longer than {TEXT_BYTES_MAX} bytes"
    return ""


def _sentence(error: Exception) -> str:
    context: Any = getattr(error, "ctx", None)
    text: str = error.format_message()  # type: ignore[attr-defined]
    # typer ends some of its messages with a full stop, and some with a question.
    text = text.strip().removesuffix(".")
    if context is None:
        return f"{ended(text)}"
    end = "" if text.endswith("?") else ";"
    return f"{text}{end} {'S' if not end else 's'}ee {context.command_path} --help."
