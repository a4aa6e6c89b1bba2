"""lh.price: the boundaries of any torch.nn.Module that has a list of blocks, as `longhaul price` prices its own models.

Between two blocks the hidden states are encoded to a frame and decoded from it, a frame a row, with the engine's seeds;
rows of the text are the engine's, and so are the estimators. What lies before an arm's first crossing is computed once
for all arms, from the row that was not compressed.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from longhaul import coding
from longhaul.pricing import report
from longhaul.pricing.findings import Count, Seen
from longhaul.pricing.plan import (ALLOWED_NAT, CONTEXT, LEAST_ROWS, ROWS, Request, arms_of, equal_cuts, fold_seed,
                                   window_of)
from longhaul.refusal import need
from longhaul.tables import csv_rows, html

if TYPE_CHECKING:
    import pandas
    import torch

_HEADERS = {(20240520, 1): "<u2", (20240801, 7): "<u4"}  # of token files: longhaul.importing.tokens


class Prices(report.Pricing):
    """What price() found. print() shows the tables; each is a data frame with units in its columns' names."""

    def _frame(self, make) -> pandas.DataFrame:
        pandas = need("pandas", "a data frame")
        keys, *rows = csv_rows(make(self))
        frame = pandas.DataFrame(rows, columns=keys)
        for key in frame.columns:
            with contextlib.suppress(ValueError, TypeError):
                frame[key] = pandas.to_numeric(frame[key])
        return frame.dropna(axis=1, how="all")

    @property
    def depths(self) -> pandas.DataFrame:
        """All boundaries of S stages compressed: Delta, of a crossing, of each alone added, together less added."""
        return self._frame(report.depths)

    @property
    def boundaries(self) -> pandas.DataFrame:
        """Each boundary alone: bits, error and Delta."""
        return self._frame(report.boundaries)

    @property
    def allowed(self) -> pandas.DataFrame:
        """Losses, the fewest bits that are shown to keep each and the most that are shown to miss it."""
        return self._frame(report.allowed)

    @property
    def rows(self) -> pandas.DataFrame:
        """Every row's loss, compressed and not."""
        pandas = need("pandas", "a data frame")
        return pandas.DataFrame(report.rows(self), columns=report.ROW_KEYS).dropna(axis=1, how="all")

    def to_json(self) -> str:
        """The document of `longhaul price --json`, longhaul.price/1."""
        return report.pricing_json(self)

    def __str__(self) -> str:
        return report.pricing_text(self)

    def _repr_html_(self) -> str:
        return "".join(html(table) for table in report.tables(self))

    __repr__ = __str__


