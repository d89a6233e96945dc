"""A statement's tokens and the place reached in them.

Invariant: reading past the end stays at the end token; every complaint is a MySQL syntax error at the current token.
"""

from __future__ import annotations

from envhub.envs.db.sqlite.errors import MySQLError, too_deep
from envhub.envs.db.sqlite.lexer import RESERVED, Token, error_at, identifier, tokenize, unquote

MAX_DEPTH = 60
MAX_CHAIN = 400


class TokenReader:
    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.tokens = tokenize(sql)
        self.at = 0
        self.depth = 0
        self.tok: Token = self.tokens[0]

    def step(self) -> Token:
        token = self.tok
        if self.at < len(self.tokens) - 1:
            self.at += 1
        self.tok = self.tokens[self.at]
        return token

    def ahead(self, count: int = 1) -> Token:
        return self.tokens[min(self.at + count, len(self.tokens) - 1)]

    def back_to(self, at: int) -> None:
        self.at = at
        self.tok = self.tokens[at]

    def accept(self, *words: str) -> bool:
        """Consume the given sequence of words or operators if all of it comes next."""
        for offset, word in enumerate(words):
            if self.tokens[min(self.at + offset, len(self.tokens) - 1)].up != word:
                return False
        self.back_to(self.at + len(words))
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if self.tok.up != word:
                raise self.error()
            self.step()

    def one_of(self, *words: str) -> str | None:
        if self.tok.up in words:
            return self.step().up
        return None

    def error(self, token: Token | None = None) -> MySQLError:
        return error_at(self.sql, (token or self.tok).pos)

    def text_between(self, start: Token, end_at: int) -> str:
        return self.sql[start.pos : self.tokens[end_at].end]

    def ident(self) -> str:
        token = self.tok
        if token.kind == "qid" or (token.kind == "id" and token.up not in RESERVED):
            self.step()
            name = identifier(token)
            if not name:
                raise self.error(token)
            return name
        raise self.error()

    def alias(self) -> str | None:
        """An optional select-list alias: ``AS x``, ``x`` or a string."""
        if self.accept("AS"):
            if self.tok.kind == "str":
                return unquote(self.step().text)
            return self.ident()
        if self.tok.kind == "str":
            return unquote(self.step().text)
        if self.tok.kind == "qid" or (self.tok.kind == "id" and self.tok.up not in RESERVED):
            return self.ident()
        return None

    def string(self) -> str:
        if self.tok.kind != "str":
            raise self.error()
        value = unquote(self.step().text)
        while self.tok.kind == "str":
            value += unquote(self.step().text)
        return value

    def number(self) -> int:
        if self.tok.kind != "num" or not self.tok.text.isdigit():
            raise self.error()
        return int(self.step().text)

    def chained(self, links: int) -> int:
        """One more link of an unparenthesised chain (``a + b + ...``). Raises when there are too many."""
        if links >= MAX_CHAIN:
            raise too_deep()
        return links + 1
