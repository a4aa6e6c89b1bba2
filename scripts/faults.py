#!/usr/bin/env python3
"""Draws one-line faults, puts each into a copy of HEAD and tells which ones the tests detect.

A fault is one change in one line of a product source: a comparison flipped, an off-by-one, an operator
or a minimum swapped, a condition negated, a statement removed, a constant changed. The seed fixes what
is drawn. A fault that does not compile is dropped and the next one drawn in its place. Tests run nearest
first: those named like the file, then those of its folder, then (--all) everything else; the first one
that fails ends the fault. Results are kept in build/faults until code outside docs/ changes.
Usage: faults.py [FOLDER...] [--faults N] [--seed S] [--all] [--table FILE]     (make test-drawn-faults)
       faults.py [FOLDER...] --list        prints what would be tried first, and builds nothing
"""
import argparse
import ast
import functools
import hashlib
import json
import math
import os
import pathlib
import random
import re
import sys

import mutations as copies

FOLDERS = ["compressors", "netem", "plugin", "pp_group", "experiments", "python"]
# Names of ctest entries that belong to a folder, where they differ from "FOLDER_".
PREFIXES = {"plugin": "plugin_|backend_", "pp_group": "pp_",
            "python": "python_|approval_|experiments_.*(page|json|price)"}
TEST_LIMIT_S = 300

FLIPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
SWAPS = {"+": "-", "-": "+", "*": "/", "/": "*", "+=": "-=", "-=": "+=", "&&": "||", "||": "&&",
         "std::min": "std::max", "std::max": "std::min", "++": "--", "--": "++"}
# (kind, what it finds in a line whose strings and comments are blank, what stands there instead). clang-format puts
# spaces around binary operators and none inside of <> or beside the * and & of a type.
CPP = [
    ("comparison", r"(?<= )(<=|>=|==|!=|<|>)(?= )", lambda m: FLIPS[m[0]]),
    ("operator", r"(?<= )(\+=|-=|\+|-|\*|/|&&|\|\|)(?= )|(?<![\w)\]])(\+\+|--)(?=\w)|std::(min|max)\b(?=\()",
     lambda m: SWAPS[m[0]]),
    ("condition", r"(?<=\bif \().+(?=\) (?:\{|return\b|continue;|break;))", lambda m: f"!({m[0]})"),
    ("constant", r"(?<![\w.'])\d+(?![\w.'])", lambda m: str(int(m[0], 8 if m[0][0] == "0" else 10) + 1)),
    ("constant", r"(?<![\w.'])\d+\.\d+(?![\w'])", lambda m: str(float(m[0]) * 2 or 1.0)),
    ("statement", r"(?<=  )(?!return\b|delete\b|else\b|using\b|case\b)[a-z_][\w.:>\[\]-]*(\(.*\)| [+*|&-]?= .*);$",
     lambda m: ";"),
]
CODE = r"^ +(?!static_assert|using |template|typedef |friend |//|public:|private:|[\w:<>, ]+\(.*\)( const)?( override)? = )"
BLANK = re.compile(r'R"(\w*)\([\s\S]*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*[\s\S]*?\*/'
                   r"|(?m:^ *#.*(?:\\\n.*)*)")


def blanked(text):
    """C++ with every comment, literal and directive as spaces, so that columns stay."""
    return BLANK.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def cpp_faults(text):
    """(kind, line from 0, the line's new text). Constants of a declaration in a header are none of them."""
    lines, before = text.split("\n"), "{"
    for at, bare in enumerate(blanked(text).split("\n")):
        code = bare.rstrip()
        starts = before.endswith((";", "{", "}", ":"))
        if re.match(CODE, code) and code.count("(") == code.count(")"):
            for kind, found, new in CPP:
                for m in re.finditer(found, code):
                    whole = lines[at][m.start():m.end()]
                    if kind == "statement" and not starts or kind == "constant" and re.match(r" +constexpr .*\[", code):
                        continue
                    put = f"!({whole})" if kind == "condition" else new(m)
                    yield kind, at, lines[at][:m.start()] + put + lines[at][m.end():]
        before = code or before


