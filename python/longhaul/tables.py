"""What was found, written once: a table with heads for people and keys for programs, and its renderers.

    table = Table("step times", "arm:arm | step, s:step_s,step_low_s,step_high_s | note")
    table.add("int4", Measured(0.25, Interval(0.24, 0.26, 0.95, "t")), none("no note"))
    text(table), csv_text(csv_rows(table)), json_rows(table), html(table)

Columns are "HEAD:KEY" for both; "HEAD" for people alone; "-:KEY" for programs alone; "HEAD:K,K_LOW,K_HIGH" for a
value with its interval's ends; "HEAD:K[]" for the same in a CSV and one object in JSON. A cell is what people read and
the value that programs get: plain values become cells by themselves, the functions below make the others.
"""

import dataclasses
import html as _html
import json
import math
import re
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Interval:
    low: float
    high: float
    level: float  # 0.95
    method: str  # "t", "fieller"


# What a number says about the quantity: that it is at most the value (an interval reaches from nowhere known up to
# there); or that the quantity may lie below the interval's low end, nobody knows how far.
UPPER, LOW_END = "upper", "low end"


@dataclass(frozen=True)
class Measured:
    """A number and, where the design gives one, its interval. One seed gives none."""

    value: float
    interval: Interval | None = None
    bound: str = ""  # UPPER or LOW_END


@dataclass(frozen=True)
class Cell:
    """What people read, and the value that programs get: None, str, bool, int, float, Measured or a list of int."""

    text: str
    value: object
    tone: str | None = None  # on a page in a coloured frame: "good", "bad", "open" or "plain"


def number(x: float) -> str:
    """The shortest decimal that is x again; of a whole number without a point."""
    x = float(x)
    return repr(x).removesuffix(".0") if math.isfinite(x) else str(x)


def with_interval(x: Measured, digits: int = 4) -> str:
    """"0.9931 [0.9902, 0.9960]"; "0.9931 [-]" without an interval; "<= 0.9931" for a bound, "<= 0.9931 [-]" where that
    bound has no interval behind it; "0.9931 [<= 0.9902, 0.9960]" for a cut low end."""
    i = x.interval
    if x.bound == UPPER:
        return f"<= {x.value:.{digits}f}{'' if i else ' [-]'}"
    if not i:
        return f"{x.value:.{digits}f} [-]"
    sign = "<= " if x.bound == LOW_END else ""
    return f"{x.value:.{digits}f} [{sign}{i.low:.{digits}f}, {i.high:.{digits}f}]"


def cell(value, form=None) -> Cell:
    """A cell of any value. `form`: of a float a str.format string such as "{:.4f} s", of a Measured its digits."""
    if isinstance(value, Cell):
        return value
    if hasattr(value, "item"):  # a number of numpy
        value = value.item()
    if value is None:
        return none()
    if isinstance(value, Measured):
        return Cell(with_interval(value, 4 if form is None else form), value)
    if isinstance(value, bool):
        return Cell(str(int(value)), value)
    if isinstance(value, str):
        return Cell(value, value)
    if isinstance(value, int):
        return Cell(str(value), value)
    return Cell(form.format(float(value)) if form else number(value), float(value))


def none(why: str = "-") -> Cell:
    """No value: empty in a CSV, null in JSON; people read `why`."""
    return Cell(why, None)


def shown(words: str, value) -> Cell:
    """People read `words` in place of the value's own."""
    return Cell(words, value)


def badge(words: str, tone: str) -> Cell:
    return Cell(words, words, tone)


@dataclass(frozen=True)
class Column:
    head: str | None = None  # None: only programs get it
    keys: tuple[str, ...] = ()  # one, or three of a value and its interval's ends; none: only people get it
    one_object: bool = False  # in JSON one member has value, ends, level and method


def columns(text: str) -> list[Column]:
    found = []
    for part in text.split(" | "):
        head, colon, keys = part.rpartition(":")
        if not colon:
            found.append(Column(part))
            continue
        names = tuple(keys.split(","))
        whole = names[0].endswith("[]")
        if whole:
            key = names[0][:-2]
            names = (key, f"{key}_low", f"{key}_high")
        found.append(Column(None if head == "-" else head, names, whole))
    return found


def for_programs(keys: str) -> list[Column]:
    """"arm | role | q,q_low,q_high": columns that people do not see."""
    return [Column(None, tuple(part.split(","))) for part in keys.split(" | ")]


