"""Write a script that lets a shell complete restride's commands, options, formats, types and error codes.

eval "$(restride completion bash)"            # in ~/.bashrc
eval "$(restride completion zsh)"             # in ~/.zshrc, after compinit
restride completion fish > ~/.config/fish/completions/restride.fish
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping

from ..desc.tags import FormatTag
from ..dtypes import DataType
from ..errors import RuntimeFailure
from .commands import COMMANDS, load
from .output import CommandResult
from .refusals import refusals
from .usage import Parser

__all__ = ["add_arguments", "run"]

_SHELLS = ("bash", "zsh", "fish")
_FORMAT_OPTIONS, _TYPE_OPTIONS = ("--dst", "--src"), ("--dtype",)
_FORMAT_COMMANDS = ("show", "explain")
_BLOCKED = ("nChw8c", "nChw16c", "nCdhw16c", "OIhw16i16o", "OIhw4i16o4i", "aBx16b")


def add_arguments(parser: Parser) -> None:
    """Add the shell."""
    parser.add_argument("shell", choices=_SHELLS, help="whose language the script is in")


def run(options: argparse.Namespace) -> CommandResult:
    """Return the script; as values the completions."""
    commands = {name: list(_options(name)) for name in COMMANDS}
    text = _fish(commands) if options.shell == "fish" else _bash(commands, options.shell)
    values = {
        "shell": options.shell,
        "commands": commands,
        "formats": _formats(),
        "types": _types(),
        "codes": list(refusals()),
    }
    return CommandResult(text, {**values, "script": text})


def _options(name: str) -> Iterator[str]:
    if COMMANDS[name].speaks:
        yield "--help"
        return
    parser = Parser(f"restride {name}", None)
    try:
        load(name).add_arguments(parser)
    except RuntimeFailure:
        return  # package not installed: nothing to complete
    for action in parser._actions:
        if action.help != argparse.SUPPRESS:
            yield from (option for option in action.option_strings if option.startswith("--"))


def _formats() -> list[str]:
    plain = [name for name in FormatTag.__members__ if name not in ("any", "undef")]
    return [*sorted(plain, key=lambda name: (len(name), name)), *_BLOCKED]


def _types() -> list[str]:
    return [kind.name for kind in DataType if kind is not DataType.undef]


def _bash(commands: Mapping[str, list[str]], shell: str) -> str:
    cases = "\n".join(f"    {name}) options='{' '.join(options)}' ;;" for name, options in commands.items())
    start = "autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else ""
    return start + _BASH.format(
        commands=" ".join(commands),
        cases=cases,
        formats=" ".join(_formats()),
        types=" ".join(_types()),
        codes=" ".join(refusals()),
        format_options="|".join(_FORMAT_OPTIONS),
        type_options="|".join(_TYPE_OPTIONS),
        format_commands="|".join(f"{name}:2" for name in _FORMAT_COMMANDS),
        shells=" ".join(_SHELLS),
    )


_BASH = """\
_restride() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" command="${{COMP_WORDS[1]}}"
  local options= formats='{formats}'
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{commands} --help --version' -- "$word")); return
  fi
  case "$before" in
    {format_options}) COMPREPLY=($(compgen -W "$formats" -- "$word")); return ;;
    {type_options}) COMPREPLY=($(compgen -W '{types}' -- "$word")); return ;;
  esac
  case "$command" in
{cases}
  esac
  if [ "${{word#-}}" != "$word" ]; then
    COMPREPLY=($(compgen -W "$options" -- "$word")); return
  fi
  COMPREPLY=($(compgen -f -- "$word"))
  case "$command:$COMP_CWORD" in
    {format_commands}) COMPREPLY+=($(compgen -W "$formats" -- "$word")) ;;
  esac
  case "$command:$COMP_CWORD" in
    explain:2) COMPREPLY+=($(compgen -W '{codes}' -- "$word")) ;;
    completion:2) COMPREPLY=($(compgen -W '{shells}' -- "$word")) ;;
  esac
}}
complete -o filenames -F _restride restride"""


def _fish(commands: Mapping[str, list[str]]) -> str:
    first = "__fish_use_subcommand"
    lines = [f"complete -c restride -f -n {first} -a '{' '.join(commands)}'"]
    for name, options in commands.items():
        when = f"'__fish_seen_subcommand_from {name}'"
        lines += [_fish_option(when, option) for option in options]
        if name in _FORMAT_COMMANDS:
            lines.append(f"complete -c restride -n {when} -a '{' '.join(_formats())}'")
    lines.append(f"complete -c restride -n '__fish_seen_subcommand_from explain' -a '{' '.join(refusals())}'")
    lines.append(
        f"complete -c restride -f -n '__fish_seen_subcommand_from completion' -a '{' '.join(_SHELLS)}'"
    )
    return "\n".join(lines)


def _fish_option(when: str, option: str) -> str:
    words = _formats() if option in _FORMAT_OPTIONS else _types() if option in _TYPE_OPTIONS else []
    values = f" -x -a '{' '.join(words)}'" if words else ""
    return f"complete -c restride -n {when} -l {option.removeprefix('--')}{values}"
