"""Declared state: values, live objects, files, fitted estimators."""

from discreet.state.claims import SecondCopy
from discreet.state.files import StateInUse, from_bytes, load_state, save_state, to_bytes
from discreet.state.live import Stateful
from discreet.state.values import (
    NotInFile,
    damaged,
    decode,
    encode,
    encode_argument,
    register,
    register_with_like,
    value,
)

__all__ = [
    "NotInFile",
    "SecondCopy",
    "StateInUse",
    "Stateful",
    "damaged",
    "decode",
    "encode",
    "encode_argument",
    "from_bytes",
    "load_state",
    "register",
    "register_with_like",
    "save_state",
    "to_bytes",
    "value",
]
