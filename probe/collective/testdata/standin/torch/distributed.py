"""Collectives of the stand-in: every rank talks to rank 0, which answers when all have spoken. Environment
variables that begin with CUDA_STANDIN_ break it on purpose."""

import os
import pickle
import socket
import struct
import sys
import time


class ReduceOp:
    MAX = "max"


class P2POp:
    def __init__(self, op, tensor, peer):
        self.op, self.tensor, self.peer = op, tensor, peer


def is_available(): return True
def is_nccl_available(): return "CUDA_STANDIN_NO_NCCL" not in os.environ
def isend(): pass
def irecv(): pass


def _send(s, what):
    raw = pickle.dumps(what)
    s.sendall(struct.pack("!I", len(raw)) + raw)


def _receive(s):
    def exactly(n):
        raw = b""
        while len(raw) < n:
            part = s.recv(n - len(raw))
            if not part:
                raise ConnectionError("the other end is gone")
            raw += part
        return raw
    return pickle.loads(exactly(*struct.unpack("!I", exactly(4))))


class TCPStore:
    def __init__(self, host, port, world, is_master, timeout):
        deadline = time.time() + timeout.total_seconds()
        self.host, self.port, self.world = host, port, world
        if is_master:
            self.listener = socket.socket()
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.listener.bind((host, port))
            self.listener.listen()
            self.listener.settimeout(timeout.total_seconds())
            return
        while True:
            try:
                self.socket = socket.create_connection((host, port), timeout=1)
                self.socket.settimeout(None)
                return
            except OSError:
                if time.time() > deadline:
                    raise
                time.sleep(0.02)


def init_process_group(backend, store, rank, world_size, timeout):
    global _rank, _world, _peers, _master
    _rank, _world, _peers = rank, world_size, {}
    print("standin:1:1 [0] NCCL INFO Bootstrap : Using %s" % os.environ.get("NCCL_SOCKET_IFNAME", "unset"), flush=True)
    print("NCCL_DEBUG is", os.environ.get("NCCL_DEBUG"), file=sys.stderr)
    if rank == 0:
        while len(_peers) < _world - 1:
            s, _ = store.listener.accept()
            s.settimeout(None)
            _peers[_receive(s)] = s
    else:
        _master = store.socket
        _send(_master, rank)
    if os.environ.get("CUDA_STANDIN_DIES") == str(rank):
        raise RuntimeError("NCCL error: \x1b[31munhandled system error\nin the stand-in")
    if os.environ.get("CUDA_STANDIN_HANGS") == str(rank):
        time.sleep(600)


def _exchange(mine):
    """Everybody's contribution, by rank."""
    if _rank != 0:
        _send(_master, mine)
        return _receive(_master)
    everything = {0: mine}
    for peer, s in _peers.items():
        everything[peer] = _receive(s)
    for s in _peers.values():
        _send(s, everything)
    return everything


def all_reduce(x, op=None):
    all = _exchange(x.values).values()
    x.values = [max(v) if op == ReduceOp.MAX else sum(v) for v in zip(*all)]
    if op is None and os.environ.get("CUDA_STANDIN_WRONG") == str(_rank):
        x.values[7 % len(x.values)] += 1


def broadcast(x, src): x.values = list(_exchange(x.values)[src])
def barrier(device_ids): _exchange(None)


class _Request:
    def wait(self): pass


def batch_isend_irecv(ops):
    sent = {op.peer: op.tensor.values for op in ops if op.op is isend}
    all = _exchange(sent)
    for op in ops:
        if op.op is irecv:
            op.tensor.values = list(all[op.peer][_rank])
    return [_Request() for _ in ops]


def destroy_process_group(): pass