PY_COMPARES = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
PY_SWAPS = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
            ast.And: ("and", "or"), ast.Or: ("or", "and")}


def python_faults(text):
    lines = text.split("\n")

    def put(node, new):
        """The line with NODE's text replaced, "%s" by itself; columns of ast count bytes."""
        raw = lines[node.lineno - 1].encode()
        new = new.replace("%s", raw[node.col_offset:node.end_col_offset].decode())
        return (raw[:node.col_offset] + new.encode() + raw[node.end_col_offset:]).decode()

    def between(left, right, old, new):
        raw = lines[left.lineno - 1].encode()
        gap = raw[left.end_col_offset:right.col_offset].decode().replace(old, new, 1)
        return (raw[:left.end_col_offset] + gap.encode() + raw[right.col_offset:]).decode()

    for node in ast.walk(ast.parse(text)):
        if getattr(node, "lineno", 0) != getattr(node, "end_lineno", 1) and not isinstance(node, ast.If):
            continue
        at = getattr(node, "lineno", 1) - 1
        if isinstance(node, ast.Compare) and type(node.ops[0]) in PY_COMPARES:
            new = PY_COMPARES[type(node.ops[0])]
            old = {v: k for k, v in FLIPS.items()}[new]
            yield "comparison", at, between(node.left, node.comparators[0], old, new)
        elif isinstance(node, ast.BinOp) and type(node.op) in PY_SWAPS and "Str" not in ast.dump(node):
            yield "operator", at, between(node.left, node.right, *PY_SWAPS[type(node.op)])
        elif isinstance(node, ast.BoolOp):
            yield "operator", at, between(node.values[0], node.values[1], *PY_SWAPS[type(node.op)])
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("min", "max"):
            yield "operator", at, put(node.func, {"min": "max", "max": "min"}[node.func.id])
        elif isinstance(node, ast.If) and node.test.lineno == node.test.end_lineno:
            yield "condition", node.test.lineno - 1, put(node.test, "not (%s)")
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield "constant", at, put(node, str(node.value + 1 if isinstance(node.value, int) else node.value * 2 or 1.0))
        elif isinstance(node, ast.AugAssign) or isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield "statement", at, put(node, "pass")


@functools.cache
def faults_of(folder):
    """kind -> every fault of a folder's sources. What needs a GPU is no part of them."""
    kinds = {}
    for path in sorted((copies.TOP / folder).rglob("*")):
        find = {".cc": cpp_faults, ".h": cpp_faults, ".py": python_faults}.get(path.suffix)
        if find and not {"cuda", "results"} & set(path.parts):
            text = path.read_text()
            lines = text.split("\n")
            for kind, at, line in find(text):
                kinds.setdefault(kind, []).append({
                    "folder": folder, "kind": kind, "file": str(path.relative_to(copies.TOP)), "line": at + 1,
                    "was": lines[at], "is": line})
    return kinds


def draw(folder, seed):
    """Faults of a folder in the order in which they are tried; kinds are equally likely, a line comes once."""
    rng, lines = random.Random(f"{seed} {folder}"), set()
    kinds = {kind: list(rows) for kind, rows in faults_of(folder).items()}
    while kinds:
        kind = rng.choice(sorted(kinds))
        fault = kinds[kind].pop(rng.randrange(len(kinds[kind])))
        if not kinds[kind]:
            del kinds[kind]
        if (fault["file"], fault["line"]) not in lines:
            lines.add((fault["file"], fault["line"]))
            yield fault


def circles(fault, tests, everything):
    """Names of tests in three circles around a fault; a test stands in the first one that has it."""
    stem = re.sub(r"_test$", "", pathlib.Path(fault["file"]).stem)
    left, rings = list(tests), [stem, f"^({PREFIXES.get(fault['folder'], fault['folder'] + '_')})"]
    for ring in rings + (["^(?!fuzz|bench_|architecture)"] if everything else []):
        near = [name for name in left if re.search(ring, name)]
        left = [name for name in left if name not in near]
        if near:
            yield near


