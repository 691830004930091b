"""One rank of a collective check. `python3 - SPEC` reads this script from stdin. SPEC is the JSON of Go's
collective.rank. The script prints one JSON object per line. NCCL's log goes to stderr."""

import datetime
import json
import os
import sys
import time

# NCCL logs to stdout. Keep the real stdout for our own lines, and send everything else to stderr.
_out = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)
sys.path[:] = [p for p in sys.path if p]  # do not import from the current folder
stage = "begin"


def say(event, **fields):
    _out.write(json.dumps(dict(fields, event=event)) + "\n")
    _out.flush()


def nccl_version(torch):
    try:
        v = torch.cuda.nccl.version()
    except Exception:
        return ""
    if isinstance(v, int):  # before torch 1.11: 2708 and 21003
        v = (v // 1000, v % 1000 // 100, v % 100) if v < 10000 else (v // 10000, v % 10000 // 100, v % 100)
    return ".".join(str(n) for n in v[:3])


def look(torch):
    import torch.distributed as dist

    has = bool(dist.is_available() and dist.is_nccl_available())
    say("look", python=sys.version.split()[0], torch=str(torch.__version__), nccl=nccl_version(torch) if has else "", has_nccl=has, gpus=torch.cuda.device_count() if torch.cuda.is_available() else 0)


def values(torch, dist, spec, device):
    """Check 64-bit integers: every sum is exact, so a single wrong byte shows."""
    rank, world, count = spec["rank"], spec["world"], spec["count"]
    pattern = torch.arange(count, dtype=torch.int64, device=device) % 257 + 1

    def judge(op, got, want, root=None):
        bad = got != want
        wrong = int(bad.sum().item())
        fields = {"op": op, "count": count, "wrong": wrong}
        if root is not None:
            fields["root"] = root
        if wrong:
            at = int(bad.nonzero()[0].item())
            fields.update(at=at, got=int(got[at].item()), want=int(want[at].item()))
        say("values", **fields)

    x = pattern * (rank + 1)
    dist.all_reduce(x)
    judge("all_reduce", x, pattern * (world * (world + 1) // 2))
    for root in sorted({0, world - 1}):
        x = pattern * (root + 3) if rank == root else torch.zeros(count, dtype=torch.int64, device=device)
        dist.broadcast(x, src=root)
        judge("broadcast", x, pattern * (root + 3), root)
    before, after = (rank - 1) % world, (rank + 1) % world
    x = torch.zeros(count, dtype=torch.int64, device=device)
    ops = [dist.P2POp(dist.isend, pattern * (rank + 1), after), dist.P2POp(dist.irecv, x, before)]
    for request in dist.batch_isend_irecv(ops):
        request.wait()
    torch.cuda.synchronize()
    judge("send_recv", x, pattern * (before + 1))


def sweep(torch, dist, spec, device):
    """Measure all sizes. All ranks get the slowest rank's time, so they all choose the same number of repeats."""
    budget, each = spec["budget_seconds"], 0.0
    for i, size in enumerate(spec["sizes"]):
        x = torch.ones(size // 4, dtype=torch.float32, device=device)
        repeat = 20
        if i > 0:
            each = each * size / spec["sizes"][i - 1] if each > 0.001 else each
            if each > budget:
                say("stopped", bytes=size, seconds=each)
                return
            repeat = max(1, min(20, int(budget / max(each, 1e-6))))
        dist.all_reduce(x)  # connections are made at the first use
        torch.cuda.synchronize()
        dist.barrier(device_ids=[spec["device"]])
        began = time.perf_counter()
        for _ in range(repeat):
            dist.all_reduce(x)
        torch.cuda.synchronize()
        t = torch.tensor([time.perf_counter() - began], dtype=torch.float64, device=device)
        dist.all_reduce(t, op=dist.ReduceOp.MAX)
        each = float(t.item()) / repeat
        say("sweep", op="all_reduce", bytes=size, iterations=repeat, seconds=float(t.item()))


def run(spec):
    global stage
    stage = "import"
    import torch

    if spec["look"]:
        return look(torch)
    import torch.distributed as dist

    device = torch.device("cuda", spec["device"])
    torch.cuda.set_device(device)
    stage = "meet"
    patience = datetime.timedelta(seconds=spec["meet_seconds"])
    store = dist.TCPStore(spec["master"], spec["port"], spec["world"], spec["rank"] == 0, timeout=patience)
    stage = "connect"
    dist.init_process_group("nccl", store=store, rank=spec["rank"], world_size=spec["world"], timeout=datetime.timedelta(seconds=spec["seconds"]))
    dist.barrier(device_ids=[spec["device"]])
    torch.cuda.synchronize()
    say("connected", rank=spec["rank"], nccl=nccl_version(torch))
    stage = "values"
    values(torch, dist, spec, device)
    stage = "sweep"
    sweep(torch, dist, spec, device)
    stage = "end"
    dist.barrier(device_ids=[spec["device"]])
    torch.cuda.synchronize()
    say("done")
    dist.destroy_process_group()


try:
    run(json.loads(sys.argv[1]))
except BaseException as e:  # from any library: report its message
    say("failed", stage=stage, kind=type(e).__name__, text=str(e)[:2000])
    sys.stderr.flush()
    os._exit(1)  # do not wait for threads that wait for peers
