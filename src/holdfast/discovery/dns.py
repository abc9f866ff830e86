"""
Candidates by DNS: the SRV records of a name, or its addresses.

Of a name that begins with an underscore the SRV records are asked for as it stands; of another one
those of `_holdfast._tcp.NAME`, by TLS of `_holdfast-tls._tcp.NAME`, and where there are none the
addresses of the name itself. An answer decides where to turn, and nothing else: whether TLS is
spoken and whom the certificate must name is what the user wrote (RFC 6125, 1.8: a name that DNS
has told is no reference identity), so whoever forges DNS leads nobody to himself.

Asked in a thread of its own: an answer of 64 KiB takes longer to read than a loop may stand still.
"""

from __future__ import annotations

import logging
import re
import time
from dataclasses import replace
from typing import Final, TypeAlias

import dns.exception
import dns.rdata
import dns.resolver
from dns.rdtypes.IN.SRV import SRV

from holdfast.discovery.candidates import CANDIDATES_MAX, Answer, Candidate, NoAnswer
from holdfast.discovery.question import DnsQuestion

logger = logging.getLogger("holdfast.discovery")

_HOST: Final = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*")
_LEFT_OUT_MAX: Final = 4
"""So many of those that are left out are named, and the others counted."""

Found: TypeAlias = "tuple[list[dns.rdata.Rdata], float]"
"""Records, and for how many seconds they are good."""


class _NothingThereError(Exception):
    """The name has no such records, says DNS. Caught in this module."""


class _NotAnsweredError(Exception):
    """DNS says nothing that could be used; the text tells what. Caught in this module."""


def look_up(question: DnsQuestion, seconds: float) -> Answer | NoAnswer:
    """
    Ask DNS where brokers may be. Blocks the calling thread, for `seconds` and a moment at most.

    Raises nothing that DNS or the network does: it is told as `NoAnswer`.
    """
    try:
        return _Lookup(question, seconds).run()
    except _NotAnsweredError as error:
        return NoAnswer(str(error))
    except Exception as error:
        # A mistake of ours or of the library's: whoever waits must hear of it.
        logger.exception("asking DNS failed")
        return NoAnswer(f"asking DNS failed: {error!r}")


