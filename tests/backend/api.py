"""What is public says its types and has a docstring. And codecs without a group."""

import inspect
import pathlib

import launch

launch.check()

import torch  # noqa: E402

import longhaul  # noqa: E402
from longhaul.lab import Node  # noqa: E402


def typed(function):
    """Every parameter but self, and what is returned, says its type."""
    signature = inspect.signature(function)
    assert signature.return_annotation is not signature.empty, function
    for parameter in signature.parameters.values():
        assert parameter.name in ("self", "cls") or parameter.annotation is not parameter.empty, (
            function, parameter)


def everything_public_is_typed():
    assert pathlib.Path(longhaul.__file__).with_name("py.typed").exists()
    for thing in [getattr(longhaul, name) for name in longhaul.__all__] + [Node]:
        if not inspect.isclass(thing):
            typed(thing)
            continue
        for name, value in vars(thing).items():
            value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if inspect.isfunction(value) and not name.startswith("_") and name != "native":
                typed(value)


def everything_is_documented():
    for name in longhaul.__all__:
        thing = getattr(longhaul, name)
        assert inspect.getdoc(thing), name
        if inspect.isclass(thing):
            for method, value in vars(thing).items():
                if not method.startswith("_") and inspect.isfunction(value) and method != "native":
                    assert value.__doc__, (name, method)


def codecs_without_a_group():
    names = longhaul.codecs()
    assert "int4-b64-h64" in names and "sparseloco" in names and len(names) == len(set(names)), names
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        x = torch.randn(6, 4, 64, dtype=dtype)
        frame = longhaul.encode(x, "int8-b64")
        assert frame.dtype == torch.uint8 and frame.numel() == launch.frame_bytes(x.numel(), 8)
        y = longhaul.decode(frame)
        assert y.shape == (24, 64) and y.dtype == dtype
        # Each value is within half a step (and bf16's and the scale's rounding) of what it was.
        step = x.float().view(-1, 64).abs().amax(1, keepdim=True) / 127
        assert ((y.float() - x.view(24, 64).float()).abs() <= 0.5 * step + 0.02 * step * 127).all()
        out = torch.empty(6 * 4 * 64)
        assert longhaul.decode(frame, out) is out and torch.allclose(out, y.float().flatten(), atol=0.02)
    noisy = [longhaul.encode(torch.ones(100) / 3, "int4-b64+sr", seed=seed) for seed in (1, 1, 2)]
    assert torch.equal(noisy[0], noisy[1]) and not torch.equal(noisy[0], noisy[2])
    error = launch.expect_error
    error(ValueError, ["int4", "int4-b64"], lambda: longhaul.encode(x, "int4-b6"))
    error(ValueError, ["none"], lambda: longhaul.encode(x, "none"))
    error(ValueError, ["no elements"], lambda: longhaul.encode(torch.empty(0), "int8-b64"))
    error(ValueError, ["NaN"], lambda: longhaul.encode(torch.tensor([float("nan")]), "int8-b64"))
    error(NotImplementedError, ["Long"], lambda: longhaul.encode(torch.ones(3).long(), "int8-b64"))
    error(ValueError, ["seed is -1"], lambda: longhaul.encode(x, "int8-b64", seed=-1))
    error(TypeError, ["x must be a tensor, not list"], lambda: longhaul.encode([1.0], "int8-b64"))
    error(TypeError, ["frame must be a tensor, not bytes"], lambda: longhaul.decode(b"LHC1"))
    error(ValueError, ["uint8"], lambda: longhaul.decode(torch.ones(100)))
    error(ValueError, ["out must", "24 x 64"], lambda: longhaul.decode(frame, torch.empty(3)))
    for damage in (frame[:-1], frame[:10], torch.cat([frame[:70], frame[70:71] ^ 1, frame[71:]])):
        error(RuntimeError, ["frame"], lambda: longhaul.decode(damage))


for check in (everything_public_is_typed, everything_is_documented, codecs_without_a_group):
    check()
    print(f"ok {check.__name__}", flush=True)
