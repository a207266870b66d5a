"""Style and script of report pages: light and dark, phone width, print; sorting of tables."""

STYLE = """
:root{color-scheme:light dark;--ink:#1c2326;--dim:#536066;--line:#d5dbde;--back:#fff;--tile:#f3f6f7;
--link:#00558a}
@media (prefers-color-scheme:dark){:root{--ink:#e8edef;--dim:#a9b5ba;--line:#3a4448;--back:#14191b;
--tile:#1e2528;--link:#7cc4f5}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:76rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.8rem;line-height:1.2;margin:0}
h2{font-size:1.25rem;margin:2.2rem 0 .6rem;border-top:1px solid var(--line);padding-top:1.2rem}
p,ul{max-width:48rem;margin:.5rem 0}
.lead,.cap,figcaption,small{color:var(--dim)}
nav{display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;margin-top:.7rem}
a{color:var(--link)}
.tiles{display:grid;gap:.7rem;margin:1rem 0;
grid-template-columns:repeat(auto-fit,minmax(10.5rem,1fr))}
.tile{background:var(--tile);border-radius:.4rem;padding:.7rem .9rem;
display:flex;flex-direction:column}
.tile b{font-size:1.5rem;line-height:1.3;font-variant-numeric:tabular-nums}
.tile span{font-size:.85rem}.tile small{font-size:.8rem}
.wide{overflow-x:auto;margin:1rem 0}
table{border-collapse:collapse;font-size:.92rem;font-variant-numeric:tabular-nums}
.cap{max-width:none;font-size:.88rem;margin:1rem 0 .2rem}.cap+.wide{margin-top:0}
th,td{padding:.28rem .55rem;border-bottom:1px solid var(--line);text-align:left;white-space:nowrap}
tbody th{font-weight:600}
.n{text-align:right}
thead button{all:unset;cursor:pointer;font-weight:600}
thead button:focus-visible{outline:2px solid var(--link);outline-offset:2px}
thead th[aria-sort=ascending] button::after{content:" \\25B2"}
thead th[aria-sort=descending] button::after{content:" \\25BC"}
figure{margin:1.2rem 0}
.drawing{background:#fff;border-radius:.4rem;padding:.4rem}
.drawing svg{width:100%;height:auto;display:block}
figcaption{font-size:.88rem;margin-top:.3rem}
pre{background:var(--tile);padding:.7rem .9rem;border-radius:.4rem;overflow-x:auto;font-size:.88rem;
white-space:pre-wrap}
@media print{:root{color-scheme:light;--ink:#000;--dim:#444;--line:#bbb;--back:#fff;--tile:#f4f4f4}
@page{margin:15mm}
body{font-size:10pt}main{max-width:none;padding:0}nav{display:none}
h2,.cap{break-after:avoid}figure,.tiles,tr{break-inside:avoid}thead{display:table-header-group}
.wide{overflow:visible}table{font-size:7.5pt}th,td{padding:.2rem .3rem;white-space:normal}}
"""

SCRIPT = """
for (const button of document.querySelectorAll("thead button")) button.onclick = () => {
  const head = button.parentElement, table = head.closest("table"), body = table.tBodies[0];
  const up = head.getAttribute("aria-sort") !== "ascending";
  for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const key = row => {
    const cell = row.children[head.cellIndex];
    return "v" in cell.dataset ? Number(cell.dataset.v) : cell.textContent;
  };
  const last = value => typeof value === "string" && (value === "-" || value === "");
  const order = (a, b) => {
    if (last(a) !== last(b)) return last(a) ? 1 : -1;
    const both = typeof a === "number" && typeof b === "number";
    return (up ? 1 : -1) * (both ? a - b : String(a).localeCompare(String(b)));
  };
  const rows = [...body.rows].map(row => [key(row), row]);
  rows.sort((a, b) => order(a[0], b[0]));
  body.append(...rows.map(row => row[1]));
};
"""