class _Lookup:
    """One question and what follows from it, within one limit of time."""

    def __init__(self, question: DnsQuestion, seconds: float) -> None:
        self._question = question
        self._until = time.monotonic() + seconds
        self._seconds = seconds
        try:
            self._resolver = dns.resolver.Resolver(configure=not question.nameserver)
        except dns.exception.DNSException as error:
            raise _NotAnsweredError(
                f"this machine names no nameserver ({error}); write ?nameserver=ADDRESS"
            ) from error
        if question.nameserver:
            self._resolver.nameservers = [question.nameserver]
            self._resolver.port = question.nameserver_port

    def run(self) -> Answer | NoAnswer:
        service = self._question.service
        try:
            records, seconds = self._ask(service, "SRV")
        except _NothingThereError:
            if self._question.is_service:
                return NoAnswer(f"{service} has no SRV records")
            return self._by_address()
        return self._by_service(records, seconds)

    def _by_address(self) -> Answer | NoAnswer:
        question = self._question
        try:
            hosts, seconds = self._addresses(question.name)
        except _NothingThereError:
            return NoAnswer(
                f"{question.service} has no SRV records, and {question.name} no addresses"
            )
        found = [Candidate(host, question.port, question.domain) for host in hosts]
        return _answer(found, seconds, [])

    def _by_service(self, records: list[dns.rdata.Rdata], seconds: float) -> Answer | NoAnswer:
        known = [it for it in records if isinstance(it, SRV)]
        if [it.target.to_text() for it in known] == ["."]:
            # RFC 2782: "A Target of '.' means that the service is decidedly not available".
            return Answer((), seconds, (f"{self._question.service} says that there is no service",))
        left_out: list[str] = []
        found: list[Candidate] = []
        for record in sorted(known, key=lambda it: it.priority):
            host = record.target.to_text(omit_final_dot=True)
            why = self._fault(host, record.port)
            if why:
                left_out.append(f"{host[:253]!a}: {why}")
                continue
            candidate = Candidate(
                host, record.port, self._name_of(host), record.priority, record.weight
            )
            found.append(candidate)
        if self._question.nameserver:
            if len(found) > CANDIDATES_MAX:
                left_out.append(f"{len(found) - CANDIDATES_MAX} of {len(found)} SRV records")
            found, seconds = self._resolved(found[:CANDIDATES_MAX], seconds, left_out)
        if not found:
            return NoAnswer(f"none of the SRV records can be used: {_told(left_out)}")
        return _answer(found, seconds, left_out)

    def _fault(self, host: str, port: int) -> str:
        """Why nobody can be there; empty: somebody can."""
        if not _HOST.fullmatch(host):
            return "no host name"
        if port == 0:
            return "nobody listens on port 0"
        trusted = self._question.trusted_domain
        if trusted and not _is_within(host, trusted):
            return f"not within trustedDomain {trusted}"
        return ""

    def _name_of(self, host: str) -> str:
        return host if self._question.trusted_domain else self._question.domain

    def _resolved(
        self, found: list[Candidate], seconds: float, left_out: list[str]
    ) -> tuple[list[Candidate], float]:
        """The same by addresses: only the nameserver that was named may know these names."""
        by_address: list[Candidate] = []
        for candidate in found:
            try:
                hosts, good_for = self._addresses(candidate.host)
            except (_NothingThereError, _NotAnsweredError) as error:
                left_out.append(f"{candidate.host}: {error}")
                continue
            seconds = min(seconds, good_for)
            by_address += [replace(candidate, host=host) for host in hosts]
        return by_address, seconds

    def _addresses(self, name: str) -> tuple[list[str], float]:
        hosts: list[str] = []
        seconds = float("inf")
        missing: Exception = _NothingThereError()
        for kind in ("A", "AAAA"):
            try:
                records, good_for = self._ask(name, kind)
            except _NothingThereError as error:
                missing = missing if isinstance(missing, _NotAnsweredError) else error
                continue
            except _NotAnsweredError as error:
                missing = error
                continue
            hosts += [it.to_text() for it in records]
            seconds = min(seconds, good_for)
        if not hosts:
            raise missing
        return hosts, seconds

    def _ask(self, name: str, kind: str) -> Found:
        rest = self._until - time.monotonic()
        late = f"no answer about {name} ({kind}) within {self._seconds:.1f} s"
        if rest <= 0:
            raise _NotAnsweredError(late)
        try:
            answer = self._resolver.resolve(f"{name}.", kind, lifetime=rest, search=False)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer) as error:
            raise _NothingThereError(f"it has no {kind} records") from error
        except dns.resolver.LifetimeTimeout as error:
            raise _NotAnsweredError(late) from error
        except (dns.exception.DNSException, OSError, ValueError) as error:
            said = " ".join(str(error).split())[:300]
            raise _NotAnsweredError(f"no answer about {name} ({kind}): {said}") from error
        assert answer.rrset is not None, "else it is no answer"
        return list(answer.rrset), float(answer.chaining_result.minimum_ttl)


def _answer(found: list[Candidate], seconds: float, left_out: list[str]) -> Answer:
    found = list(dict.fromkeys(found))
    if len(found) > CANDIDATES_MAX:
        left_out.append(f"{len(found) - CANDIDATES_MAX} of {len(found)} candidates")
    remarks = [f"left out: {_told(left_out)}"] if left_out else []
    return Answer(tuple(found[:CANDIDATES_MAX]), seconds, tuple(remarks))


def _told(left_out: list[str]) -> str:
    more = len(left_out) - _LEFT_OUT_MAX
    if more <= 0:
        return "; ".join(left_out)
    # The last one may count those that were too many.
    return "; ".join([*left_out[: _LEFT_OUT_MAX - 1], f"{more} more", left_out[-1]])


def _is_within(host: str, domain: str) -> bool:
    return f".{host}".lower().endswith(f".{domain}".lower())