def judge(fault, tests, known, everything):
    """("detected" | "survived" | "unbuilt", the test that failed or the compiler's words)"""
    path = copies.TREE / fault["file"]
    sound = path.read_text()
    lines = sound.split("\n")
    lines[fault["line"] - 1] = fault["is"]
    try:
        path.write_text("\n".join(lines))
        for near in circles(fault, tests, everything):
            targets = sorted({target for name in near for target in copies.targets_of(name, known)})
            status, output = copies.run(["cmake", "--build", "build", "--target", *targets], copies.BUILD_LIMIT_S,
                                        cwd=copies.TREE)
            if status:
                return "unbuilt", output[-800:]
            status, output = copies.run(
                ["ctest", "--test-dir", "build", "-R", f"^({'|'.join(map(re.escape, near))})$", "--stop-on-failure",
                 "-j", str(os.cpu_count()), "--timeout", str(TEST_LIMIT_S)], cwd=copies.TREE,
                env={**os.environ, "GTEST_FAIL_FAST": "1"})
            if status:
                return "detected", " ".join(re.findall(r"\d+ - (\S+) \((?!Skipped)", output)) or output[-300:]
        return "survived", ""
    finally:
        path.write_text(sound)


def interval(hits, n, z=1.96):
    """Wilson's interval of a share."""
    share, half = (hits + z * z / 2) / (n + z * z), z / (n + z * z) * math.sqrt(hits * (n - hits) / n + z * z / 4)
    return f"{100 * hits / n:.0f} % [{100 * (share - half):.0f}, {100 * (share + half):.0f}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", default=FOLDERS, metavar="FOLDER")
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--table")
    options = parser.parse_args()
    if wrong := [folder for folder in options.folders if not (copies.TOP / folder).is_dir()]:
        parser.error(f"no such folder: {' '.join(wrong)}")
    shares = {f: options.faults // len(options.folders) + (i < options.faults % len(options.folders))
              for i, f in enumerate(options.folders)}
    if options.list:
        for folder, n in shares.items():
            for fault, _ in zip(draw(folder, options.seed), range(n)):
                print(f"{fault['file']}:{fault['line']}: {fault['kind']}\n  - {fault['was'].strip()}\n  + {fault['is'].strip()}")
        return
    code = copies.prepare_tree(copies.TOP / "build" / "faults")
    listing = copies.must(["ninja", "-C", "build", "-t", "targets", "all"], cwd=copies.TREE)
    known = set(re.findall(r"(?m)^(\w+): phony", listing))
    tests = re.findall(r"(?m)^ *Test +#\d+: (\S+)", copies.must(["ctest", "--test-dir", "build", "-N"], cwd=copies.TREE))
    rows = []
    for folder, n in shares.items():
        drawn, tried = draw(folder, options.seed), 0
        while tried < n and (fault := next(drawn, None)):
            key = hashlib.sha256((code + json.dumps(fault) + str(options.all)).encode()).hexdigest()[:16]
            kept = copies.WORK / "results" / f"{key}.json"
            if not kept.exists():
                verdict, by = judge(fault, tests, known, options.all)
                kept.parent.mkdir(exist_ok=True)
                kept.write_text(json.dumps({**fault, "verdict": verdict, "by": by}))
            row = json.loads(kept.read_text())
            if row["verdict"] != "unbuilt":
                tried += 1
                rows.append(row)
                print(f"{row['file']}:{row['line']}: {row['kind']}: {row['verdict']} {row['by']}", flush=True)
    report = ["| folder | drawn | detected | share [95 %] |", "|---|---|---|---|"]
    for name in [*options.folders, "all"]:
        of = [row for row in rows if name in ("all", row["folder"])]
        hits = sum(row["verdict"] == "detected" for row in of)
        report += [f"| {name} | {len(of)} | {hits} | {interval(hits, len(of))} |"] if of else []
    report += [f"\n`{row['file']}:{row['line']}` survived:\n```diff\n-{row['was']}\n+{row['is']}\n```"
               for row in rows if row["verdict"] == "survived"]
    print("\n".join(report))
    if options.table:
        pathlib.Path(options.table).write_text("\n".join(report) + "\n")


if __name__ == "__main__":
    sys.exit(main())
