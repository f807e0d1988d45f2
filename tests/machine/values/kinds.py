"""The classes whose values the tests send across the line."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, NamedTuple, NotRequired

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr
from typing_extensions import TypedDict


class Color(Enum):
    RED = "red"
    TEN = 10


class Level(IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Address(TypedDict):
    street: str
    number: NotRequired[int]


@dataclass(frozen=True)
class Line:
    sku: str
    price: Any
    tags: frozenset[str] = frozenset()


@dataclass
class Order:
    id: str
    items: list[Line] = field(default_factory=list)


@dataclass
class RushOrder(Order):
    by: str = "noon"


class Animal(BaseModel):
    name: str


class Dog(Animal):
    tricks: set[str] = set()


class Blob(BaseModel):
    """Bytes that are no UTF-8, in a class with its own configuration."""

    model_config = ConfigDict(ser_json_bytes="utf8")
    content: bytes
    at: datetime | None = None


class Shift(BaseModel):
    """Times, in a class that gives its own clients numbers."""

    model_config = ConfigDict(ser_json_temporal="seconds")
    begins: datetime
    lasts: timedelta


class Break(BaseModel):
    model_config = ConfigDict(ser_json_timedelta="float")
    lasts: timedelta


class Renamed(BaseModel):
    user: int = Field(alias="userId")


class Login(BaseModel):
    password: SecretStr


class Counted(BaseModel):
    count: int
    _seen: int = PrivateAttr(default=0)


class Tree(BaseModel):
    value: Decimal
    children: list[Tree] = []


class Opaque:
    """Nothing is known about this."""
