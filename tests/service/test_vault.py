"""Old versions of a sum cannot be read, and the current one always can."""

import pytest

from discreet.service.vault import MissingSecret, Vault


def test_only_the_last_two_versions_of_a_sum_can_be_opened(tmp_path):
    vault = Vault(tmp_path)
    sealed = {n: vault.seal("b", "e", n, b"%d" % n) for n in range(1, 6)}
    assert vault.open("b", "e", 5, sealed[5]) == b"5"
    assert vault.open("b", "e", 4, sealed[4]) == b"4"
    for n in (1, 2, 3):
        with pytest.raises(MissingSecret):
            vault.open("b", "e", n, sealed[n])


def test_a_commit_that_failed_leaves_the_version_before_it(tmp_path):
    vault = Vault(tmp_path)
    stored = vault.seal("b", "e", 1, b"one")
    for _ in range(5):  # the transaction is rolled back each time
        vault.seal("b", "e", 2, b"zero")
    assert vault.open("b", "e", 1, stored) == b"one"


def test_a_torn_key_is_no_key(tmp_path):
    vault = Vault(tmp_path)
    first = vault.seal("b", "e", 1, b"one")
    second = vault.seal("b", "e", 2, b"zero")
    (path,) = (tmp_path / "windows").iterdir()
    raw = bytearray(path.read_bytes())
    raw[64 + 10] ^= 1  # inside the second place
    path.write_bytes(raw)
    with pytest.raises(MissingSecret):
        vault.open("b", "e", 2, second)
    assert vault.open("b", "e", 1, first) == b"one"


def test_a_sealed_sum_is_bound_to_its_bandit_epoch_and_sequence(tmp_path):
    vault = Vault(tmp_path)
    sealed = vault.seal("b", "e", 1, b"one")
    for place in (("c", "e", 1), ("b", "f", 1), ("b", "e", 2)):
        with pytest.raises(MissingSecret):
            vault.open(*place, sealed)


def test_forgotten_keys_are_gone(tmp_path):
    vault = Vault(tmp_path)
    sealed = vault.seal("b", "e", 1, b"one")
    vault.forget_all_but("f")
    with pytest.raises(MissingSecret):
        vault.open("b", "e", 1, sealed)


def test_secrets_are_for_their_owner_only(tmp_path):
    folder = tmp_path / "secrets"
    Vault(folder).seal("b", "e", 1, b"one")
    assert folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.rglob("*"))


def test_the_master_key_stays(tmp_path):
    assert Vault(tmp_path).master == Vault(tmp_path).master