def price(model: torch.nn.Module, tokens: Any, codec: str | Sequence[str] = "int4-b64-h64",
          stages: Sequence[int] | int | None = None, *, cuts: Sequence[Sequence[int]] = (), blocks: Any = None,
          rows: int | None = None, context: int | None = None, allow: Sequence[float] = ALLOWED_NAT,
          seed: int = 1) -> Prices:
    """What compressed boundaries between pipeline stages cost a causal language model, in nat per token: paired by rows
    of text, with intervals. Nothing is trained, and the model is as it was afterwards.

    Args:
        model: Called as model(ids [1, T]) it returns logits [1, T, V], or something that has `.logits`: a causal model
            of Hugging Face as it is, or your own module.
        tokens: Ids to evaluate on, one after the other (list, array or tensor), or the path of a token file as
            `longhaul import` writes them.
        codec: Name of a codec, or several: longhaul.codecs() lists them.
        stages: Numbers of equal stages; 2, 4 and 8 as far as the model has blocks.
        cuts: Blocks with which stages 1, 2, ... begin, as (7, 15, 22).
        blocks: The blocks in their order: an nn.ModuleList, a list of modules, or its name in the model
            ("model.layers"). Without it the longest nn.ModuleList (or Sequential) of modules of one class.
        rows: Rows of text to price on; 32, or what the text has.
        context: Tokens of a row, T; 512, or the model's `config.max_position_embeddings` where that is less.
        allow: Losses to name the bits for, nat per token.
        seed: Of codecs that draw.

    Raises:
        ValueError: In one line what does not fit, and what to do.
    """
    import torch

    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"longhaul.price: model must be a torch.nn.Module, not {type(model).__name__}")
    codecs = (codec,) if isinstance(codec, str) else tuple(codec)
    _check_codecs(codecs)
    every = _blocks(model, blocks)
    where = _cuts(stages, cuts, len(every))
    ids = _ids(tokens)
    config = getattr(model, "config", None)
    longest = min(getattr(config, "max_position_embeddings", None) or CONTEXT, CONTEXT)
    context = longest if context is None else context
    if context < 1:
        raise ValueError(f"longhaul.price: context {context}: want 1 or more tokens")
    there = (len(ids) - 1) // context
    rows = max(LEAST_ROWS, min(ROWS, there)) if rows is None else rows
    if rows < LEAST_ROWS:
        raise ValueError(f"longhaul.price: rows {rows}: an interval wants {LEAST_ROWS} or more")
    if rows > there:
        raise ValueError(f"longhaul.price: {len(ids)} tokens are {there} rows of {context}: want {rows}; give a longer "
                         "text, fewer rows or a shorter context")
    if not all(math.isfinite(nat) and nat > 0 for nat in allow):
        raise ValueError(f"longhaul.price: allow {list(allow)}: want numbers of nat above 0")
    request = Request(codecs, where, len(every), rows, tuple(map(float, allow)))
    with _evaluating(model), _Blocks(every) as passing:
        vocab = _probe(model, passing, context, ids)
        seen = _evaluate(model, passing, request, ids, context, seed)
    parameters = sum(one.numel() for one in model.parameters())
    name = type(model).__name__
    conditions = {"model": name, "blocks": len(every), "vocab": vocab, "parameters": parameters,
                  "tokens_in_text": len(ids), "rows_in_text": there, "rows": rows, "context_tokens": context,
                  "seed": seed, "torch": torch.__version__, "device": str(_device(model)), "interval_over": "rows"}
    head = [f"model: {name} of {len(every)} blocks, {parameters / 1e6:.4g} M parameters",
            f"text: {len(ids)} tokens; {rows} rows of {context} tokens each, drawn from all {there} of the text; "
            "intervals are 95 %, t over rows",
            f"computed by: torch {torch.__version__} on {_device(model)}"]
    return Prices(request, seen, conditions, head, [])


def _check_codecs(codecs):
    import torch

    if not codecs:
        raise ValueError("longhaul.price: no codec; longhaul.codecs() lists them")
    for name in codecs:
        if codecs.count(name) > 1:
            raise ValueError(f"longhaul.price: codec {name!r} is given twice")
        coding.encode(torch.zeros(64, 64), name)  # ValueError: with the nearest names
        if coding.keeps_state(name):
            raise ValueError(f"longhaul.price: codec {name!r} keeps a state from tensor to tensor, and every row is "
                             "sent as if it came first; want a codec without one")


def _lists(module):
    """Lists of two or more modules of one class, but for those within another's (a block's experts)."""
    import torch

    for child in module.children():
        many = isinstance(child, (torch.nn.ModuleList, torch.nn.Sequential)) and len(child) > 1
        if many and len({type(block) for block in child}) == 1:
            yield child
        else:
            yield from _lists(child)


def _blocks(model, named):
    """The blocks as a list of two or more modules."""
    import torch

    if isinstance(named, str):
        found = model
        for part in named.split("."):
            found = getattr(found, part, None)
        if found is None:
            raise ValueError(f"longhaul.price: blocks {named!r}: the model has no such attribute; want the name of its "
                             "nn.ModuleList of blocks")
    elif named is not None:
        found = named
    else:
        found = max(_lists(model), key=len, default=None)
        if found is None:
            raise ValueError(f"longhaul.price: {type(model).__name__} has no nn.ModuleList of two or more blocks of "
                             "one class; name them with blocks=, as a list of modules or the attribute's name")
    try:
        every = list(found)
    except TypeError:
        every = [None]
    if not all(isinstance(one, torch.nn.Module) for one in every):
        raise ValueError(f"longhaul.price: blocks {named!r}: want modules in their order, as an nn.ModuleList")
    if len(every) < 2:
        raise ValueError(f"longhaul.price: {len(every)} block: no boundary lies within it; want two or more")
    return every


