"""Which codecs a group takes that is made without pg_options.

Frameworks derive groups from the one that a user has made for the pipeline (one per direction, one
per pair of ranks) and pass no options. Such a group takes the codecs of the smallest group that
opted in to codecs and has all of its ranks; groups among other ranks stay lossless. pg_options win:
longhaul.Options() is lossless.
"""

import dataclasses
import logging

from longhaul.options import Options

_CODEC_FIELDS = ("forward", "backward", "by_tag", "kinds", "min_elements", "collectives",
                 "collective_way", "site_size", "seed", "nmse_every", "ef_slots")
_given = {}  # Options by group name, of groups that opted in by options of their own


def note(name, options):
    """Group `name` was made with `options` (None: it was given none)."""
    _given.pop(name, None)  # names come again after destroy_process_group
    if isinstance(options, Options) and not options.lossless:
        _given[name] = options


def codecs_for(name, ranks):
    """Options of a group of these global ranks (empty: the default group) that was given none.
    ValueError: two groups of equal size that have all the ranks opted in to different codecs."""
    parents = _parents(set(ranks))
    if not parents:
        return Options()
    size = min(len(members) for _, members in parents)
    smallest = [(parent, members) for parent, members in parents if len(members) == size]
    parent, members = smallest[0]
    codecs = _codecs(parent)
    for other, _ in smallest[1:]:
        if _codecs(other) != codecs:
            raise ValueError(
                f"longhaul: group '{name}' of ranks {list(ranks)} was given no options, and groups "
                f"'{parent}' and '{other}' have these ranks with different codecs; pass pg_options: "
                "one of theirs, or longhaul.Options() for a lossless group"
            )
    places = [members[rank] for rank in ranks]
    if len(places) < size or places != sorted(places):
        codecs["kinds"] = "tags"  # the order of ranks says nothing here, and nothing of sites
        codecs["site_size"] = 1
    logging.getLogger("longhaul").info(
        "group '%s' takes the codecs of group '%s': forward %s, backward %s",
        name, parent, codecs["forward"], codecs["backward"])
    return dataclasses.replace(Options(), **codecs)


def _codecs(name):
    return {field: getattr(_given[name], field) for field in _CODEC_FIELDS}


def _parents(ranks):
    """(name, group rank by global rank) of living groups that opted in and have all of `ranks`."""
    from torch.distributed import distributed_c10d

    living = distributed_c10d._world.pg_group_ranks.items()
    return [(group.group_name, members) for group, members in living
            if ranks and ranks <= members.keys() and group.group_name in _given]
