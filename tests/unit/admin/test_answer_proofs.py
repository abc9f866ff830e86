"""What an answer shows of who has given it."""

from __future__ import annotations

from holdfast.admin.answer_proofs import Expected


def test_a_proof_is_good_for_one_answer_of_who_knows_the_key() -> None:
    """Key, nonce and status count; what was seen proves nothing for the next request."""
    expected = Expected(b"key", "0a" * 16)
    proof = expected.proof(200)
    assert expected.is_proven(200, proof)
    assert not expected.is_proven(204, proof)
    assert not Expected(b"yek", "0a" * 16).is_proven(200, proof)
    assert not Expected(b"key", "0b" * 16).is_proven(200, proof)
    for shown in ("", "é", proof[:-1], proof.upper() + "x"):
        assert not expected.is_proven(200, shown)
    assert "key" not in repr(expected)
