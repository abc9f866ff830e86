"""
Network namespaces without names, by system calls: nothing to install, nothing to clean up.

A namespace lives as long as a thread, a process or an open descriptor of it does, so an unnamed one
cannot be left behind. `unshare` and `setns` move the calling thread only; the rest of the process
keeps its own network.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trials.chaos.network import NetworkUnavailableError

_CLONE_NEWNET = 0x40000000
_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914
_SIOCSIFADDR, _SIOCSIFNETMASK = 0x8916, 0x891C
_SIOCSIFMTU, _SIOCSIFTXQLEN = 0x8922, 0x8943
_IFF_UP = 0x1
_OWN_NAMESPACE = "/proc/thread-self/ns/net"
_DEVICE = b"host0"
_TRANSMIT_QUEUE = 4000
_REQUEST = struct.Struct("16s24s")


def _call(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def open_own_namespace() -> int:
    """A descriptor of the calling thread's network namespace, which keeps it alive."""
    return os.open(_OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)


def enter_new_namespace() -> int:
    """
    Move the calling thread into a new namespace with a loopback of its own; its descriptor.

    Raises:
        NetworkUnavailableError: We may not, or the kernel cannot.
    """
    try:
        _call("unshare", _CLONE_NEWNET)
        for scope in ("all", "default"):
            with suppress(OSError):  # a kernel without IPv6 has nothing to switch off
                Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6").write_text("1")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            _set_up(any_socket, b"lo")
        return open_own_namespace()
    except (OSError, AttributeError) as error:
        raise NetworkUnavailableError(f"no network namespace can be made: {error}") from error


def enter_namespace(descriptor: int) -> None:
    """Move the calling thread into a namespace. Raises OSError."""
    _call("setns", descriptor, _CLONE_NEWNET)


@contextmanager
def inside_namespace(descriptor: int) -> Iterator[None]:
    """Have the calling thread in a namespace for as long as the block takes."""
    own = open_own_namespace()
    try:
        enter_namespace(descriptor)
        yield
    finally:
        enter_namespace(own)  # also if the first step failed or was interrupted: it does no harm
        os.close(own)


def open_tun(address: str, mtu: int) -> int:
    """
    Give the calling thread's namespace a device with this address in a network of 256.

    Returns:
        The descriptor from which its packets are read and to which those for it are written: plain
        IP, one packet each time.

    Raises:
        NetworkUnavailableError: The kernel has no such devices, or we may not make them.
    """
    try:
        descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise NetworkUnavailableError(f"no TUN device can be made: {error}") from error
    try:
        flags = struct.pack("H22x", _IFF_TUN | _IFF_NO_PI)
        fcntl.ioctl(descriptor, _TUNSETIFF, _REQUEST.pack(_DEVICE, flags))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            _set_address(any_socket, _SIOCSIFADDR, address)
            _set_address(any_socket, _SIOCSIFNETMASK, "255.255.255.0")
            _set_number(any_socket, _SIOCSIFMTU, mtu)
            _set_number(any_socket, _SIOCSIFTXQLEN, _TRANSMIT_QUEUE)
            _set_up(any_socket, _DEVICE)
    except OSError as error:
        os.close(descriptor)
        raise NetworkUnavailableError(f"no TUN device can be made: {error}") from error
    return descriptor


def _set_up(any_socket: socket.socket, device: bytes) -> None:
    answer = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, _REQUEST.pack(device, b""))
    (flags,) = struct.unpack_from("H", answer, 16)
    request = _REQUEST.pack(device, struct.pack("H", flags | _IFF_UP))
    fcntl.ioctl(any_socket, _SIOCSIFFLAGS, request)


def _set_number(any_socket: socket.socket, request: int, number: int) -> None:
    fcntl.ioctl(any_socket, request, _REQUEST.pack(_DEVICE, struct.pack("i", number)))


def _set_address(any_socket: socket.socket, request: int, address: str) -> None:
    place = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
    fcntl.ioctl(any_socket, request, _REQUEST.pack(_DEVICE, place))