def _cuts(stages, cuts, blocks):
    """Each way to cut once, in the order given."""
    given = [stages] if isinstance(stages, int) else stages
    if given is None:
        given = [] if cuts else [many for many in (2, 4, 8) if many <= blocks]
    out = []
    for many in given:
        if isinstance(many, bool) or not isinstance(many, int) or not 2 <= many <= blocks:
            raise ValueError(f"longhaul.price: stages {many!r}: want 2 to {blocks}, the blocks that the model has")
        out.append(equal_cuts(blocks, many))
    for one in cuts:
        one = tuple(one)
        if not one or list(one) != sorted(set(one)) or one[0] < 1 or one[-1] >= blocks:
            raise ValueError(f"longhaul.price: cuts {one}: want ascending blocks from 1 to {blocks - 1}, with which "
                             "stages 1, 2, ... begin")
        out.append(one)
    if not out:
        raise ValueError("longhaul.price: no stages and no cuts are given")
    return tuple(dict.fromkeys(out))


def _ids(tokens):
    """Ids as int64, one after the other."""
    if isinstance(tokens, (str, os.PathLike)):
        path = os.fspath(tokens)
        try:
            header = np.fromfile(path, "<i4", 256)
            kind = _HEADERS.get(tuple(header[:2].tolist()))
            if kind is None:
                raise ValueError(f"longhaul.price: {path} is no token file: want one that `longhaul import` writes, "
                                 "or ids")
            return np.fromfile(path, kind, offset=1024).astype(np.int64)
        except OSError as error:
            raise ValueError(f"longhaul.price: read {path}: {error.strerror or error}") from error
    if hasattr(tokens, "detach"):
        tokens = tokens.detach().cpu().numpy()
    ids = np.asarray(tokens)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise ValueError(f"longhaul.price: tokens of shape {list(ids.shape)}, {ids.dtype}: want ids of a text one "
                         "after the other, whole numbers in one dimension")
    return ids.astype(np.int64)


def _device(model):
    import torch

    return next((one.device for one in model.parameters()), torch.device("cpu"))


