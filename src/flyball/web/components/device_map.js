// Draws every device as a cell, grouped by node, on one canvas. The server sends changes only.
const OWNERS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a900", "#7a6fd0"];
// From dark to light like viridis: distinguishable for colour-blind people, and in grey.
const SCALE = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];

function scaled(x) {
  const at = Math.max(0, Math.min(1, x)) * (SCALE.length - 1);
  const low = Math.floor(at), high = Math.min(low + 1, SCALE.length - 1), part = at - low;
  const mix = SCALE[low].map((c, k) => Math.round(c + (SCALE[high][k] - c) * part));
  return `rgb(${mix})`;
}

export default {
  template: `
    <div class="fb-map">
      <div class="fb-map-bar">
        <div class="fb-seg" role="radiogroup" aria-label="What the colours show">
          <button v-for="m in modes" :key="m.key" type="button" role="radio" :aria-checked="mode === m.key"
            :class="{ on: mode === m.key }" @click="pick(m.key)">{{ m.name }}</button>
        </div>
        <span class="fb-legend">
          <template v-if="mode === 'job'">
            <span v-for="o in owners" :key="o.name"><i :style="{ background: o.colour }"></i>{{ o.name }} {{ o.count }}</span>
            <span><i class="free"></i>free {{ free }}</span>
          </template>
          <template v-else><span>{{ range.low }}</span><i class="ramp"></i><span>{{ range.high }}</span></template>
          <span v-if="down"><i class="down"></i>down {{ down }}</span>
        </span>
      </div>
      <div class="fb-map-box" ref="box">
        <canvas ref="canvas" tabindex="0" role="img" :aria-label="summary" @mousemove="hover" @mouseleave="leave"
          @click="open" @keydown="key" @blur="leave"></canvas>
        <div class="fb-tip" v-show="tip" :style="tipStyle" role="status">{{ tip }}</div>
      </div>
    </div>`,
  props: { data: Object },
  data() {
    return { mode: localStorage.getItem("flyball.map") || "job", owners: [], free: 0, down: 0, tip: "",
      tipStyle: {}, range: { low: "", high: "" }, summary: "",
      modes: [{ key: "job", name: "Jobs" }, { key: "use", name: "Use" }, { key: "power", name: "Power" },
        { key: "temperature", name: "Temperature" }] };
  },
  created() { this.table = null; this.focus = -1; this.colours = new Map(); },
  mounted() {
    this.resizing = new ResizeObserver(() => this.layout());
    this.resizing.observe(this.$refs.box);
    this.recolouring = new MutationObserver(() => this.draw());
    this.recolouring.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    if (this.data) this.set(this.data);
  },
  beforeUnmount() { this.resizing.disconnect(); this.recolouring.disconnect(); },
  methods: {
    set(table) { this.table = { ...table, columns: { ...table.columns } }; this.layout(); },
    change(delta) {
      if (!this.table) return;
      for (const [name, changes] of Object.entries(delta.columns)) {
        const column = this.table.columns[name];
        for (let k = 0; k < changes.length; k += 2) column[changes[k]] = changes[k + 1];
      }
      for (const id of delta.gone) delete this.table.jobs[id];
      Object.assign(this.table.jobs, delta.jobs);
      this.draw();
    },
    pick(mode) { this.mode = mode; localStorage.setItem("flyball.map", mode); this.draw(); },
    layout() {
      if (!this.table || !this.$refs.box) return;
      const width = this.$refs.box.clientWidth || 300;
      const nodes = this.table.nodes, devices = nodes.reduce((sum, n) => sum + n[2], 0);
      const widest = Math.max(...nodes.map((n) => Math.min(n[2], 8)), 1);
      const named = nodes.length <= 60;
      // The largest cell for which everything fits into about 420 pixels of height.
      let cell = 30;
      for (; cell > 5; cell -= 1) {
        const rows = this.arrange(cell, width, widest, named);
        if (rows.height <= (width < 600 ? 520 : 420)) break;
      }
      this.place = this.arrange(cell, width, widest, named);
      this.named = named; this.cell = cell;
      const ratio = window.devicePixelRatio || 1, canvas = this.$refs.canvas;
      canvas.width = width * ratio; canvas.height = this.place.height * ratio;
      canvas.style.width = `${width}px`; canvas.style.height = `${this.place.height}px`;
      this.draw();
    },
    arrange(cell, width, widest, named) {
      const gap = Math.max(3, Math.round(cell / 3)), head = named ? 16 : 0;
      const cells = [];
      let x = 0, y = 0, tallest = 0;
      this.table.nodes.forEach((node, at) => {
        const across = Math.min(node[2], 8), down = Math.ceil(node[2] / 8);
        const w = Math.max(across * cell, named ? 58 : 0), h = down * cell + head;
        if (x && x + w > width) { x = 0; y += tallest + gap; tallest = 0; }
        cells.push({ x, y, w, h, at });
        x += w + gap; tallest = Math.max(tallest, h);
      });
      return { blocks: cells, height: Math.max(y + tallest, 24), head };
    },
    colourOf(user) {
      if (!this.colours.has(user)) this.colours.set(user, OWNERS[this.colours.size % OWNERS.length]);
      return this.colours.get(user);
    },
    draw() {
      if (!this.table || !this.place) return;
      const canvas = this.$refs.canvas, c = canvas.getContext("2d"), ratio = window.devicePixelRatio || 1;
      const style = getComputedStyle(document.body), free = style.getPropertyValue("--cell").trim();
      const ink = style.getPropertyValue("--ink").trim(), soft = style.getPropertyValue("--soft").trim();
      c.setTransform(ratio, 0, 0, ratio, 0, 0);
      c.clearRect(0, 0, canvas.width, canvas.height);
      const { job, use, power, temperature } = this.table.columns, jobs = this.table.jobs;
      const values = { use, power, temperature }[this.mode];
      const known = values ? values.filter((v) => v >= 0) : [];
      let low = 0, high = this.mode === "use" ? 100 : 1;
      if (this.mode === "power") { low = Math.min(...known, 0); high = Math.max(...known, 1); }
      if (this.mode === "temperature") { low = 20; high = Math.max(...known, 90); }
      const unit = { use: " %", power: " W", temperature: " °C" }[this.mode] || "";
      this.range = known.length ? { low: `${low}${unit}`, high: `${high}${unit}` } : { low: "not measured here", high: "" };
      const counts = new Map();
      let device = 0, idle = 0, down = 0;
      const inner = Math.max(2, this.cell - (this.cell > 8 ? 2 : 1));
      this.starts = [];
      this.place.blocks.forEach((block) => {
        const node = this.table.nodes[block.at];
        this.starts.push(device);
        if (this.named) {
          c.fillStyle = soft; c.font = "11px system-ui, sans-serif";
          c.fillText(node[0].length > 14 ? node[0].slice(0, 13) + "…" : node[0], block.x, block.y + 10);
        }
        if (!node[3]) down += node[2];
        for (let k = 0; k < node[2]; k += 1, device += 1) {
          const x = block.x + (k % 8) * this.cell, y = block.y + this.place.head + Math.floor(k / 8) * this.cell;
          const id = job[device];
          if (!id) idle += 1;
          if (!node[3]) {
            c.strokeStyle = ink; c.lineWidth = 1; c.beginPath();
            c.moveTo(x, y); c.lineTo(x + inner, y + inner); c.moveTo(x + inner, y); c.lineTo(x, y + inner); c.stroke();
            continue;
          }
          if (this.mode === "job") {
            const user = id ? jobs[id]?.[0] || "(no name)" : "";
            if (id) counts.set(user, (counts.get(user) || 0) + 1);
            c.fillStyle = id ? this.colourOf(user) : free;
            c.fillRect(x, y, inner, inner);
            if (id && inner > 6) {  // a job's edge, so that two jobs of one user can be told apart
              c.fillStyle = "rgba(255,255,255,.85)";
              if (job[device + 1] !== id) c.fillRect(x + inner - 2, y, 2, inner);
            }
          } else {
            const v = values[device];
            c.fillStyle = v < 0 ? free : scaled((v - low) / (high - low || 1));
            c.fillRect(x, y, inner, inner);
          }
          if (device === this.focus) { c.strokeStyle = ink; c.lineWidth = 2; c.strokeRect(x - 1, y - 1, inner + 2, inner + 2); }
        }
      });
      this.owners = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 6)
        .map(([name, count]) => ({ name, count, colour: this.colourOf(name) }));
      this.free = idle; this.down = down;
      const top = this.owners.map((o) => `${o.name} holds ${o.count}`).join(", ");
      this.summary = `${device} devices on ${this.table.nodes.length} nodes, ${idle} free` + (top ? `; ${top}` : "") +
        ". Arrow keys move from device to device, Enter opens the job.";
    },
    at(x, y) {
      for (const [index, block] of this.place.blocks.entries()) {
        const dx = x - block.x, dy = y - block.y - this.place.head;
        if (dx < 0 || dy < 0 || dx >= block.w || y > block.y + block.h) continue;
        const column = Math.floor(dx / this.cell), k = Math.floor(dy / this.cell) * 8 + column;
        if (column < 8 && k < this.table.nodes[block.at][2]) return { index, k, device: this.starts[index] + k };
      }
      return null;
    },
    show(index, k, device) {
      const node = this.table.nodes[index], { job, use, power, temperature } = this.table.columns;
      const id = job[device], of = this.table.jobs[id];
      const parts = [`${node[0]} device ${k} (${node[1]})`];
      parts.push(!node[3] ? "down" : id ? `job ${of?.[3] ?? id} ${of?.[1] ?? ""} of ${of?.[0] || "(no name)"}` : "free");
      if (use[device] >= 0) parts.push(`${use[device]} %`);
      parts.push(`${power[device]} W`);
      if (temperature[device] >= 0) parts.push(`${temperature[device]} °C`);
      this.tip = parts.join(" · ");
      const block = this.place.blocks[index];
      const right = block.x > this.$refs.box.clientWidth / 2;
      this.tipStyle = { top: `${block.y + block.h + 4}px`,
        ...(right ? { right: `${Math.max(0, this.$refs.box.clientWidth - block.x - block.w)}px` } : { left: `${block.x}px` }) };
    },
    hover(event) {
      const spot = this.at(event.offsetX, event.offsetY);
      if (spot) this.show(spot.index, spot.k, spot.device); else this.tip = "";
    },
    leave() { this.tip = ""; this.focus = -1; this.draw(); },
    open(event) {
      const spot = this.at(event.offsetX, event.offsetY), id = spot && this.table.columns.job[spot.device];
      if (id) window.location.href = `/jobs/${id}`;
    },
    key(event) {
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 8, ArrowUp: -8 }[event.key];
      const count = this.table?.columns.job.length || 0;
      if (step && count) {
        event.preventDefault();
        this.focus = Math.max(0, Math.min(count - 1, this.focus < 0 ? 0 : this.focus + step));
        this.draw();
        let index = this.starts.findIndex((s) => s > this.focus) - 1;
        if (index < 0) index = this.starts.length - 1;
        this.show(index, this.focus - this.starts[index], this.focus);
      } else if (event.key === "Enter" && this.focus >= 0) {
        const id = this.table.columns.job[this.focus];
        if (id) window.location.href = `/jobs/${id}`;
      }
    },
  },
};
