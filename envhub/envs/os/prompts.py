"""What the agent of an OS task is told, and how output looks to it.

Invariant: an observation is a pure function of the result, within its limit of characters, and says how much was left out and
what became of the shell.
"""

from __future__ import annotations

from collections.abc import Mapping

from envhub.core.sandbox import CommandResult, CommandStatus

SYSTEM = """\
You work at the shell of a Linux system, as a person would, to do what is asked or to find an answer.
Think first, briefly, then call exactly one tool each turn:

- bash_action runs a bash script in your shell and returns its output. Long output is cut, so ask for what you need. Commands
  cannot read from a keyboard: never run one that waits for input.
- answer_action submits your answer to a question and ends the task. Answer shortly and exactly, with nothing around the answer:
  when a number is asked for, give the number alone.
- finish_action ends a task that asks for no answer once you have done what it asks, or one that you cannot go on with."""

PUBLISHED_CUT = "\n[truncated because the output is too long]"
_PUBLISHED_MARGIN = 20
_KEPT = "Changes to files stay; the shell's directory, variables and functions are as they were before the command."


def first_message(description: str) -> str:
    """The user message that poses a task."""
    return f"Here is a new problem, in a new operating system:\n\n{description}"


def observation(result: CommandResult, *, max_chars: int, published: bool, timeout_s: float) -> str:
    """What bash_action returns. ``published`` cuts as AgentBench does: the head alone."""
    text = cut_published(result.output, max_chars) if published else cut(result, max_chars)
    shown = f"The output of the OS:\n\n{text}" if text else "The output of the OS is empty."
    note = _NOTES[result.status].format(timeout_s=timeout_s)
    return f"{shown}\n\n[{note}]" if note else shown


_NOTES: Mapping[CommandStatus, str] = {
    CommandStatus.OK: "",
    CommandStatus.DIED: f"The command ended the shell, which was brought back. {_KEPT}",
    CommandStatus.TIMEOUT: (
        f"The command timed out: it ran for {{timeout_s:g}} s and was killed with all that it had started. {_KEPT}"
    ),
    CommandStatus.FLOOD: f"The command wrote without end and was killed with all that it had started. {_KEPT}",
    CommandStatus.RESTARTED: (
        "Every process of the system was killed and a new shell was started. Changes to files stay; the shell's directory, "
        "variables and functions, and all background processes, are gone."
    ),
}


def cut_published(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else text[: max_chars - _PUBLISHED_MARGIN] + PUBLISHED_CUT


def cut(result: CommandResult, max_chars: int) -> str:
    """Head and tail, with what is between them counted."""
    text = result.output
    if len(text) <= max_chars:
        return text
    size = f"{result.total_bytes} bytes" if result.truncated else f"{len(text)} characters"
    marker = f"\n[... cut here: {max_chars} characters of {size} are shown ...]\n"
    head = max_chars // 2
    return text[:head] + marker + text[len(text) - (max_chars - head) :]
