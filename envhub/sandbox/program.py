"""The program inside a sandbox and the language it speaks: its bash text, the records it reads, the markers it writes.

Invariant: the first process never runs a word of the agent's, and neither does a reader before it has forked a child for it; so
whatever a command does to its own shell, an older one that it never touched is there to go on from.

One reader waits for requests. For each it forks a child that evaluates the script and then becomes the reader itself, with all
that the script changed; the reader that forked it stays behind as the checkpoint to fall back on, until the next child has been
forked. The pipe that every reader inherits tells the first process when none is left: it kills the rest, unless a reader has said
that it makes way, and starts a new one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_READER = r"""
while builtin :; do
  __envhub_r=;
  while builtin read -r -d '' -u 250; __envhub_d=$?; (( __envhub_d )); do
    if (( __envhub_d <= 128 )); then
      [[ $__envhub_f ]] && builtin printf 'Q\n' >&252;
      builtin exit 97;
    fi;
    __envhub_r+=$REPLY;
  done;
  __envhub_r+=$REPLY;
  __envhub_n=${__envhub_r:1:32};
  case $__envhub_r in
    P*) builtin printf '\0%s:R:%s:%s\0' "$__envhub_t" "$__envhub_n" "${PWD:0:1000}" >&251 || builtin exit 97;;
    C*) builtin eval "$__envhub_c";;
    N*)
      [[ $__envhub_p ]] && builtin kill -KILL "$__envhub_p";
      builtin printf 'N\n' >&252;
      builtin exit 97;;
  esac;
done
"""
_COMMAND = r"""
__envhub_g=$__envhub_p __envhub_p=$BASHPID;
(
  builtin printf '\0%s:S:%s:%s\0' "$__envhub_t" "$__envhub_n" "$BASHPID" >&251 || builtin exit 97;
  [[ $__envhub_g ]] && builtin kill -KILL "$__envhub_g";
  [[ $__envhub_f ]] && builtin export LANG="${LANG-C.UTF-8}";
  __envhub_f=;
  __envhub_r=${__envhub_r:34};
  if [[ $__envhub_o ]]; then __envhub_r="\\builtin set -$__envhub_o; $__envhub_r";
  elif (( __envhub_s )); then (builtin exit "$__envhub_s");
  fi;
  builtin eval "$__envhub_r" </dev/null >&253 2>&1 250<&- 251>&- 252>&- 253>&-;
  __envhub_s=$? __envhub_o=${-//[!aefkuvxET]/};
  builtin set +aefkuvxET;
  builtin trap - DEBUG ERR RETURN EXIT;
  builtin printf -v __envhub_k %s "$__envhub_n";
  [[ $__envhub_k == "$__envhub_n" ]] || __envhub_k=${__envhub_gone?};
  builtin printf '\0%s:E:%s:%s:%s\0' "$__envhub_t" "$__envhub_n" "$__envhub_s" "${PWD:0:1000}" >&251 ||
    builtin exit 97;
  builtin eval "$__envhub_l";
);
__envhub_d=$?;
[[ $__envhub_g ]] && builtin kill -KILL "$__envhub_g";
__envhub_p=;
builtin printf '\0%s:D:%s:%s:%s\0' "$__envhub_t" "$__envhub_n" "$__envhub_d" "${PWD:0:1000}" >&251 || builtin exit 97
"""
# Apart, so that a session that waits for its first command does not hold it parsed; nor does it hold a locale, if it was not
# started with one.
# Descriptors: 250 requests, 251 markers, 252 the readers' pipe, 253 what commands write. Variables: l and c these texts, t token,
# r request, n nonce, p the reader that forked this one, g the one before it, f set until a script has run here, o shell options
# that would disturb this text, s status of the last script, d of a child or a read, k a probe for builtins that were replaced.
# PS4 begins with a bell, which is no part of an observation, because bash repeats its first character at every level of eval.

_FIRST = r"""
exec 250<&0 251>&1 253>&1 0</dev/null 2>/dev/null;
{ exec 251>/proc/self/fd/1; } || exec 251>&1;
unset REPLY BASH_EXECUTION_STRING;
PS4=$'\a+ ';
__envhub_p= __envhub_g= __envhub_o= __envhub_s=0 __envhub_f=1;
while :; do
  REPLY=;
  coproc {
    exec 252>&1 1>&253 0</dev/null;
    unset COPROC COPROC_PID;
    eval "$__envhub_l";
  };
  { IFS= read -r -u 252; [[ $REPLY == N ]] && while read -r -u 252 __envhub_k; do :; done; } 252<&"${COPROC[0]}";
  [[ $REPLY == Q || $BASHPID != 1 ]] && exit 0;
  [[ $REPLY == N ]] || kill -KILL -1;
  wait;
  printf '\0%s:X:%s:\0' "$__envhub_t" "$__envhub_t" >&251 || exit 0;
done
"""

CHECKPOINT = rb"""
{ builtin set +aefkuvxET; } 2>/dev/null
builtin exec 2>/dev/null
IFS=$'\n'
{
builtin set -f
builtin printf 'builtin unset -v $(builtin compgen -e)\nbuiltin cd -- %q\n' "$PWD"
builtin shopt -p
builtin set +f +o
for __envhub_k in $(builtin compgen -v); do
  case $__envhub_k in
    __envhub_*|BASH|BASH_*|BASHOPTS|BASHPID|COMP_*|COPROC*|DIRSTACK|EPOCH*|EUID|FUNCNAME|GROUPS|HISTCMD|IFS|LINENO) ;;
    PIPESTATUS|PPID|PWD|RANDOM|REPLY|SECONDS|SHELLOPTS|SRANDOM|UID|_) ;;
    *) builtin declare -p "$__envhub_k" ;;
  esac
