import numpy as np
import pytest

from discreet.least_squares.blocks import SHARED, Blocks
from discreet.least_squares.shrinkage import shrunk

LABELS = [0, 0, 1, 1, 1, SHARED]


def rows_of(rng, n, labels):
    """Rows with features of one block each, beside the shared ones."""
    labels = np.array(labels)
    chosen = rng.integers(labels.max() + 1, size=n)
    rows = rng.standard_normal((n, len(labels)))
    return rows * ((labels == chosen[:, None]) | (labels == SHARED))


def test_blocks__together_is_where_the_gram_matrix_of_such_rows_may_differ_from_0():
    blocks = Blocks(LABELS)
    rows = rows_of(np.random.default_rng(0), 500, LABELS)
    assert np.array_equal(blocks.together, (rows.T @ rows != 0) * 1.0)


@pytest.mark.parametrize("labels", [np.repeat(np.arange(20), 5), np.repeat([0, SHARED], [99, 1])])
def test_blocks__noise_is_no_longer_than_their_width_says(labels):
    # s sqrt(2 w) bounds the operator norm of noise within blocks, and is not twice as large.
    blocks = Blocks(labels)
    rng = np.random.default_rng(2)
    norms = []
    for _ in range(20):
        Z = rng.standard_normal((100, 100))
        noise = (Z + Z.T) / 2 * blocks.together
        norms.append(np.abs(np.linalg.eigvalsh(noise)).max())
    assert 0.5 < np.mean(norms) / np.sqrt(2 * blocks.width) < 1.25


def test_shrunk__with_blocks_the_error_is_smaller_than_without():
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(8), 4)
    blocks = Blocks(labels)
    d = len(labels)
    errors = {None: 0.0, blocks: 0.0}
    for _ in range(5):
        rows = np.abs(rows_of(rng, 800, labels))  # features of a block go together
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        true = rows.T @ rows
        Z = 20.0 * rng.standard_normal((d, d))
        noise = (Z + Z.T) / 2
        expected = np.eye(d) * 800 / d
        for each in errors:
            noisy = true + noise if each is None else (true + noise) * each.together
            _, found, _ = shrunk(noisy, expected, 20.0, 1, each)
            errors[each] += float(np.linalg.norm(found - true))
    assert errors[blocks] < 0.9 * errors[None]
