"""The words of the contract for leased logs: what they say by themselves."""

from holdfast.leases.contract import HOLDER_LENGTH, Outcome, Place


def test_a_place_is_compared_by_index_and_chain() -> None:
    """Two ends are the same only where both are: an index alone proves nothing."""
    assert Place(3, b"a" * 16) == Place(3, b"a" * 16)
    assert Place(3, b"a" * 16) != Place(3, b"b" * 16)


def test_what_is_not_known_is_no_outcome() -> None:
    """There are two outcomes; what is not known is an error, so that nobody takes it for one."""
    assert {it.value for it in Outcome} == {"stored", "deposed"}


def test_a_holder_is_sixteen_random_bytes() -> None:
    """So long that two processes never choose the same."""
    assert len(bytes(16).hex()) == HOLDER_LENGTH
