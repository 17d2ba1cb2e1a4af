"""Reads the commands of docs/RUNBOOK.md."""

import pathlib
import re
import shlex
import subprocess
from functools import cache

import sdk

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "RUNBOOK.md"
PROGRAMS = (*sdk.TOOLS, "bash", "burnin")
# Programs of each host whose flags are not checked; the rehearsal executes the programs in procedures.
PLAIN = {"cat", "cp", "echo", "export", "jq", "mkdir", "openssl", "rm", "sed", "tail", "umask"}
ASSIGNMENT = re.compile(r"^\w+=")


class Command:
    """A command of the page. `block`: the line at which its console block starts; None for code in a sentence."""

    def __init__(self, section, line, text, block):
        self.section, self.line, self.text, self.block = section, line, text, block

    def __str__(self):
        return f"docs/RUNBOOK.md:{self.line}: {self.text}"


def commands(page):
    """Every command of the page in its order."""
    section, block, found = "", None, []
    for number, raw in enumerate(page.splitlines(), 1):
        line = raw.strip()
        if line.startswith("```"):
            block = None if block else number
        elif block:
            if line.startswith("$ "):
                found.append(Command(section, number, line.removeprefix("$ "), block))
            elif found and found[-1].block == block:
                # A here-document.
                found[-1].text += "\n" + line
        elif line.startswith("## "):
            section = line.removeprefix("## ")
        else:
            for span in re.findall(r"`([^`]+)`", line):
                words = [word for word in span.split() if not ASSIGNMENT.match(word)]
                if len(words) > 1 and (words[0] in PROGRAMS or words[0] in PLAIN):
                    found.append(Command(section, number, span, None))
    return found


def substitutions(text):
    """Replaces each `$(...)` with a word, and yields the commands in it."""
    inner = []
    while (start := text.find("$(")) >= 0:
        depth, end = 1, start + 2
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        inner.append(text[start + 2:end - 1])
        text = text[:start] + "SUBSTITUTED" + text[end:]
    return text, inner


def simple(text):
    """The simple commands of a command line, each as a list of words, without assignments and redirections."""
    line, inner = substitutions(text.partition("\n")[0])
    found = [words for part in inner for words in simple(part)]
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split, lexer.commenters = True, "#"
    words, skip = [], False
    for token in [*lexer, ";"]:
        if skip:
            skip = False
        elif re.fullmatch(r"[<>]+", token):
            skip = True
        elif re.fullmatch(r"[|&;]+", token):
            while words and ASSIGNMENT.match(words[0]):
                words.pop(0)
            if words:
                found.append(words)
            words = []
        else:
            words.append(token)
    return found


@cache
def help_of(burnin, *words):
    return subprocess.run([burnin, *words, "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def check_burnin(words, burnin):
    """Checks that the subcommands exist and have the flags."""
    command = []
    for word in words[1:]:
        help_text = help_of(burnin, *command).stdout
        if not word.startswith("-") and re.search(rf"^  {re.escape(word)}(  |$)", help_text.partition("Commands:")[2], re.M):
            command.append(word)
            continue
        if not command:
            raise sdk.Wrong(f"burnin: unknown command {word}")
        flag = word.partition("=")[0]
        if word.startswith("-") and not re.search(rf"(^|[\s,]){re.escape(flag)}(?![\w-])", help_text, re.M):
            raise sdk.Wrong(f"burnin {' '.join(command)}: unknown flag {flag}")


def check_terraform(arguments, flags):
    """Checks that variables, outputs and addresses exist in infra/."""
    files = "".join(path.read_text() for path in sorted((ROOT / "infra").glob("*.tf")))
    exists = lambda kind, *names: re.search(rf'^{kind} ' + " ".join(f'"{name}"' for name in names), files, re.M)
    if flags.get("-chdir") != ["infra"]:
        raise sdk.Wrong("terraform: expected -chdir=infra")
    for value in flags.get("-var", ()):
        if not exists("variable", value.partition("=")[0]):
            raise sdk.Wrong(f"terraform: unknown variable {value}")
    for address in [*flags.get("-target", ()), *(word for word in arguments if word.startswith("google_"))]:
        kind, _, name = address.partition("[")[0].partition(".")
        if not exists("resource", kind, name):
            raise sdk.Wrong(f"terraform: unknown resource {address}")


def check(command, burnin):
    """Raises `sdk.Wrong` if a program would refuse the command."""
    for words in simple(command.text):
        tool = words[0]
        if tool in sdk.TOOLS:
            name, arguments, flags = sdk.check(words, whole=command.block is not None)
            if tool == "terraform":
                check_terraform(arguments, flags)
                if name == "output" and not re.search(rf'^output "{arguments[-1]}"', (ROOT / "infra/outputs.tf").read_text(), re.M):
                    raise sdk.Wrong(f"terraform: unknown output {arguments[-1]}")
        elif tool == "bash":
            if not (ROOT / words[1]).is_file():
                raise sdk.Wrong(f"bash: {words[1]} does not exist")
        elif tool == "burnin":
            check_burnin(words, burnin)
        elif tool not in PLAIN:
            raise sdk.Wrong(f"unknown program {tool}")
