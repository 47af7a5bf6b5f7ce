"use strict";
/* Sorts tables, filters clusters, links their numbers to what they are, finds rows by id, and puts
   two clusters side by side. */
const number = (text) => {
  const found = text.replace(/[\s,]/g, "").replace("−", "-").match(/^[<>]?(-?[\d.]+(?:e[+-]?\d+)?)/);
  return found ? parseFloat(found[1]) : NaN;
};
const compare = (a, b) => {
  const [x, y] = [number(a), number(b)];
  return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x - y;
};
for (const table of document.querySelectorAll("table")) {
  const [head, body] = [table.tHead, table.tBodies[0]];
  if (!head || !body || body.rows.length < 3 || table.matches(".compared")) continue;
  [...head.rows[0].cells].forEach((cell, k) => {
    if (cell.tagName !== "TH") return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...cell.childNodes);
    cell.append(button);
    button.addEventListener("click", () => {
      const more = table.parentElement.nextElementSibling;
      if (more?.tagName === "DETAILS" && more.querySelector("thead")?.textContent === head.textContent) {
        body.append(...more.querySelectorAll("tbody tr"));
        more.remove();
      }
      const rising = cell.getAttribute("aria-sort") !== "ascending";
      for (const other of head.rows[0].cells) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", rising ? "ascending" : "descending");
      const rows = [...body.rows].sort((a, b) =>
        compare(a.cells[k].textContent.trim(), b.cells[k].textContent.trim()));
      body.append(...(rising ? rows : rows.reverse()));
    });
  });
}
for (const swatch of document.querySelectorAll("td .swatch, th .swatch")) {
  const cell = swatch.parentElement;
  const label = cell.textContent.trim();
  if (cell.closest("a") || !document.getElementById(`cluster-${label}`)) continue;
  const link = document.createElement("a");
  link.href = `#cluster-${label}`;
  link.append(...cell.childNodes);
  cell.append(link);
}
const clusters = document.querySelectorAll(".sizes tbody tr, .profile-card");
if (document.querySelectorAll(".sizes tbody tr").length > 8) {
  const input = document.createElement("input");
  Object.assign(input, { type: "search", placeholder: "Filter clusters" });
  input.setAttribute("aria-label", "Filter clusters");
  document.querySelector("#sizes h2").after(input);
  const names = new Map([...clusters].map((one) => [one, one.textContent.toLowerCase()]));
  const named = new Map([...document.querySelectorAll(".sizes tbody tr")].map(
    (row) => [row.cells[0].textContent.trim().split(/\s/)[0], names.get(row)]));
  const told = (one) => named.get((one.querySelector(".swatch").parentElement.textContent.trim()
    .match(/^-?\d+/) || [""])[0]) || names.get(one);
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    for (const one of clusters) one.hidden = !told(one).includes(wanted);
    if (!wanted) return;
    for (const one of clusters) {
      const folded = one.closest("details");
      if (folded && !one.hidden) folded.open = true;
    }
  });
}
const every = document.querySelector(".rows a[download]");
if (every) {
  const bytes = Uint8Array.from(atob(every.href.split(",")[1]), (one) => one.charCodeAt(0));
  const [head, ...lines] = new TextDecoder().decode(bytes).trimEnd().split("\n");
  const rows = lines.map((line) => line.match(/^(.*),(-?\d+),([^,]*),(true|false)$/)).filter(Boolean);
  const outside = rows.some((row) => row[4] === "true");
  const select = document.createElement("select");
  const numbers = [...new Set(rows.map((row) => +row[2]))].sort((a, b) => a - b);
  for (const one of [...(outside ? ["outliers"] : []), ...numbers])
    select.append(new Option(one === "outliers" ? one : `cluster ${one}`, one));
  select.setAttribute("aria-label", "Rows to download");
  const link = document.createElement("a");
  const choose = () => {
    const chosen = rows.filter((row) => (select.value === "outliers" ? row[4] === "true" : row[2] === select.value));
    URL.revokeObjectURL(link.href);
    link.href = URL.createObjectURL(new Blob([[head, ...chosen.map((row) => row[0])].join("\n") + "\n"], { type: "text/csv" }));
    link.download = `${select.value === "outliers" ? "outliers" : `cluster-${select.value}`}.csv`;
    link.textContent = `${chosen.length.toLocaleString("en")} row${chosen.length === 1 ? "" : "s"} as CSV`;
  };
  select.addEventListener("change", choose);
  choose();
  const only = document.createElement("p");
  only.append(select, " ", link);
  const name = head.replace(/,label,score,outlier$/, "").replace(/^"|"$/g, "");
  const input = document.createElement("input");
  Object.assign(input, { type: "search", placeholder: `Find ${name}` });
  input.setAttribute("aria-label", `Find a row by ${name}`);
  const found = document.createElement("p");
  found.setAttribute("aria-live", "polite");
  input.addEventListener("input", () => {
    const wanted = input.value.trim();
    const hits = wanted ? rows.filter((row) => row[1].replace(/^"|"$/g, "") === wanted) : [];
    found.textContent = hits.slice(0, 20).map((row) =>
      `${name} ${wanted}: cluster ${row[2]}, score ${row[3]}${row[4] === "true" ? ", outlier" : ""}`).join("; ")
      || (wanted ? `No row has the ${name} ${wanted}.` : "");
  });
  every.parentElement.after(only, input, found);
}
const compared = [...document.querySelectorAll(".compared")];
const heads = [...(compared[0]?.tHead.rows[0].cells ?? [])].slice(1);
if (heads.length > 2) {
  const box = document.createElement("div");
  box.className = "compare";
  const [first, second] = [0, 1].map((k) => {
    const select = document.createElement("select");
    select.setAttribute("aria-label", k ? "Second cluster" : "First cluster");
    if (!k) select.append(new Option("all clusters", "-1"));
    select.append(...heads.map((head, place) =>
      new Option(`cluster ${head.textContent.trim()}`, place)));
    return select;
  });
  const joining = document.createElement("span");
  joining.textContent = "with";
  box.append("Compare", first, joining, second);
  document.getElementById("comparison").after(box);
  const groups = compared.map((table) => [...table.tBodies]);
  const value = (row, place) => Number(row.cells[place + 1].dataset.v);
  const differ = (group, a, b) =>
    Math.max(...[...group.rows].map((row) => Math.abs(value(row, a) - value(row, b))));
  const show = () => {
    const [a, b] = [Number(first.value), Number(second.value)];
    second.hidden = joining.hidden = a < 0;
    compared.forEach((table, k) => {
      for (const row of table.rows) {
        [...row.cells].slice(1).forEach((cell, place) => {
          cell.hidden = a >= 0 && place !== a && place !== b;
        });
      }
      table.append(...(a < 0 ? groups[k]
        : [...groups[k]].sort((x, y) => differ(y, a, b) - differ(x, a, b))));
    });
  };
  second.value = "1";
  for (const select of [first, second]) select.addEventListener("change", show);
  show();
}
