#include "experiments/report/html.h"

#include <fmt/format.h>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace longhaul {
namespace {

constexpr char kStyle[] = R"css(
:root { --ink: #1d2733; --soft: #5b6875; --line: #dfe4ea; --paper: #ffffff; --wash: #f5f7f9;
  --accent: #12507b; --good: #1a7f4b; --bad: #b3261e; --open: #9a6a00; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--wash); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 2.5rem 1.5rem 5rem; }
header h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em; }
header p { margin: .2rem 0; color: var(--soft); }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 10px;
  padding: 1.6rem 1.8rem; margin: 1.8rem 0; }
h2 { font-size: 1.35rem; margin: 0 0 .3rem; letter-spacing: -.01em; }
h3 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
.question { color: var(--soft); margin: 0 0 1rem; }
.first { border-left: 4px solid var(--accent); background: #eef4f9; padding: .7rem 1rem;
  margin: 1rem 0; border-radius: 0 6px 6px 0; font-weight: 500; }
.conditions, figcaption, .note { color: var(--soft); font-size: .86rem; }
.cards { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1.2rem 0; }
.card { flex: 1 1 15rem; border: 1px solid var(--line); border-radius: 8px; padding: .9rem 1.1rem; }
.card b { display: block; font-size: 1.6rem; line-height: 1.25; font-weight: 600;
  font-variant-numeric: tabular-nums; }
