"""Tensors compared by name, relative to each one's largest value."""

from safetensors.torch import load_file

TOLERANCE = 1e-4
SMALLEST_NORM = 1e-6
SMALLEST_SCALE = 1e-3  # losses and gradients are sums over all tokens: far larger


def tensors_of(folder):
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors.update(load_file(file))
    return tensors


def difference(got, want, name):
    """What is wrong, or nothing."""
    if got.shape != want.shape:
        return f"{name}: shape {list(got.shape)}, want {list(want.shape)}"
    scale = max(want.abs().max().item(), SMALLEST_SCALE)
    error = (got - want).abs().max().item()
    if error <= TOLERANCE * scale:  # written so that NaN fails
        return None
    return f"{name}: error {error:.3g}, largest value {scale:.3g}"


def assert_equal(got, want):
    """Dictionaries of tensors: the same names, and values within the tolerance."""
    assert got.keys() == want.keys()
    wrong = [difference(got[name], want[name], name) for name in want]
    assert not any(wrong), "\n".join(line for line in wrong if line)


def relative_errors(got, want):
    """Of each tensor the root of the squared errors, relative to that of the squared values."""
    return {name: ((got[name] - tensor).norm() / tensor.norm().clamp(min=SMALLEST_NORM)).item()
            for name, tensor in want.items()}


def assert_same_bytes(got, want):
    assert got.keys() == want.keys()
    for name, tensor in want.items():
        assert got[name].dtype == tensor.dtype and got[name].equal(tensor), name
