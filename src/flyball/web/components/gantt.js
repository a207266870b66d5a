// What ran where: a bar per attempt and run of devices, on a canvas, so that 10,000 bars stay smooth.
const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a900", "#7a6fd0"];
const LABEL = 86, AXIS = 22;

export default {
  template: `<div class="fb-gantt" ref="box">
    <div class="fb-row">
      <label class="note">Colour by
        <select class="fb-input" style="width: auto" v-model="by" @change="recolour">
          <option value="user">user</option><option value="class">class</option><option value="state">state</option>
        </select></label>
      <button type="button" class="fb-btn" @click="zoom(0.5)" aria-label="Zoom in">+</button>
      <button type="button" class="fb-btn" @click="zoom(2)" aria-label="Zoom out">−</button>
      <button type="button" class="fb-btn" @click="whole">Whole span</button>
      <span class="fb-legend"><span v-for="o in legend" :key="o.name"><i :style="{ background: o.colour }"></i>{{ o.name }}</span></span>
    </div>
    <canvas ref="canvas" tabindex="0" role="img" :aria-label="summary" @mousemove="hover" @mouseleave="leave"
      @mousedown="grab" @click="open" @wheel="wheel" @keydown="key"></canvas>
    <div class="fb-tip" v-show="tip" :style="tipStyle">{{ tip }}</div></div>`,
  data() { return { by: "user", legend: [], tip: "", tipStyle: {}, summary: "What ran where" }; },
  mounted() {
    this.resizing = new ResizeObserver(() => this.layout());
    this.resizing.observe(this.$refs.box);
    this.recolouring = new MutationObserver(() => this.later());
    this.recolouring.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    this.drag = (e) => this.move(e);
    this.drop = () => { this.held = null; };
    window.addEventListener("mousemove", this.drag);
    window.addEventListener("mouseup", this.drop);
  },
  beforeUnmount() {
    this.resizing.disconnect(); this.recolouring.disconnect();
    window.removeEventListener("mousemove", this.drag); window.removeEventListener("mouseup", this.drop);
  },
  methods: {
    async load(since, until) {
      const answer = await fetch(`/api/v1/history?since=${since}&until=${until}&limit=20000&part=bars`, { cache: "no-store" });
      if (!answer.ok) return;
      this.set(await answer.json(), since, until || Date.now() / 1000);
    },
    set(data, since, until) {
      const at = Object.fromEntries(data.columns.map((name, k) => [name, k]));
      this.nodes = data.nodes;
      const devices = data.nodes.reduce((sum, n) => sum + n.devices, 0);
      this.perDevice = devices <= 400;
      const first = [];
      let row = 0;
      for (const node of data.nodes) { first.push(row); row += this.perDevice ? node.devices : 1; }
      this.rows = row; this.first = first;
      this.bars = data.bars.map((b) => ({ id: b[at.job], label: b[at.label], name: b[at.name], user: b[at.user] || "(no name)",
        class: b[at.class] || "not stated", state: b[at.state].toLowerCase(), node: data.nodes[b[at.node]]?.name || "(gone)",
        row: (first[b[at.node]] ?? 0) + (this.perDevice ? b[at.device] : 0), rows: this.perDevice ? b[at.devices] : 1,
        devices: b[at.devices], start: b[at.start], end: b[at.end] })).sort((a, b) => a.start - b.start);
      const begin = this.bars.length ? Math.min(...this.bars.map((b) => b.start)) : since;
      this.span = [Math.max(since, begin), until];
      if (this.span[1] - this.span[0] < 1) this.span[1] = this.span[0] + 1;
      this.view = [...this.span];
      this.summary = `${this.bars.length} bars on ${data.nodes.length} nodes. Arrow keys move, plus and minus zoom.`;
      performance.mark("flyball-gantt");
      this.recolour(); this.layout();
    },
    recolour() {
      const counts = new Map();
      for (const bar of this.bars || []) counts.set(bar[this.by], (counts.get(bar[this.by]) || 0) + bar.rows * (bar.end - bar.start));
      const names = [...counts].sort((a, b) => b[1] - a[1]).map(([name]) => name);
      this.colours = new Map(names.map((name, k) => [name, COLOURS[k % COLOURS.length]]));
      this.legend = names.slice(0, 8).map((name) => ({ name, colour: this.colours.get(name) }));
      this.later();
    },
    layout() {
      if (!this.bars) return;
      const width = this.$refs.box.clientWidth || 300, ratio = window.devicePixelRatio || 1, canvas = this.$refs.canvas;
      this.high = Math.max(1.5, Math.min(20, 430 / this.rows));
      this.width = width; this.height = Math.round(Math.max(60, this.high * this.rows)) + AXIS;
      canvas.width = width * ratio; canvas.height = this.height * ratio; canvas.style.height = `${this.height}px`;
      this.later();
    },
    later() { if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw(); }); },
    x(t) { return LABEL + (t - this.view[0]) / (this.view[1] - this.view[0]) * (this.width - LABEL); },
    draw() {
      if (!this.bars || !this.width) return;
      const began = performance.now();
      const c = this.$refs.canvas.getContext("2d"), ratio = window.devicePixelRatio || 1;
      const style = getComputedStyle(document.body), line = style.getPropertyValue("--line").trim(), soft = style.getPropertyValue("--soft").trim();
      c.setTransform(ratio, 0, 0, ratio, 0, 0);
      c.clearRect(0, 0, this.width, this.height);
      c.font = "11px system-ui, sans-serif";
      const [from, to] = this.view, bottom = this.height - AXIS;
      c.fillStyle = soft; c.strokeStyle = line; c.lineWidth = 1;
      let last = -20;
      this.nodes.forEach((node, k) => {
        const y = this.first[k] * this.high;
        if (y - last < 13 && k) return;
        last = y;
        c.fillText(node.name.slice(0, 13), 0, y + 10);
        c.beginPath(); c.moveTo(LABEL, y + .5); c.lineTo(this.width, y + .5); c.stroke();
      });
      const steps = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 604800];
      const step = steps.find((s) => s / (to - from) * (this.width - LABEL) > 90) || 2592000;
      for (let t = Math.ceil(from / step) * step; t < to; t += step) {
        const x = this.x(t), d = new Date(t * 1000);
        c.beginPath(); c.moveTo(x, 0); c.lineTo(x, bottom); c.stroke();
        const text = step >= 86400 ? d.toLocaleDateString("en", { month: "short", day: "numeric" })
          : d.toLocaleTimeString("en-GB", step < 60 ? {} : { hour: "2-digit", minute: "2-digit" });
        c.fillText(text, x + 3, this.height - 6);
      }
      const gap = this.high > 6 ? 1 : 0;
      for (const bar of this.bars) {
        if (bar.end < from || bar.start > to) continue;
        const x = Math.max(LABEL, this.x(bar.start)), w = Math.max(1, Math.min(this.width, this.x(bar.end)) - x - .5);
        const y = bar.row * this.high, h = bar.rows * this.high - gap;
        c.fillStyle = this.colours.get(bar[this.by]);
        c.fillRect(x, y, w, h);
        if (bar.state === "failed" || bar.state === "timeout" || bar.state === "out_of_memory" || bar.state === "node_fail") {
          c.fillStyle = "#000"; c.fillRect(x + w - 2, y, 2, h);  // an end that was no success
        }
        if (w > 46 && h > 11) { c.fillStyle = "#fff"; c.save(); c.beginPath(); c.rect(x, y, w, h); c.clip(); c.shadowColor = "#000"; c.shadowBlur = 3; c.fillText(`${bar.label} ${bar.name}`, x + 4, y + Math.min(h / 2 + 4, 14)); c.restore(); }
      }
      this.took = performance.now() - began;
      this.$el.dataset.drawMs = this.took.toFixed(1);
    },
    bar(x, y) {
      if (!this.bars || x < LABEL) return null;
      const t = this.view[0] + (x - LABEL) / (this.width - LABEL) * (this.view[1] - this.view[0]);
      const row = Math.floor(y / this.high), slack = (this.view[1] - this.view[0]) / this.width * 2;
      for (let k = this.bars.length - 1; k >= 0; k -= 1) {
        const b = this.bars[k];
        if (row >= b.row && row < b.row + b.rows && t >= b.start - slack && t <= b.end + slack) return b;
      }
      return null;
    },
    hover(e) {
      const b = !this.held && this.bar(e.offsetX, e.offsetY);
      if (!b) { this.tip = ""; return; }
      const span = b.end - b.start;
      this.tip = `job ${b.label} ${b.name} · ${b.user} · ${b.class} · ${b.devices} device${b.devices === 1 ? "" : "s"} on ${b.node} · ${span < 120 ? span.toFixed(0) + " s" : span < 7200 ? (span / 60).toFixed(0) + " min" : (span / 3600).toFixed(1) + " h"} · ${b.state}`;
      const canvas = this.$refs.canvas;
      this.tipStyle = { left: `${Math.min(e.offsetX + 12, this.width - 260)}px`, top: `${canvas.offsetTop + e.offsetY + 16}px` };
    },
    leave() { this.tip = ""; },
    open(e) { if (!this.moved) { const b = this.bar(e.offsetX, e.offsetY); if (b) window.location.href = `/jobs/${b.id}`; } },
    grab(e) { this.held = { x: e.clientX, view: [...(this.view || [0, 1])] }; this.moved = false; },
    move(e) {
      if (!this.held || !this.bars) return;
      const dx = e.clientX - this.held.x;
      if (Math.abs(dx) < 4 && !this.moved) return;
      this.moved = true;
      const width = this.held.view[1] - this.held.view[0], dt = -dx / (this.width - LABEL) * width;
      this.view = [this.held.view[0] + dt, this.held.view[1] + dt];
      this.later();
    },
    wheel(e) {
      if (!e.ctrlKey && !e.shiftKey) return;
      e.preventDefault();
      this.zoom(e.deltaY > 0 || e.deltaX > 0 ? 1.25 : .8, e.offsetX);
    },
    zoom(factor, x) {
      if (!this.bars) return;
      const [from, to] = this.view, part = x == null ? .5 : Math.max(0, (x - LABEL) / (this.width - LABEL));
      const centre = from + (to - from) * part, width = Math.max(1, Math.min((to - from) * factor, (this.span[1] - this.span[0]) * 1.2));
      this.view = [centre - width * part, centre + width * (1 - part)];
      this.later();
    },
    whole() { this.view = [...this.span]; this.later(); },
    key(e) {
      const width = this.view ? this.view[1] - this.view[0] : 0;
      if (e.key === "+" || e.key === "=") this.zoom(.5);
      else if (e.key === "-") this.zoom(2);
      else if (e.key === "ArrowLeft" || e.key === "ArrowRight") {
        e.preventDefault();
        const dt = width / 8 * (e.key === "ArrowLeft" ? -1 : 1);
        this.view = this.view.map((t) => t + dt); this.later();
      }
    },
  },
};
