"""The entry point of group torch.backends: `import torch` loads and calls it, once it is done itself.

A module of its own, because `import longhaul` imports torch: the entry point then runs while the
package is half imported, and may use nothing that longhaul/__init__.py defines. What it raises would
break `import torch` for every program of the environment, so it warns instead.
"""


def register():
    try:
        from longhaul import registration

        registration.register()
    except Exception as error:
        import warnings

        warnings.warn(f"the backend 'longhaul' is not registered: {type(error).__name__}: {error}; "
                      "TORCH_DEVICE_BACKEND_AUTOLOAD=0 leaves it out", RuntimeWarning, stacklevel=2)
