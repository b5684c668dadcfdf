"""Tensors compared by name, relative to each one's largest value."""

from safetensors.torch import load_file

TOLERANCE = 1e-4
MOST_ROUNDING = 2.0  # times transformers' own, where that is beyond the tolerance
SMALLEST_NORM = 1e-6
SMALLEST_SCALE = 1e-3  # losses and gradients are sums over all tokens: far larger


def tensors_of(folder):
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors.update(load_file(file))
    return tensors


def largest_error(got, want):
    """Relative to the largest value."""
    scale = max(want.abs().max().item(), SMALLEST_SCALE)
    return (got - want).abs().max().item() / scale


def difference(got, want, name, tolerance=TOLERANCE):
    """Describes the difference in shape or value, or returns None."""
    if got.shape != want.shape:
        return f"{name}: shape {list(got.shape)}, want {list(want.shape)}"
    error = largest_error(got, want)
    if error <= tolerance:  # written so that NaN fails
        return None
    return f"{name}: relative error {error:.3g}, tolerance {tolerance:.3g}"


def assert_equal(got, want):
    """Dictionaries of tensors: the same names, and values within the tolerance."""
    assert got.keys() == want.keys()
    wrong = [difference(got[name], want[name], name) for name in want]
    assert not any(wrong), "\n".join(line for line in wrong if line)


def assert_equal_but_for_rounding(got, want, find_exact):
    """As assert_equal, but compares with float64 what float32 does not compute to the tolerance. `find_exact`
    makes the float64 tensors. Our error may be at most a factor times the error of `want`."""
    assert got.keys() == want.keys()
    unlike = [name for name in want if difference(got[name], want[name], name)]
    exact = find_exact() if unlike else {}
    wrong = [difference(got[name], exact[name], name,
                        max(TOLERANCE, MOST_ROUNDING * largest_error(want[name], exact[name])))
             for name in unlike]
    assert not any(wrong), "\n".join(line for line in wrong if line)


def relative_errors(got, want):
    """Returns, for each tensor, the root of the squared errors relative to that of the squared values."""
    return {name: ((got[name] - tensor).norm() / tensor.norm().clamp(min=SMALLEST_NORM)).item()
            for name, tensor in want.items()}


def assert_same_bytes(got, want):
    assert got.keys() == want.keys()
    for name, tensor in want.items():
        assert got[name].dtype == tensor.dtype and got[name].equal(tensor), name