@contextlib.contextmanager
def _evaluating(model):
    """In eval() and without gradients; each module's mode is as it was afterwards."""
    import torch

    modes = [(one, one.training) for one in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for one, mode in modes:
            one.training = mode


def _copy(out):
    """Of what a block returns, which the next may write over."""
    import torch

    if isinstance(out, torch.Tensor):
        return out.clone()
    return tuple(map(_copy, out)) if type(out) is tuple else out


class _Blocks:
    """The blocks with what happens before each; within `with`, calls of them come here."""

    def __init__(self, blocks):
        self.blocks = blocks
        self.called = []  # blocks of this pass
        self.kept = {}  # by block, what it returned in the pass that nothing compressed
        self.arm = {}  # block -> function of the hidden states that enter it
        self.first = 0  # blocks before it return what is kept

    def __enter__(self):
        # Behind hooks of the module's owner, and where a block need not compute at all.
        self.own = ["forward" in vars(block) for block in self.blocks]
        self.forwards = [block.forward for block in self.blocks]
        for number, block in enumerate(self.blocks):
            block.forward = self._standing_in(number)
        return self

    def __exit__(self, *error):
        for block, own, forward in zip(self.blocks, self.own, self.forwards):
            if own:
                block.forward = forward
            else:
                del block.forward

    def _standing_in(self, number):
        forward = self.forwards[number]

        def stand_in(*words, **named):
            self.called.append(number)
            if number < self.first:
                return self.kept[number]
            if number in self.arm:
                words, named = self._replaced(number, words, named)
            out = forward(*words, **named)
            if not self.arm:
                self.kept[number] = _copy(out)
            return out

        return stand_in

    def _replaced(self, number, words, named):
        """The arguments with what a receiver has of the hidden states: the first tensor among them."""
        import torch

        if words and isinstance(words[0], torch.Tensor):
            return (self.arm[number](words[0]), *words[1:]), named
        for key in ("hidden_states", *named):
            if isinstance(named.get(key), torch.Tensor):
                return words, {**named, key: self.arm[number](named[key])}
        raise ValueError(f"longhaul.price: block {number} is called without a tensor of hidden states; name others "
                         "with blocks=")

    def run(self, model, ids, arm=()):
        """Logits [T, V] of one row; `arm`: by block, what its hidden states become."""
        import torch

        self.called, self.arm = [], dict(arm)
        self.first = min(self.arm, default=0)
        named = {"use_cache": False} if hasattr(getattr(model, "config", None), "use_cache") else {}
        out = model(torch.as_tensor(ids, device=_device(model))[None], **named)
        if self.called != list(range(len(self.blocks))):
            raise ValueError(f"longhaul.price: a pass calls the blocks in the order {self.called[:12]}, not each once "
                             "from first to last; name others with blocks=")
        logits = getattr(out, "logits", out[0] if isinstance(out, tuple) else out)
        if not isinstance(logits, torch.Tensor) or logits.dim() != 3 or logits.shape[:2] != (1, len(ids)):
            what = list(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
            raise ValueError(f"longhaul.price: the model returns {what} for ids [1, {len(ids)}]: want logits "
                             f"[1, {len(ids)}, V], or .logits")
        return logits[0]


def _probe(model, passing, context, ids):
    """The vocabulary that the model has logits for, by a row of the id 0: nothing else needs to be known of it."""
    try:
        vocab = passing.run(model, np.zeros(context, np.int64)).shape[-1]
    except IndexError as error:
        raise ValueError(f"longhaul.price: the model takes no row of {context} tokens ({error}); give a shorter "
                         "context=") from error
    wrong = (ids < 0) | (ids >= vocab)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"longhaul.price: token {at} is {ids[at]}, and the model has logits for {vocab} ids: want "
                         "tokens of the model's own tokenizer")
    return vocab


def _loss(logits, targets):
    """Mean over the row, nat per token."""
    import torch

    each = torch.nn.functional.cross_entropy(logits.float(), torch.as_tensor(targets, device=logits.device),
                                             reduction="none")
    loss = float(each.double().mean())
    if not math.isfinite(loss):
        raise ValueError(f"longhaul.price: the loss of a row is {loss}: weights or activations are out of "
                         f"{logits.dtype}'s range")
    return loss


def _evaluate(model, passing, request, ids, context, seed):
    arms, windows, forward = arms_of(request), [], {}
    losses = {arm: np.empty(request.rows) for arm in arms}
    there = (len(ids) - 1) // context
    for row in range(request.rows):
        windows.append(window_of(row, there))
        at = windows[-1] * context
        inputs, targets = ids[at:at + context], ids[at + 1:at + context + 1]
        key = fold_seed(seed, row)
        for arm in arms:  # the first compresses nothing
            counts = forward if len(arm) == 1 else None  # each crossing is an arm by itself too
            crossings = {block: _crossing(request, (block, codec), key, counts) for block, codec in arm}
            losses[arm][row] = _loss(passing.run(model, inputs, crossings), targets)
        passing.kept.clear()
    return Seen(windows, losses, forward)


def _crossing(request, crossing, key, counts):
    """What a receiver has of the hidden states x; `counts`: where its bits and error are added."""
    block, codec = crossing

    def cross(x):
        name = request.codecs[codec]
        try:
            frame = coding.encode(x, name, fold_seed(key, block, 0))
        except ValueError as error:
            raise ValueError(f"longhaul.price: before block {block}, {error}") from error
        received = coding.decode(frame).reshape(x.shape).to(x.device)
        if counts is not None:
            error, norm = ((one * one).sum(-1).flatten() for one in (x.double() - received.double(), x.double()))
            there = norm > 0
            counts.setdefault(crossing, Count()).add(
                Count(8.0 * frame.numel(), x.numel(), float(error.sum()), float(norm.sum()),
                      float((error[there] / norm[there]).sum()), norm.numel()))
        return received

    return cross
