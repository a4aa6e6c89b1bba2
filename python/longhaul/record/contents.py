"""What the files held that specs name: a value alone says where they lie, and files change."""

from dataclasses import dataclass

from longhaul.record.rows import NAMED_FILES, Run


@dataclass(frozen=True)
class FileContent:
    key: str  # "data.source"
    value: str  # as the spec has it
    sha256: str
    bytes: int = 0
    files: int = 0


def read_contents(text: str) -> list[FileContent]:
    """Lines "KEY SHA256 BYTES FILES VALUE". Lines that are none are left out: an older record has none."""
    found = []
    for line in text.split("\n"):
        words = line.split(" ", 4)
        if len(words) >= 4 and words[2].isascii() and words[2].isdigit() and words[3].isascii() and words[3].isdigit():
            found.append(FileContent(words[0], words[4] if len(words) > 4 else "", words[1], int(words[2]), int(words[3])))
    return found


def short(sha256: str) -> str:
    """As much of a hash as a message shows."""
    return sha256[:16]


def content_conflict(there: list[FileContent], here: list[FileContent]) -> str:
    """Where both know a key of the same value and its files held something else; else ""."""
    for before in there:
        for now in here:
            if (before.key, before.value) == (now.key, now.value) and before.sha256 != now.sha256:
                value = f" ({now.value})" if now.value else ""
                return f"{now.key}{value}: SHA-256 {short(before.sha256)} there, {short(now.sha256)} here"
    return ""


def _line_of(spec_toml, key):
    """What a key says in a resolved spec, which has one key a line; "": nothing."""
    _, start, rest = spec_toml.partition(f"\n{key} = ")
    return rest.partition("\n")[0] if start else ""


def contents_of(run: Run) -> list[FileContent]:
    """All that a record knows of what a run's files held: its named files, and the hashes that its workers told."""
    data = _line_of(run.spec_toml, "source") + _line_of(run.spec_toml, "eval")
    told = (("data_hash", data), ("eval_hash", data), ("init_hash", _line_of(run.spec_toml, "init")))
    return read_contents(run.facts.get(NAMED_FILES, "")) + [
        FileContent(key, value, run.facts[key]) for key, value in told if run.facts.get(key)]


def mixed_contents(runs: list[Run]) -> str:
    """Of runs whose figures count (ended ok or diverged): where one value of one key held different things, which
    key, both hashes and in how many runs each; else "". No figure may be made of such runs together."""
    seen: dict[tuple[str, str], dict[str, int]] = {}
    for run in runs:
        if run.status in ("ok", "diverged"):
            for c in contents_of(run):
                counts = seen.setdefault((c.key, c.value), {})
                counts[c.sha256] = counts.get(c.sha256, 0) + 1
    for (key, value), counts in seen.items():
        if len(counts) > 1:
            told = (f"SHA-256 {short(one)} in {n} run{'' if n == 1 else 's'}" for one, n in sorted(counts.items()))
            return f"{key} ({value}): {', '.join(told)}"
    return ""
