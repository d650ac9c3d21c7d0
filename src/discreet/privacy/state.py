"""States on disk: arrays and plain scalars in one .npz file, no pickle, written atomically."""

import os
from pathlib import Path
from typing import Any

import numpy as np


def save_state(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Write a state dict; the file appears whole or not at all."""
    target = Path(path)
    partial = target.with_name(target.name + ".partial")
    # For the owner's eyes only: a state may hold private sums.
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        arrays: dict[str, Any] = {name: np.asarray(value) for name, value in state.items()}
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(target)


def load_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `save_state` wrote; zero-dimensional arrays come back as plain scalars."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return {name: array.item() if array.ndim == 0 else array for name, array in arrays.items()}


def expect(state: dict[str, Any], **wanted: Any) -> None:
    """Refuse a state that was made by another class, version or configuration."""
    for name, value in wanted.items():
        if state.get(name) != value:
            raise ValueError(
                f"this state was saved with {name}={state.get(name)!r}, expected {value!r}; "
                "build the object with the arguments that were saved"
            )


def keeps(taken: Any, saved: Any) -> None:
    """Refuse a state that lacks feedback which was taken since: one flag for each round.

    Under local trust a second report of the same feedback, with fresh noise, would cost twice.
    """
    before = np.asarray(taken, dtype=bool)
    if (before & ~np.asarray(saved, dtype=bool)[: len(before)]).any():
        raise ValueError(
            "the state is older than this learner: it lacks feedback that was taken, and to take "
            "it a second time would cost twice"
        )
