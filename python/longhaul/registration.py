"""Makes "longhaul" a name that torch.distributed knows.

Registering is pure Python and must not fail: it also runs inside `import torch` (entry point). The
extension module is loaded when the first group is made, so it starts no thread before a fork.
"""

import importlib
import pathlib

from longhaul import environment, inheritance, pipelining, run_log, stores
from longhaul.options import Options

_NAME = "longhaul"


def load_adapter():
    """The extension module for the torch that is running. ImportError says what is there instead."""
    import torch

    major, minor = torch.__version__.split(".")[:2]
    name = f"_backend_torch{major}_{minor}"
    built = sorted(pathlib.Path(__file__).parent.glob("_backend_torch*.so"))
    if not any(file.name.startswith(f"{name}.") for file in built):
        versions = [f.name.split(".")[0].removeprefix("_backend_torch").replace("_", ".") for f in built]
        raise ImportError(
            f"longhaul has no adapter for torch {torch.__version__}; there is one for torch "
            f"{', '.join(versions) or '(none)'}. torch's c10d changes with every minor release: "
            "build longhaul again with this torch (pip install .)"
        )
    return importlib.import_module(f"{__package__}.{name}")


def _create(dist_options, options):
    """What torch.distributed calls for each new group of this backend."""
    adapter = load_adapter()
    if options is None and not dist_options.global_ranks_in_group:  # the default group
        options = environment.options()
    given = options
    if options is None:
        options = inheritance.codecs_for(dist_options.group_id, dist_options.global_ranks_in_group)
    timeout = dist_options.timeout
    if isinstance(options, Options):
        timeout = options.timeout or timeout
        if not options.lossless:
            pipelining.name_kinds_of_stages()
        native = options.native(adapter)
    elif isinstance(options, adapter.Options):
        native = options
    else:
        raise TypeError(
            f"longhaul: pg_options must be longhaul.Options, not {type(options).__name__}"
        )
    if not dist_options.global_ranks_in_group:  # the default group
        stores.watch(dist_options.store, dist_options.group_rank)
    native.timeout = timeout
    native.group_name = dist_options.group_id
    backend = adapter.ProcessGroupLonghaul(
        dist_options.store, dist_options.group_rank, dist_options.group_size, native
    )
    inheritance.note(dist_options.group_id, given)
    run_log.log_on_exit(backend, dist_options.global_ranks_in_group)
    return backend


def register():
    """Registers the backend with torch.distributed, once; does nothing where that is missing."""
    try:
        import torch.distributed as dist

        if dist.is_available() and _NAME not in dist.Backend.backend_list:
            dist.Backend.register_backend(
                _NAME, _create, extended_api=True, devices=["cpu", "cuda"]
            )
    except (ImportError, AttributeError):
        return  # a torch without c10d: init_process_group says so itself