done
builtin declare -f
for __envhub_k in $(builtin declare -F); do
  [[ $__envhub_k == 'declare -f '* ]] || builtin printf 'builtin %s\n' "$__envhub_k"
done
builtin alias -p
builtin printf 'builtin umask %s\nbuiltin set --' "$(builtin umask)"
(( $# )) && builtin printf ' %q' "$@"
builtin printf '\n'
if [[ $__envhub_o ]]; then builtin printf 'builtin set -%s\n' "$__envhub_o"
else builtin printf '(builtin exit %s)\n' "$__envhub_s"
fi
} | while builtin read -rN 900 __envhub_k || [[ $__envhub_k ]]; do
  __envhub_k=${__envhub_k//'^'/'^a'}
  __envhub_k=${__envhub_k//$'\n'/'^b'}
  builtin printf '\0%s:T:%s:%s\0' "$__envhub_t" "$__envhub_n" "$__envhub_k"
done
builtin exit $(( PIPESTATUS[0] | PIPESTATUS[1] ))
"""
"""Tells, in T markers, a script that gives another shell the state of this one. Each is one write, as bash writes line by line, so
that nothing a session's other processes write gets into it. It ends its shell, so the state stays as it is."""

MAX_MARKER_BYTES = 8192
TOKEN_CHARS = 32


def arguments() -> tuple[str, ...]:
    """What follows the path of bash. The program itself is read first, so that a process list stays readable; as its lengths are
    known, bash does not read it one byte at a time."""
    texts = _texts("t" * TOKEN_CHARS)
    reads = [f"builtin read -rN {len(text)} {name}" for name, text in texts.items()]
    return ("--norc", "--noprofile", "-c", f'{" && ".join(reads)} && builtin eval "$REPLY"', "bash")


def first_record(token: str) -> bytes:
    """The program, for the session that marks its own with ``token`` (32 characters)."""
    return "".join(_texts(token).values()).encode()


def _texts(token: str) -> dict[str, str]:
    """By the variable that each is read into; each alone, as bash keeps several copies of what it evaluates."""
    return {
        "__envhub_c": _one_line(_COMMAND),
        "__envhub_l": _one_line(_READER),
        "REPLY": f"__envhub_t={token}; {_one_line(_FIRST)}",
    }


def command(nonce: str, script: bytes) -> bytes:
    """A request to run a script, answered by markers S, then E or D."""
    return b"C%b:%b\0" % (nonce.encode(), script)


def renew(nonce: str) -> bytes:
    """A request to start a new reader, which knows nothing of this one; what a session left running stays."""
    return b"N%b:\0" % nonce.encode()


def ping(nonce: str) -> bytes:
    """A request that the reader answers with an R marker: it is there, and every request before this one is done."""
    return b"P%b:\0" % nonce.encode()


@dataclass(frozen=True, slots=True)
class Marker:
    """``kind`` S: a script starts, value its pid. E: it ended, D: it ended its shell; value its status. R: the reader is ready.
    X: every reader was gone and a new one starts. T: a piece of a state, ``data``. ``value`` fits a pid or a status, whatever a
    session makes up; else it is 0."""

    kind: str
    nonce: str
    value: int
    cwd: str
    data: bytes = b""


class MarkerStream:
    """Splits what a sandbox writes into plain bytes and markers, whatever the chunks it comes in."""

    def __init__(self, token: str) -> None:
        self._intro = b"\0" + token.encode() + b":"
        self._held = b""

    def feed(self, chunk: bytes) -> Iterator[bytes | Marker]:
        data = self._held + chunk
        self._held = b""
        start = 0
        while (at := data.find(self._intro, start)) >= 0:
            if at > start:
                yield data[start:at]
            body_at = at + len(self._intro)
            end = data.find(b"\0", body_at, body_at + MAX_MARKER_BYTES)
            if end < 0 and len(data) - body_at < MAX_MARKER_BYTES:
                self._held = data[at:]
                return
            marker = _parse(data[body_at:end]) if end >= 0 else None
            if marker is not None:
                yield marker
                start = end + 1
            else:
                start = body_at
        keep = self._partial(data, start)
        self._held = data[keep:]
        if keep > start:
            yield data[start:keep]

    def _partial(self, data: bytes, start: int) -> int:
        """Where the beginning of a marker's introduction starts at the end of ``data``; its length if nowhere."""
        at = data.find(b"\0", max(start, len(data) - len(self._intro) + 1))
        while at >= 0 and not self._intro.startswith(data[at:]):
            at = data.find(b"\0", at + 1)
        return at if at >= 0 else len(data)


def _parse(body: bytes) -> Marker | None:
    """None for what the program inside would not write."""
    kind, _, rest = body.decode("utf-8", "replace").partition(":")
    nonce, _, rest = rest.partition(":")
    if kind == "T":
        return Marker(kind, nonce, 0, "", body.split(b":", 2)[-1].replace(b"^b", b"\n").replace(b"^a", b"^"))
    if kind in ("R", "X"):
        return Marker(kind, nonce, 0, rest)
    value, _, cwd = rest.partition(":")
    if kind not in _VALUES or not _NUMBER.fullmatch(value) or int(value) not in _VALUES[kind]:
        return None
    return Marker(kind, nonce, int(value), cwd)


_NUMBER = re.compile(r"[0-9]{1,10}")
_VALUES = {"S": range(2, 1 << 22), "E": range(256), "D": range(256)}
"""The kernel has at most 2**22 process ids; 1 is the first process, which runs no script."""


def _one_line(text: str) -> str:
    """Bash counts the lines of an evaluated script from that of the ``eval``: on line 1, its messages name the agent's own."""
    return " ".join(line.strip() for line in text.splitlines()).strip()
