// The queue as a grid. It reads /api/v1/queue/brief itself, so that thousands of rows do not pass
// through the page's socket; the server says when something changed, and sends the start times.
import * as AgGrid from "nicegui-aggrid";

const ICONS = { PENDING: "◷", RUNNING: "▶", COMPLETING: "◌" };
const span = (s) => {
  if (s == null) return "";
  if (s < 90) return `${Math.round(s)} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  return s < 172800 ? `${(s / 3600).toFixed(1)} h` : `${(s / 86400).toFixed(1)} d`;
};
const svg = (name, attributes) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
};

export default {
  template: `<div><div ref="grid" class="fb-grid" :aria-label="'Queue'"></div>
    <div v-if="!total && loaded" class="fb-empty"><strong>The queue is empty.</strong>
    Submit a job with the button above, or with <code>flyball submit -- python train.py</code></div></div>`,
  props: { search: String },
  data() { return { total: 0, loaded: false }; },
  created() { this.starts = new Map(); this.horizon = 60; this.tag = ""; this.busy = false; },
  mounted() {
    AgGrid.ModuleRegistry.registerModules([AgGrid.AllCommunityModule]);
    const text = (field, headerName, more) => ({ field, headerName, filter: "agTextColumnFilter", ...more });
    const number = (field, headerName, more) => ({ field, headerName, filter: "agNumberColumnFilter",
      type: "rightAligned", suppressHeaderFilterButton: true, ...more });
    const now = () => Date.now() / 1000;
    const narrow = window.innerWidth < 700;
    const columns = [
      text("label", "Job", { width: 84, suppressHeaderFilterButton: true, pinned: narrow ? null : "left", comparator: (a, b, x, y) => x.data.id - y.data.id,
        cellRenderer: (p) => { const a = document.createElement("a"); a.href = `/jobs/${p.data.id}`; a.textContent = p.value; a.tabIndex = -1; return a; } }),
      text("name", "Name", { flex: 2, minWidth: 130 }),
      text("state", "State", { width: 116, valueFormatter: (p) => `${ICONS[p.value] || ""} ${p.data.held ? "held" : p.value.toLowerCase()}` }),
      text("user", "User", { width: 100, hide: narrow }),
      number("size", "Devices", { width: 92, valueGetter: (p) => p.data.gpus || p.data.cpus,
        valueFormatter: (p) => `${p.value} ${p.data.gpus ? "GPU" : "core"}${p.value === 1 ? "" : "s"}` }),
      { colId: "start", headerName: "Starts in, or runs on", minWidth: narrow ? 150 : 200, flex: 2, filter: "agNumberColumnFilter",
        valueGetter: (p) => p.data.state === "PENDING" ? this.starts.get(p.data.id)?.[0] ?? null : -1,
        cellRenderer: (p) => this.bar(p) },
      text("reason", "Why it waits", { width: 148, hide: narrow, valueFormatter: (p) => p.value || "" }),
      number("waited", "Waited", { width: 82, hide: narrow, valueGetter: (p) => (p.data.start_time ?? now()) - p.data.submit_time, valueFormatter: (p) => span(p.value) }),
      number("ran", "Ran", { width: 74, hide: narrow, valueGetter: (p) => p.data.state === "PENDING" ? null : now() - p.data.start_time, valueFormatter: (p) => span(p.value) }),
      number("priority", "Priority", { width: 84, hide: narrow }), text("class", "Class", { hide: true }), text("tenant", "Account", { hide: true }),
      text("node", "Node", { hide: true }),
    ];
    this.api = AgGrid.createGrid(this.$refs.grid, {
      theme: AgGrid.themeQuartz.withPart(AgGrid.colorSchemeVariable).withParams({ fontFamily: "inherit", fontSize: 14,
        backgroundColor: "var(--panel)", foregroundColor: "var(--ink)", borderColor: "var(--line)", headerBackgroundColor: "var(--ground)",
        accentColor: "var(--accent)", headerTextColor: "var(--ink)" }),
      columnDefs: columns,
      defaultColDef: { sortable: true, resizable: true, suppressHeaderMenuButton: narrow },
      rowHeight: 34, headerHeight: 36, animateRows: false,
      getRowId: (p) => String(p.data.id),
      rowSelection: { mode: "multiRow", headerCheckbox: true, enableClickSelection: false, selectAll: "filtered" },
      quickFilterText: this.search || "",
      suppressNoRowsOverlay: true,
      onSelectionChanged: () => this.$emit("selected", this.api.getSelectedRows().slice(0, 10000).map((r) => r.id)),
      onRowDoubleClicked: (e) => { window.location.href = `/jobs/${e.data.id}`; },
      onCellKeyDown: (e) => { if (e.event.key === "Enter") window.location.href = `/jobs/${e.data.id}`; },
    });
    this.dark = () => this.$refs.grid.setAttribute("data-ag-theme-mode", document.body.classList.contains("body--dark") ? "dark" : "light");
    this.recolouring = new MutationObserver(this.dark);
    this.recolouring.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    this.dark();
    this.onKey = (e) => this.key(e.detail);
    document.addEventListener("flyball-key", this.onKey);
    this.load();
    this.clock = setInterval(() => this.api.refreshCells({ columns: ["waited", "ran"] }), 5000);
  },
  beforeUnmount() {
    clearInterval(this.clock); this.recolouring.disconnect();
    document.removeEventListener("flyball-key", this.onKey);
    this.api.destroy();
  },
  methods: {
    async load() {
      if (this.busy) { this.again = true; return; }
      this.busy = true;
      try {
        const answer = await fetch("/api/v1/queue/brief", { headers: this.tag ? { "If-None-Match": this.tag } : {}, cache: "no-store" });
        if (answer.status === 200) {
          this.tag = answer.headers.get("ETag");
          const { columns, rows } = await answer.json();
          const jobs = rows.map((row) => Object.fromEntries(columns.map((name, k) => [name, row[k]])));
          this.total = jobs.length;
          this.api.setGridOption("rowData", jobs);
          if (!this.loaded) performance.mark("flyball-queue");
          this.loaded = true;
        }
      } catch { /* the connection is lost; the page says so */ }
      this.busy = false;
      if (this.again) { this.again = false; setTimeout(() => this.load(), 1000); }
    },
    set_starts(rows) {
      this.starts = new Map(rows.map(([id, p50, p90]) => [id, [p50, p90]]));
      this.horizon = Math.max(60, ...rows.slice(0, 20000).map((r) => r[2]));
      this.api.refreshCells({ columns: ["start"], force: true });
    },
    set_search(text) { this.api.setGridOption("quickFilterText", text); },
    select_none() { this.api.deselectAll(); },
    bar(p) {
      if (p.data.state !== "PENDING") return document.createTextNode(p.data.node ? `on ${p.data.node}` : "runs");
      const start = this.starts.get(p.data.id);
      if (!start) return document.createTextNode("no forecast yet");
      const [p50, p90] = start, at = (s) => 6 + 100 * Math.log1p(s / 10) / Math.log1p(this.horizon / 10);
      const box = document.createElement("div");
      box.className = "start";
      const picture = svg("svg", { width: 118, height: 16, "aria-hidden": "true" });
      picture.append(svg("line", { x1: 6, x2: 110, y1: 8, y2: 8, stroke: "var(--line)", "stroke-width": 2 }));
      picture.append(svg("rect", { x: at(p50), y: 4, width: Math.max(3, at(p90) - at(p50)), height: 8, rx: 3, fill: "var(--c1)", opacity: .5 }));
      picture.append(svg("line", { x1: at(p50), x2: at(p50), y1: 1, y2: 15, stroke: "var(--c1)", "stroke-width": 3 }));
      const label = document.createElement("span");
      label.textContent = ` ${span(p50)} – ${span(p90)}`;
      box.append(picture, label);
      box.title = `Half of such jobs start within ${span(p50)}, nine of ten within ${span(p90)}`;
      return box;
    },
    key(key) {
      const focused = this.api.getFocusedCell(), count = this.api.getDisplayedRowCount();
      if (!count) return;
      if (key === "Enter") {
        const row = focused && this.api.getDisplayedRowAtIndex(focused.rowIndex);
        if (row) window.location.href = `/jobs/${row.data.id}`;
        return;
      }
      const at = focused ? Math.max(0, Math.min(count - 1, focused.rowIndex + (key === "j" ? 1 : -1))) : 0;
      this.api.ensureIndexVisible(at);
      this.api.setFocusedCell(at, "label");
    },
  },
};