.card > span { color: var(--soft); font-size: .86rem; } .card .badge { margin-top: .4rem; }
.card .finding { font-size: 1.1rem; line-height: 1.35; margin: .3rem 0; font-weight: 600; }
.card .finding.bad { color: var(--bad); }
/* A shadow at each edge behind which a table goes on; the covers hide it where it ends. */
.scroll { overflow-x: auto; max-width: 100%;
  background: linear-gradient(to right, var(--paper) 40%, transparent) 0 0 / 40px 100% no-repeat local,
    linear-gradient(to left, var(--paper) 40%, transparent) 100% 0 / 40px 100% no-repeat local,
    linear-gradient(to right, #00000038, transparent) 0 0 / 14px 100% no-repeat scroll,
    linear-gradient(to left, #00000038, transparent) 100% 0 / 14px 100% no-repeat scroll; }
table { border-collapse: collapse; width: 100%; font-size: .875rem;
  font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--soft); border-bottom: 2px solid var(--line);
  padding: .4rem .7rem .4rem 0; vertical-align: bottom; }
td { border-bottom: 1px solid var(--line); padding: .4rem .7rem .4rem 0; vertical-align: top; }
.pages button { border: 1px solid var(--line); background: var(--wash); border-radius: 6px; padding: .1rem .7rem; }
.pages input { border: 1px solid var(--line); border-radius: 6px; padding: .15rem .5rem; margin-right: .8rem; }
td.n, th.n { text-align: right; white-space: nowrap; }
tr:last-child td { border-bottom: 0; }
.badge { display: inline-block; padding: 0 .5rem; border-radius: 1rem; font-size: .8rem;
  white-space: nowrap; border: 1px solid currentColor; }
.badge.good { color: var(--good); } .badge.bad { color: var(--bad); }
.badge.open, .note.open { color: var(--open); } .badge.plain { color: var(--soft); }
.ci { color: var(--soft); font-size: .8rem; white-space: nowrap; } .nb { white-space: nowrap; }
figure { margin: 1.2rem 0 1.8rem; max-width: 60rem; } figure svg { width: 100%; height: auto; display: block; }
figcaption { margin-top: .3rem; }
/* A figure is drawn for a desk's width: below its least it scrolls as tables do, so that its words stay legible. */
figure .drawing { min-width: 0; } figure .drawing svg { min-width: 44rem; }
@media (max-width: 40rem) { main { padding: 1rem .5rem 3rem; } section { padding: 1rem .8rem; } }
th { cursor: pointer; } th:hover { color: var(--ink); }
th[aria-sort="ascending"]::after { content: " \25b4"; }
th[aria-sort="descending"]::after { content: " \25be"; }
details { margin: .5rem 0; } summary { cursor: pointer; color: var(--accent); font-size: .92rem; }
pre { background: var(--wash); border: 1px solid var(--line); border-radius: 6px; padding: .8rem 1rem;
  overflow-x: auto; font: .8rem/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
@media print { body { background: none; } section { break-inside: avoid-page; border: 0; padding: 0; } }
)css";

// A click on a column's head sorts the table by it: by numbers where cells start with them (behind
// signs such as <=), else by words; what is "-" stays at the end. Without scripts the page loses
// only that.
constexpr char kSort[] = R"js(
const key = (row, c) => {
  const text = row.cells[c] ? row.cells[c].innerText.trim() : "";
  const number = /^[^\w+.-]*([-+]?[0-9.]+(e[-+]?[0-9]+)?)/i.exec(text);
  return { empty: text === "" || text === "-", number: number ? parseFloat(number[1]) : NaN, text };
};
const compare = (a, b) => isNaN(a.number) || isNaN(b.number)
  ? a.text.localeCompare(b.text) : a.number - b.number || a.text.localeCompare(b.text);
for (const th of document.querySelectorAll("th")) th.addEventListener("click", () => {
  const down = th.getAttribute("aria-sort") === "ascending";
  for (const other of th.parentNode.cells) other.removeAttribute("aria-sort");
  th.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = th.closest("table").tBodies[0];
  const rows = [...body.rows].map(row => [key(row, th.cellIndex), row]);
  rows.sort(([a], [b]) => a.empty - b.empty || (down ? compare(b, a) : compare(a, b)));
  body.append(...rows.map(([, row]) => row));
  th.closest("table").show?.();
});
// A long table shows a page of its rows, those with the words that are asked for. Without scripts
// it shows all.
const PAGE = 50;
const make = (tag, fields) => Object.assign(document.createElement(tag), fields);
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  if (body.rows.length <= PAGE) continue;
  const find = make("input", { type: "search", placeholder: "rows with ..." });
  const back = make("button", { textContent: "\u25c2" }), on = make("button", { textContent: "\u25b8" });
  const where = make("span"), bar = make("p", { className: "pages note" });
  let first = 0;
  table.show = () => {
    const words = find.value.toLowerCase();
    const all = [...body.rows].filter(row => row.textContent.toLowerCase().includes(words));
    first = Math.max(0, Math.min(first, Math.floor((all.length - 1) / PAGE) * PAGE));
    for (const row of body.rows) row.hidden = true;
    for (const row of all.slice(first, first + PAGE)) row.hidden = false;
    where.textContent = ` rows ${all.length && first + 1} to ${Math.min(first + PAGE, all.length)} of ${all.length} `;
  };
  back.onclick = () => { first -= PAGE; table.show(); };
  on.onclick = () => { first += PAGE; table.show(); };
  find.oninput = () => { first = 0; table.show(); };
  bar.append(find, back, where, on);
  table.parentNode.before(bar);
  table.show();
}
)js";

// A bound is a number too.
bool LooksNumeric(std::string_view cell) {
  for (const std::string_view sign : {"&le; ", "&ge; "}) {
    if (cell.starts_with(sign)) cell.remove_prefix(sign.size());
  }
  return !cell.empty() && std::string_view("0123456789+-.").find(cell[0]) != std::string_view::npos;
}

std::string Formulae(const std::string& text) {
  return absl::StrReplaceAll(HtmlEscape(text), {{"ln eta", "ln &eta;"},
                                                {"kappa", "&kappa;"},
                                                {"Delta", "&Delta;"},
                                                {"^gamma", "<sup>&gamma;</sup>"},
                                                {" tau", " &tau;"},
                                                {"_f", "<sub>f</sub>"},
                                                {"_b", "<sub>b</sub>"}});
}

// Each part of a text behind "; " in a line; "a -> b" is not broken.
std::string LinesOf(const std::string& cell) {
  std::vector<std::string> lines = absl::StrSplit(cell, "; ");
  for (std::string& line : lines) {
    const bool arrow = line.find(" -> ") != std::string::npos;
    line = absl::StrReplaceAll(HtmlEscape(line), {{" -&gt; ", " &rarr; "}});
    if (arrow) line = "<span class=\"nb\">" + line + "</span>";
  }
  return absl::StrJoin(lines, "<br>");
}

}  // namespace