@dataclass
class Table:
    title: str = ""
    columns: list[Column] | str = field(default_factory=list)  # or their text
    rows: list[list[Cell]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # how to read it; a line each

    def __post_init__(self):
        if isinstance(self.columns, str):
            self.columns = columns(self.columns)

    def add(self, *values) -> None:
        self.rows.append([cell(value) for value in values])

    def add_columns(self, more: list[Column] | str) -> None:
        self.columns += columns(more) if isinstance(more, str) else more


# --- a terminal

_NUMERIC = "0123456789+-.<>~["


def _seen(table):
    """What people see, the heads first."""
    rows = [[c.head.replace("\n", " ") for c in table.columns if c.head is not None]]
    for row in table.rows:
        rows.append([one.text for c, one in enumerate(row)
                     if c >= len(table.columns) or table.columns[c].head is not None])
    return rows


def grid_text(table: Table) -> str:
    """Columns as wide as their widest cell, numbers to the right; ends with a newline."""
    rows = _seen(table)
    many = max(map(len, rows))
    widths = [max((len(row[c]) for row in rows if c < len(row)), default=0) for c in range(many)]
    right = [all(row[c][:1] and row[c][0] in _NUMERIC for row in rows[1:] if c < len(row)) for c in range(many)]
    lines = ["  ".join(one.rjust(widths[c]) if right[c] else one.ljust(widths[c]) for c, one in enumerate(row)).rstrip(" ")
             for row in rows]
    lines.insert(1, "-" * (sum(widths) + 2 * (many - 1)))
    return "\n".join(lines) + "\n"


def text(table: Table) -> str:
    """The title, the grid, the notes; "" for a table without rows."""
    if not table.rows:
        return ""
    return f"{table.title}\n{grid_text(table)}" + "".join(f"  {note}\n" for note in table.notes)


def wrapped(words: str, width: int = 100, indent: str = "") -> str:
    """Words in lines of at most `width` bytes; later lines begin with `indent`. Ends with a newline."""
    lines, line = [], ""
    for n, word in enumerate(words.split(" ")):
        if line and len(line.encode()) + 1 + len(word.encode()) > width:
            lines.append(line)
            line = indent + word
        else:
            line += (" " if n else "") + word
    return "\n".join([*lines, line]) + "\n"


# --- programs


def _ends(value, names):
    """Of a Measured its interval where both ends are known; an upper bound's begins nowhere known."""
    return value.interval if names == 3 and isinstance(value, Measured) and value.bound != UPPER else None


def _fields(value, names):
    """A value as the fields of a CSV: numbers at full precision, of a flag 1 or 0, a list's items behind blanks."""
    if value is None or not names:
        return [""] * names
    ends = _ends(value, names)
    if isinstance(value, Measured):
        value = value.value
    if isinstance(value, (list, tuple)):
        first = " ".join(map(str, value))
    else:
        first = value if isinstance(value, str) else str(int(value)) if isinstance(value, int) else number(value)
    return ([first, number(ends.low), number(ends.high)] if ends else [first, "", ""])[:names] + [""] * (names - 3)


def csv_rows(table: Table) -> list[list[str]]:
    """The first row holds the keys."""
    rows = [[key for column in table.columns for key in column.keys]]
    for row in table.rows:
        fields = [one for column, place in zip(table.columns, row) for one in _fields(place.value, len(column.keys))]
        rows.append(fields + [""] * (len(rows[0]) - len(fields)))
    return rows


def csv_text(rows: list[list[str]]) -> str:
    """RFC 4180."""
    def quoted(one):
        return '"' + one.replace('"', '""') + '"' if re.search('[,"\r\n]', one) else one
    return "".join(",".join(map(quoted, row)) + "\n" for row in rows)


def measured_json(x: Measured) -> dict:
    """An interval's ends, level and method are None where there is none."""
    return {"value": x.value, **(dataclasses.asdict(x.interval) if x.interval else
                                 {"low": None, "high": None, "level": None, "method": None})}


def json_rows(table: Table) -> list[dict]:
    """One object a row, by the columns' keys; what has no value is None."""
    out = []
    for row in table.rows:
        one = {}
        for c, column in enumerate(table.columns):
            value, keys = row[c].value if c < len(row) else None, column.keys
            if len(keys) == 1 or column.one_object:
                one[keys[0]] = measured_json(value) if isinstance(value, Measured) else value
            elif keys:
                ends = _ends(value, 3)
                one[keys[0]] = value.value if isinstance(value, Measured) else None
                one[keys[1]], one[keys[2]] = (ends.low, ends.high) if ends else (None, None)
        out.append(one)
    return out


def _finite(value):
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_text(document) -> str:
    """A document as --json prints it: indented by two, null for what is no number, a newline at its end."""
    return json.dumps(_finite(document), indent=2, ensure_ascii=False) + "\n"


# --- a page

_FORMULAE = (("ln eta", "ln &eta;"), ("kappa", "&kappa;"), ("Delta", "&Delta;"), ("^gamma", "<sup>&gamma;</sup>"),
             (" tau", " &tau;"), ("_f", "<sub>f</sub>"), ("_b", "<sub>b</sub>"))
_FORMULA = re.compile("|".join(re.escape(plain) for plain, _ in _FORMULAE))


def escaped(words: str) -> str:
    return _html.escape(words, quote=False).replace('"', "&quot;")


def formulae(words: str) -> str:
    """Escaped, with letters of formulae set as such: "ln eta", "q_f"."""
    return _FORMULA.sub(lambda found: dict(_FORMULAE)[found[0]], escaped(words))


def badge_html(words: str, tone: str) -> str:
    return f'<span class="badge {tone}">{escaped(words)}</span>'


def details_html(summary: str, inside: str) -> str:
    """A block that opens on click."""
    return f"<details><summary>{escaped(summary)}</summary>{inside}</details>\n"


def _looks_numeric(words):
    for sign in ("&le; ", "&ge; "):
        words = words.removeprefix(sign)
    return words[:1] != "" and words[0] in "0123456789+-."


def _lines(words):
    """Each part behind "; " in a line; "a -> b" is not broken."""
    def line(part):
        whole = escaped(part).replace(" -&gt; ", " &rarr; ")
        return f'<span class="nb">{whole}</span>' if " -> " in part else whole
    return "<br>".join(map(line, words.split("; ")))


def cell_html(one: Cell) -> str:
    """A number as with_interval writes it, or with a remark in brackets: what stands behind it in a line of its own."""
    if one.tone:
        return badge_html(one.text, one.tone)
    sign = "<= " if one.text.startswith("<= ") else ""
    first, blank, rest = one.text[len(sign):].partition(" ")
    interval = rest.startswith("[") and rest.endswith("]")
    remark = rest.startswith("(") and rest.endswith(")")
    if not _looks_numeric(first) or not ((not blank and sign) or interval or remark):
        return _lines(one.text)
    behind = "a bound" if not blank else "no interval" if rest == "[-]" else rest[1:-1] if remark else rest
    return (f'{escaped(sign + first)}<br><span class="ci">{escaped(behind)}</span>').replace("&lt;= ", "&le; ")


def rows_html(header: list[str], rows: list[list[str]]) -> str:
    """A table of already escaped cells. Cells that look like numbers are set to the right."""
    right = [bool(rows) and all(_looks_numeric(row[c]) for row in rows if c < len(row)) for c in range(len(header))]
    mark = [' class="n"' if numeric else "" for numeric in right]
    out = ['<div class="scroll"><table><thead><tr>', *(f"<th{mark[c]}>{head}</th>" for c, head in enumerate(header)),
           "</tr></thead><tbody>\n"]
    for row in rows:
        inside = "".join(f"<td{mark[c] if c < len(mark) else ''}>{one}</td>" for c, one in enumerate(row))
        out.append(f"<tr>{inside}</tr>\n")
    return "".join(out) + "</tbody></table></div>\n"


def grid_html(table: Table) -> str:
    """Its rows alone. A line's end in a head is one on the page."""
    header = [formulae(c.head).replace("\n", "<br>") for c in table.columns if c.head is not None]
    rows = [[cell_html(one) for c, one in enumerate(row)
             if c >= len(table.columns) or table.columns[c].head is not None] for row in table.rows]
    return rows_html(header, rows)


def html(table: Table, heading: str = "h3") -> str:
    """The same table as text() writes; "" for a table without rows. `heading`: the title's element."""
    if not table.rows:
        return ""
    notes = "".join(f'<p class="note">{formulae(note)}</p>' for note in table.notes)
    return f"<{heading}>{formulae(table.title)}</{heading}>{notes}{grid_html(table)}"
