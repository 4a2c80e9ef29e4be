# SPDX-License-Identifier: BSD-3-Clause
"""Messages between a loader and a worker: a pickle on a socket, bulk data in an anonymous file.

A message consists of a header, the positions of the parts in the file, and the pickle. The file's
descriptor is sent with the header. The file has no name, so the kernel frees it with the last
descriptor and mapping, even if a process dies.
"""

from __future__ import annotations

import io
import os
import pickle
import socket
import struct
import threading
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any

from cograd import _C, Tensor, UntypedStorage

# Bytes of the pickle, bytes of the file (0: no file), number of buffers, number of storages.
_HEAD = struct.Struct("<QQII")
_PLACE = struct.Struct("<QQ")  # offset and bytes of a part
_ALIGN = 64
_SMALL = 512  # buffers below this size in bytes are pickled inline

_current = threading.local()


def _load_part(index: int) -> Any:
    """Returns storage ``index`` of the message that is being read."""
    whole, places = _current.message
    return _C._storage_part(whole, *places[index])


def _is_small_part(tensor: Tensor) -> bool:
    """True if the tensor's storage is much larger than the tensor, as for ``dataset[i]``."""
    if tensor.requires_grad or tensor.__dict__:
        return False
    wanted = tensor.numel() * tensor.element_size()
    return tensor.untyped_storage().nbytes() > 2 * wanted + 1024


class _Pickler(ForkingPickler):
    """Collects the memory of tensors and arrays instead of copying it into the pickle."""

    def __init__(self, file: Any) -> None:
        self.buffers: list[memoryview] = []
        self.storages: list[memoryview] = []
        super().__init__(file, pickle.HIGHEST_PROTOCOL, True, self._take_buffer)

    def _take_buffer(self, buffer: pickle.PickleBuffer) -> bool:
        with buffer.raw() as view:
            if view.nbytes < _SMALL:
                return True  # pickle it inline
        self.buffers.append(buffer.raw())
        return False

    def reducer_override(self, obj: Any) -> Any:
        """Pickles storages by index, and a tensor that is a small part of its storage as a copy."""
        if type(obj) is UntypedStorage:
            self.storages.append(memoryview(obj))
            return _load_part, (len(self.storages) - 1,)
        if type(obj) is Tensor and _is_small_part(obj):
            return obj.clone().__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        return NotImplemented


def _places(parts: list[memoryview]) -> tuple[list[tuple[int, int]], int]:
    """Returns offset and length of each part, and the total length."""
    places, end = [], 0
    for part in parts:
        places.append((end, part.nbytes))
        end += -(-part.nbytes // _ALIGN) * _ALIGN
    return places, end


def _write_file(parts: list[memoryview], places: list[tuple[int, int]], size: int) -> int:
    """Creates an anonymous file that contains the parts; returns its descriptor."""
    fd = os.memfd_create("cograd-batch", os.MFD_CLOEXEC)
    try:
        for part, (offset, _) in zip(parts, places, strict=True):
            view, done = part.cast("B"), 0
            while done < view.nbytes:
                done += os.pwrite(fd, view[done:], offset + done)
        if not places or sum(places[-1]) < size:
            os.ftruncate(fd, size)
    except BaseException:
        os.close(fd)
        raise
    return fd


def encode(message: Any) -> tuple[bytes, list[memoryview], list[tuple[int, int]], int]:
    """Returns the bytes to send, and the parts of the file with their positions and total size."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(message)
    parts = pickler.buffers + pickler.storages
    places, size = _places(parts)
    head = _HEAD.pack(file.tell(), size, len(pickler.buffers), len(pickler.storages))
    table = b"".join(_PLACE.pack(*place) for place in places)
    return head + table + file.getvalue(), parts, places, size


def encode_inline(message: Any) -> bytes:
    """Returns the bytes of a message without a file."""
    data = ForkingPickler.dumps(message)
    return _HEAD.pack(len(data), 0, 0, 0) + bytes(data)


def send(connection: socket.socket, message: Any) -> None:
    """Sends a message; blocks until the other side has received enough of it.

    Raises:
        OSError: the connection is closed.
    """
    data, parts, places, size = encode(message)
    if size == 0:
        connection.sendall(data)
        return
    fd = _write_file(parts, places, size)
    try:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))]
        sent = connection.sendmsg([data], rights)
    finally:
        os.close(fd)
    if sent < len(data):
        connection.sendall(memoryview(data)[sent:])


def _receive_bytes(connection: socket.socket, count: int) -> bytearray:
    data = bytearray(count)
    view = memoryview(data)
    while view.nbytes:
        got = connection.recv_into(view)
        if got == 0:
            raise EOFError
        view = view[got:]
    return data


def _receive_head(connection: socket.socket) -> tuple[bytes, int]:
    """Returns the header and the descriptor that came with it, or -1."""
    room = socket.CMSG_SPACE(struct.calcsize("i"))
    data, rights, _, _ = connection.recvmsg(_HEAD.size, room, socket.MSG_CMSG_CLOEXEC)
    fd = -1
    for level, kind, payload in rights:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            (fd,) = struct.unpack("i", payload[: struct.calcsize("i")])
    if not data:
        raise EOFError
    if len(data) < _HEAD.size:
        data += bytes(_receive_bytes(connection, _HEAD.size - len(data)))
    return data, fd


def receive(connection: socket.socket) -> Any:
    """Returns the next message; its tensors and arrays use the memory that was sent.

    Raises:
        EOFError: the connection is closed.
        OSError: the connection is closed, or the file cannot be mapped.
    """
    head, fd = _receive_head(connection)
    whole = None
    try:
        length, size, buffers, storages = _HEAD.unpack(head)
        table = _receive_bytes(connection, (buffers + storages) * _PLACE.size)
        data = _receive_bytes(connection, length)
        if size or storages:
            whole = _C._open_shared(fd, size, False, True) if size else _C._new_shared(0)
    finally:
        if fd >= 0:
            os.close(fd)
    places = list(_PLACE.iter_unpack(table))
    _current.message = (whole, places[buffers:])
    try:
        return pickle.loads(data, buffers=_open_buffers(whole, places[:buffers]))
    finally:
        _current.message = None


def _open_buffers(whole: Any, places: list[Any]) -> Iterator[Any]:
    for place in places:
        yield memoryview(_C._storage_part(whole, *place))
