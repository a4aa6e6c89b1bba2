"""Names the kind of a tensor, activation or gradient, by the tag that it is sent with.

A group picks the codec by it. The stages of torch.distributed.pipelining send everything with tag 0,
and where a rank holds several stages both kinds go from one rank to the same other one: so every
stage that is made on a group which opted in to a codec has its operations tagged, at both ends.
A tag also names the sending stage, and whether a backward pass follows. So each boundary, direction
and micro-batch has its own state of a codec, whatever the schedule, and evaluation touches none.
"""

import functools
import importlib.machinery
import sys

_STAGES = "torch.distributed.pipelining.stage"

# As in plugin/core/tensor_kind.h.
_FIRST_KIND_TAG = 1 << 29
_GRADIENT_BIT = 1 << 28


def activation_tag(channel: int = 0) -> int:
    """The tag of an activation: pass it as `tag` to both isend and irecv. Tensors of one channel
    are matched in the order in which they are sent, and share the states of a codec."""
    return _FIRST_KIND_TAG | _checked(channel)


def gradient_tag(channel: int = 0) -> int:
    """The tag of a gradient, likewise."""
    return _FIRST_KIND_TAG | _GRADIENT_BIT | _checked(channel)


def evaluation_tag(stage):
    """The tag of what stage `stage` of a pipeline sends where no backward pass follows."""
    return activation_tag(2 * stage + 1)


def _checked(channel):
    if not 0 <= channel < _GRADIENT_BIT:
        raise ValueError(f"longhaul: channel {channel}: want 0 to {_GRADIENT_BIT - 1}")
    return channel


def name_kinds_of_stages():
    """Every stage of torch.distributed.pipelining made from now on tags its operations. Once.

    A program that has no pipeline does not import it here: that takes seconds, most of what a group
    takes to be made."""
    if _STAGES in sys.modules:
        _patch_stages(sys.modules[_STAGES])
    elif not any(isinstance(finder, _PatchOnImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _PatchOnImport())


class _PatchOnImport:
    """Finds the module of the stages as ever, and teaches them once it is there."""

    def find_spec(self, name, path, target=None):
        if name != _STAGES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None:
            execute = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (execute(module), _patch_stages(module))
        return spec


def _patch_stages(stages):
    base = getattr(stages, "_PipelineStageBase", None)
    if base is None:
        raise _unknown_torch("it has no _PipelineStageBase")
    if getattr(base.__init__, "_longhaul", False):
        return
    original = base.__init__

    @functools.wraps(original)
    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        _tag_operations(self)

    init._longhaul = True
    base.__init__ = init


def _tag_operations(stage):
    """On the object, not the class: a subclass that overrides a method is covered as well."""

    def sends(kind, operations):
        return [(op, kind(_channel(stage.stage_index, stage))) for op in operations]

    def receives(kind, operations, infos):
        # One operation per received tensor, as the stage itself lists them; no source: an argument
        # of the first stage. No buffer: a gradient that does not exist.
        sources = [info.source for info in infos
                   if getattr(info, "source", None) is not None
                   and getattr(info, "buffer", None) is not None]
        if len(sources) != len(operations):
            raise _unknown_torch(f"stage {stage.stage_index} receives {len(operations)} tensors "
                                 f"from {len(sources)} sources")
        return [(op, kind(_channel(source, stage))) for op, source in zip(operations, sources)]

    wrap = functools.partial(_wrap, stage)
    wrap("get_fwd_send_ops", lambda ops, chunk: sends(activation_tag, ops))
    wrap("get_bwd_send_ops", lambda ops, chunk: sends(gradient_tag, ops))
    wrap("get_fwd_recv_ops",
         lambda ops, chunk: receives(activation_tag, ops, stage.args_recv_info[chunk]))
    wrap("get_bwd_recv_ops",
         lambda ops, chunk: receives(gradient_tag, ops, stage.grad_recv_info[chunk]))


def _channel(source, stage):
    return 2 * source + (0 if stage.has_backward else 1)


def _wrap(stage, name, tagged):
    original = getattr(stage, name, None)
    if original is None:
        raise _unknown_torch(f"its stages have no {name}")

    @functools.wraps(original)
    def operations(chunk):
        ops = original(chunk)
        if ops and all(_opted_in(op.group) for op in ops):
            for op, tag in tagged(ops, chunk):
                op.tag = tag
        return ops

    setattr(stage, name, operations)


def _opted_in(group):
    from longhaul.groups import _backend_of

    try:
        return not _backend_of(group).lossless()
    except ValueError:
        return False  # of another backend


def _unknown_torch(what):
    import torch

    return NotImplementedError(
        f"longhaul: torch {torch.__version__}: {what}, so a group cannot know which tensors of a "
        "pipeline are activations and which gradients; use a torch that docs/torch-backend-reference.md lists")