std::string HtmlEscape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string HtmlPage(std::string_view title, std::string_view body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style></head>\n<body><main>\n{}\n</main>\n<script>{}</"
      "script></body></html>\n",
      HtmlEscape(title), kStyle, body, kSort);
}

std::string HtmlTable(const std::vector<std::string>& header,
                      const std::vector<std::vector<std::string>>& rows) {
  std::vector<bool> numeric(header.size(), !rows.empty());
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size() && c < header.size(); ++c) {
      if (!LooksNumeric(row[c])) numeric[c] = false;
    }
  }
  std::string out = "<div class=\"scroll\"><table><thead><tr>";
  for (size_t c = 0; c < header.size(); ++c) {
    out += fmt::format("<th{}>{}</th>", numeric[c] ? " class=\"n\"" : "", header[c]);
  }
  out += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    out += "<tr>";
    for (size_t c = 0; c < row.size(); ++c) {
      out += fmt::format("<td{}>{}</td>", c < numeric.size() && numeric[c] ? " class=\"n\"" : "",
                         row[c]);
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

// A number as WithInterval writes it, or with a remark in brackets: what stands behind it in a line
// of its own.
std::string HtmlOf(const Cell& cell) {
  if (cell.tone) return HtmlBadge(cell.text, *cell.tone);
  const std::string sign = cell.text.starts_with("<= ") ? "<= " : "";
  const std::string number = cell.text.substr(sign.size());
  const size_t at = number.find(' ');
  const bool bound = at == std::string::npos && !sign.empty();
  const bool interval = at != std::string::npos && number[at + 1] == '[' && number.ends_with(']');
  const bool remark = at != std::string::npos && number[at + 1] == '(' && number.ends_with(')');
  if (!LooksNumeric(number) || !(bound || interval || remark)) return LinesOf(cell.text);
  const std::string behind = bound                            ? "a bound"
                             : number.substr(at + 1) == "[-]" ? "no interval"
                             : remark ? number.substr(at + 2, number.size() - at - 3)
                                      : number.substr(at + 1);
  return absl::StrReplaceAll(
      fmt::format("{}<br><span class=\"ci\">{}</span>", HtmlEscape(sign + number.substr(0, at)),
                  HtmlEscape(behind)),
      {{"&lt;= ", "&le; "}});
}

std::string HtmlGrid(const Table& table) {
  std::vector<std::string> header;
  for (const Column& column : table.columns) {
    if (column.head)
      header.push_back(absl::StrReplaceAll(Formulae(*column.head), {{"\n", "<br>"}}));
  }
  std::vector<std::vector<std::string>> rows;
  for (const std::vector<Cell>& row : table.rows) {
    std::vector<std::string>& cells = rows.emplace_back();
    for (size_t c = 0; c < row.size(); ++c) {
      if (c < table.columns.size() && !table.columns[c].head) continue;
      cells.push_back(HtmlOf(row[c]));
    }
  }
  return HtmlTable(header, rows);
}

std::string HtmlOf(const Table& table, std::string_view heading) {
  if (table.rows.empty()) return "";
  std::string out = fmt::format("<{0}>{1}</{0}>", heading, Formulae(table.title));
  for (const std::string& note : table.notes) {
    out += "<p class=\"note\">" + Formulae(note) + "</p>";
  }
  return out + HtmlGrid(table);
}

std::string HtmlBadge(std::string_view text, Tone tone) {
  constexpr std::string_view kClasses[] = {"good", "bad", "open", "plain"};
  return fmt::format("<span class=\"badge {}\">{}</span>", kClasses[static_cast<size_t>(tone)],
                     HtmlEscape(text));
}

std::string HtmlDetails(std::string_view summary, std::string_view html) {
  return fmt::format("<details><summary>{}</summary>{}</details>\n", HtmlEscape(summary), html);
}

}  // namespace longhaul
