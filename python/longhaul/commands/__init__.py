"""The verbs of `longhaul` that are Python: the command starts them as git starts `git-foo`.

`longhaul VERB ...` becomes an interpreter that calls main() here; experiments/run/reader.h has the list that
`longhaul --help` shows, and a test compares it with VERBS. A verb is one module of this folder with two functions:

    parser() -> argparse.ArgumentParser     options, with an example in the epilog
    run(options) -> int                     the exit status; Refused ends the command with one line and status 1

Adding a verb: its module here, its line in VERBS and its line in experiments/run/reader.h.
"""

import argparse
import difflib
import errno
import importlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import textwrap

from longhaul.refusal import Refused

# Verb: its module here. A name that starts with "_" is for the engine alone, and no help shows it.
VERBS = {
    "_measure": "measuring",
    "_price": "pricing",
    "_show": "show",
    "compare": "compare",
    "export": "export",
    "follow": "following",
    "help": "help",
    "import": "importing",
    "list": "list",
    "plan": "plan",
    "report": "report",
    "scale": "scale",
    "simulate": "simulate",
}


# Help of options that several commands have, as in experiments/command/command.h.
SPEC_HELP = "Run spec, a TOML file"
SET_HELP = "Override a key of the spec (repeatable)"
JSON_HELP = "Print one JSON document on stdout"


def _row(name, text):
    """One line of help: `name` in the column of names, `text` wrapped beside it."""
    lines = textwrap.wrap(text, 70, break_long_words=False, break_on_hyphens=False) or [""]
    first = f"{'  ' + name:<30}" if len(name) + 2 < 30 else f"  {name}\n{'':30}"
    return first + f"\n{'':30}".join(lines) + "\n"


class Parser(argparse.ArgumentParser):
    """An argparse parser with the engine's form of help (experiments/command/command_help.cc) and of errors: one line."""

    def __init__(self, verb=None, description=None, examples=None, prog=None):
        """examples: the text below the options; begins with "Example"."""
        super().__init__(prog=prog or f"longhaul {verb}", description=description, epilog=examples, allow_abbrev=False,
                         formatter_class=argparse.RawDescriptionHelpFormatter)

    def format_help(self):
        options = [action for action in self._actions if action.option_strings]
        commands = [action for action in self._actions if isinstance(action, argparse._SubParsersAction)]  # pylint: disable=protected-access
        words = [action for action in self._actions if not action.option_strings and action not in commands]
        usage = "".join(f" {self._word(action)}" for action in words) + " COMMAND" * bool(commands)
        text = f"{self.description}\n\nUsage: {self.prog} [OPTIONS]{usage}\n"
        if words:
            text += "\nArguments:\n" + "".join(_row(action.dest.upper(), self._text(action)) for action in words)
        text += "\nOptions:\n" + "".join(_row(self._names(action), self._text(action)) for action in options)
        for action in commands:
            text += "\nSubcommands:\n" + "".join(_row(choice.dest, choice.help)
                                                 for choice in action._choices_actions)  # pylint: disable=protected-access
        return text + (f"\n{self.epilog.rstrip()}\n" if self.epilog else "")

    @staticmethod
    def _word(action):
        name = action.dest.upper() + "..." * (action.nargs == "+")
        return name if action.required else f"[{name}]"

    @staticmethod
    def _names(action):
        names = ",".join(action.option_strings)
        metavar = action.metavar or ("N" if action.type is int else action.dest.upper().replace("_", "-"))
        return names if action.nargs == 0 else f"{names} {' '.join(metavar) if isinstance(metavar, tuple) else metavar}"

    @staticmethod
    def _text(action):
        if action.dest == "help":
            return "Print this help message and exit"
        text = action.help.replace("%%", "%")
        if action.default not in (None, False, "", [], argparse.SUPPRESS) and action.option_strings:
            text += f" [default: {action.default:g}]" if isinstance(action.default, float) else f" [default: {action.default}]"
        return text + " [required]" * bool(action.required and action.option_strings)

    def error(self, message):
        message = re.sub(r"\s+", " ", message).removeprefix("argument ")
        message = re.sub(r"the following arguments are required: (\S+?)(?:,.*)?$", r"\1 is required", message)
        unknown = re.match(r"unrecognized arguments: (\S+)", message)
        if unknown and unknown[1].startswith("-"):
            name = unknown[1].split("=")[0][:64]
            known = [text for text in self._option_string_actions if text.startswith("--")]
            near = difflib.get_close_matches(name, known, 1, 0.75)
            message = f"unknown option '{name}'" + (f"; did you mean '{near[0]}'?" if near else "")
        elif unknown:
            message = f"not expected: '{unknown[1][:64]}'"
        sys.stderr.write(f"longhaul: {message}; {self.prog} --help says what there is\n")
        sys.exit(2)


def module_of(verb):
    return importlib.import_module(f"longhaul.commands.{VERBS[verb]}")


def engine(*words, **more):
    """Runs the engine's verb `words`; its output is ours. Returns its exit status."""
    return subprocess.run([os.environ.get("LONGHAUL_COMMAND", "longhaul"), *map(str, words)], check=False,
                          restore_signals=False, **more).returncode


def ask_clock(question, request):
    """The lines of the answer to a question of `longhaul _clock`, each JSON as the request is; its refusal is ours."""
    done = subprocess.run([os.environ.get("LONGHAUL_COMMAND", "longhaul"), "_clock"], input=json.dumps({question: request}),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        line = (done.stderr.strip().splitlines() or [f"_clock ended with {done.returncode}"])[-1]
        raise Refused(line.removeprefix("longhaul: "))
    return [json.loads(line) for line in done.stdout.splitlines()]


class _NotWritten(Exception):
    """Standard output took no more."""


class _Output(io.RawIOBase):
    """Standard output whose failures are told apart from those of files."""

    def writable(self):
        return True

    def fileno(self):
        return 1

    def isatty(self):
        return os.isatty(1)

    def write(self, data):
        try:
            return os.write(1, data)
        except OSError as error:
            raise _NotWritten(error.errno, error.strerror) from error


def _checked(run, options):
    """The exit status, with every failure told in one line."""
    try:
        return run(options) or 0
    except Refused as refused:
        line = str(refused).replace("\n", " ")
        print(f"longhaul: {line}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("longhaul: interrupted", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"longhaul: {error.filename or 'file'}: {error.strerror or error}", file=sys.stderr)
        return 1


def main(words):
    """Runs `longhaul` WORDS, the first of which is a key of VERBS. Returns the exit status."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # what was begun is removed
    if sys.stdout is sys.__stdout__:
        encoding = sys.stdout.encoding if sys.stdout else "utf-8"
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(_Output()), encoding, "backslashreplace",  # names that are no UTF-8
                                      line_buffering=os.isatty(1))
    status = 0
    try:
        module = module_of(words[0])
        try:
            options = module.parser().parse_args(words[1:])
            if "LONGHAUL_PARSE_ONLY" not in os.environ:  # docs_commands_test.py parses every command of the documentation
                status = _checked(module.run, options)
        except SystemExit as ended:  # --help, a wrong option, SIGTERM
            status = ended.code
        sys.stdout.flush()
    except _NotWritten as failed:
        number, words = failed.args
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the rest fails no second time
        if number == errno.EPIPE:  # as of a program that the signal ends
            return 128 + signal.SIGPIPE
        print(f"longhaul: write to standard output: {words}; what was printed is not complete", file=sys.stderr)
        return status or 1
    return status
