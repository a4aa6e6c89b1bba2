"""The package as an editor sees it is the package as it is: the stubs have every name, parameter and
default of the module, and no other; what is public has a docstring. And codecs without a group."""

import ast
import inspect
import pathlib

import launch

launch.check()

import torch  # noqa: E402

import longhaul  # noqa: E402
from longhaul.lab import Node  # noqa: E402

STUBS = pathlib.Path(longhaul.__file__).with_suffix(".pyi")
REAL_NAMES = {"_Node": Node}  # that the stubs have and the package does not offer by name


def written(arguments):
    """What a stub says of parameters: (name, kind, default as it is written), without self, cls."""
    named = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(named) - len(arguments.defaults)) + arguments.defaults
    rows = [(a.arg, "plain", d and ast.unparse(d)) for a, d in zip(named, defaults)]
    rows += [(arguments.vararg.arg, "*", None)] if arguments.vararg else []
    rows += [(a.arg, "keyword", d and ast.unparse(d))
             for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    rows += [(arguments.kwarg.arg, "**", None)] if arguments.kwarg else []
    return [row for row in rows if row[0] not in ("self", "cls")]


def real(function):
    kinds = {inspect.Parameter.POSITIONAL_OR_KEYWORD: "plain", inspect.Parameter.KEYWORD_ONLY: "keyword",
             inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [(p.name, kinds[p.kind], None if p.default is p.empty else repr(p.default))
            for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]


def compare_class(stub, kind):
    fields = {line.target.id: line.value and ast.unparse(line.value).replace('"', "'")
              for line in stub.body if isinstance(line, ast.AnnAssign)}
    if hasattr(kind, "__dataclass_fields__"):
        signature = {name: default for name, _, default in real(kind)}
        assert list(fields) == list(signature), (stub.name, list(fields), list(signature))
        for name, default in signature.items():
            if "factory" not in str(default) and "factory" not in str(fields[name]):
                assert fields[name] == default, (stub.name, name, fields[name], default)
    stubbed = {line.name: line for line in stub.body if isinstance(line, ast.FunctionDef)}
    offered = {name for name, value in vars(kind).items()
               if callable(value) or isinstance(value, (property, classmethod))
               if not name.startswith("_") or name in stubbed}
    offered -= {"native"}  # of Options, between the package and its module
    assert set(stubbed) == offered, (stub.name, set(stubbed) ^ offered)
    for name, line in stubbed.items():
        value = getattr(vars(kind)[name], "__func__", vars(kind)[name])
        if not isinstance(value, property):
            assert written(line.args) == real(value), (stub.name, name, written(line.args), real(value))


def stubs_are_the_module():
    assert STUBS.exists() and STUBS.with_name("py.typed").exists()
    tree = ast.parse(STUBS.read_text())
    names = set()
    for line in tree.body:
        if isinstance(line, ast.ClassDef):
            names.add(line.name)
            compare_class(line, REAL_NAMES.get(line.name) or getattr(longhaul, line.name))
        elif isinstance(line, ast.FunctionDef):
            names.add(line.name)
            function = getattr(longhaul, line.name)
            assert written(line.args) == real(function), (line.name, written(line.args), real(function))
    assert names - set(REAL_NAMES) == set(longhaul.__all__), names ^ set(longhaul.__all__)


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


for check in (stubs_are_the_module, everything_is_documented, codecs_without_a_group):
    check()
    print(f"ok {check.__name__}", flush=True)
