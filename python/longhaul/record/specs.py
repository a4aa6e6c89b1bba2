"""Specs and plans as the record keeps them: every key resolved, one a line."""

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

ARM = "\n[[arm]]\n"  # names in a plan are quoted, so a line of its own is a header


def tree(text: str) -> dict | None:
    """A spec's tables; None where it is none that can be read."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def value(spec: dict | None, key: str, default=None):
    """What a dotted key says: value(spec, "train.steps")."""
    for name in key.split("."):
        if not isinstance(spec, dict) or name not in spec:
            return default
        spec = spec[name]
    return spec


def planned_runs(plan_text: str) -> int:
    """Arms times seeds of a campaign's plan, which was written down before the first run; 0: it cannot be read."""
    head, *arms = plan_text.split(ARM)
    seeds = value(tree(head), "plan.seeds")
    return len(arms) * len(seeds) if isinstance(seeds, list) else 0
