"""A stand-in for torch on machines without a GPU: the few operations that a rank's script uses, on lists,
with a real TCP star for collectives. It proves the script's own steps and says nothing of NCCL."""

import os

__version__ = "0+standin"
int64, float32, float64 = "int64", "float32", "float64"


class Tensor:
    def __init__(self, values):
        self.values = list(values)

    def _with(self, other, f):
        others = other.values if isinstance(other, Tensor) else [other] * len(self.values)
        return Tensor(f(a, b) for a, b in zip(self.values, others))

    def __mod__(self, o): return self._with(o, lambda a, b: a % b)
    def __add__(self, o): return self._with(o, lambda a, b: a + b)
    def __mul__(self, o): return self._with(o, lambda a, b: a * b)
    def __ne__(self, o): return self._with(o, lambda a, b: a != b)
    def __getitem__(self, i): return Tensor([self.values[i]])
    def sum(self): return Tensor([sum(self.values)])
    def nonzero(self): return [Tensor([i]) for i, v in enumerate(self.values) if v]

    def item(self):
        (v,) = self.values
        return v


def arange(n, dtype, device): return Tensor(range(n))
def zeros(n, dtype, device): return Tensor([0] * n)
def ones(n, dtype, device): return Tensor([1] * n)
def tensor(values, dtype, device): return Tensor(values)


class device:
    def __init__(self, kind, index):
        self.index = index


class cuda:
    @staticmethod
    def is_available(): return int(os.environ.get("CUDA_STANDIN_GPUS", "1")) > 0
    @staticmethod
    def device_count(): return int(os.environ.get("CUDA_STANDIN_GPUS", "1"))
    @staticmethod
    def set_device(d): pass
    @staticmethod
    def synchronize(): pass

    class nccl:
        @staticmethod
        def version(): return (0, 0, 0)
