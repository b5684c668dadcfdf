"""Tensors compared by name, relative to each one's largest value."""

from safetensors.torch import load_file

TOLERANCE = 1e-4
# Our error may be as many times that of float32, where that is beyond the tolerance. Both depend on how many threads
# sum, and on the products of the processor. Gradients of adapters had up to 3.5 times on one, and less on others.
MOST_ROUNDING = 4.0
# transformers' own error alone can be small by luck. Some models are ill-conditioned, as with queries near 0 before
# their norm. Exact gradients of weights that differ by a rounding of float32 then had seven times that error.
MOVED_WEIGHTS = range(4)  # seeds
SMALLEST_NORM = 1e-6
SMALLEST_SCALE = 1e-3  # losses and gradients are sums over all tokens: far larger


def tensors_of(folder):
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors.update(load_file(file))
    return tensors


def scale_of(tensors, name):
    """The largest value of a tensor. Softmax ignores what all keys share, so that a bias of keys has no gradient in
    a layer without rotary positions. What rounding leaves of it is small next to the gradient of the queries' bias."""
    names = {name, name.replace("k_proj.bias", "q_proj.bias")}
    return max(SMALLEST_SCALE, *(tensors[each].abs().max().item() for each in names))


def largest_error(got, want, name):
    """Relative to the largest value."""
    return (got[name] - want[name]).abs().max().item() / scale_of(want, name)


def difference(got, want, name, tolerance=TOLERANCE):
    """Describes the difference of two tensors in shape or value, or returns None."""
    if got[name].shape != want[name].shape:
        return f"{name}: shape {list(got[name].shape)}, want {list(want[name].shape)}"
    error = largest_error(got, want, name)
    if error <= tolerance:  # written so that NaN fails
        return None
    return f"{name}: relative error {error:.3g}, tolerance {tolerance:.3g}"


def assert_equal(got, want):
    """Dictionaries of tensors: the same names, and values within the tolerance."""
    assert got.keys() == want.keys()
    wrong = [difference(got, want, name) for name in want]
    assert not any(wrong), "\n".join(line for line in wrong if line)


def assert_equal_but_for_rounding(got, want, find_exact):
    """As assert_equal, but compares with float64 what float32 does not compute to the tolerance. `find_exact(seed)`
    makes the float64 tensors, with a seed those of weights that are moved by a rounding of float32. Our error may be
    at most a factor times the largest error of `want` and of these."""
    assert got.keys() == want.keys()
    unlike = [name for name in want if difference(got, want, name)]
    if not unlike:
        return
    exact = find_exact(None)
    rounded = [want, *(find_exact(seed) for seed in MOVED_WEIGHTS)]
    rounding = {name: max(largest_error(tensors, exact, name) for tensors in rounded) for name in unlike}
    wrong = [difference(got, exact, name, max(TOLERANCE, MOST_ROUNDING * rounding[name])) for name in unlike]
    assert not any(wrong), "\n".join(line for line in wrong if line)


def relative_errors(got, want):
    """Returns, for each tensor, the root of the squared errors relative to that of the squared values."""
    return {name: ((got[name] - tensor).norm() / tensor.norm().clamp(min=SMALLEST_NORM)).item()
            for name, tensor in want.items()}


def assert_same_bytes(got, want):
    assert got.keys() == want.keys()
    for name, tensor in want.items():
        assert got[name].dtype == tensor.dtype and got[name].equal(tensor), name
