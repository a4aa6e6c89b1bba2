
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
