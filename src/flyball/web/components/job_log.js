// The log of an attempt, followed while it runs, with search. Text stays text whatever it contains.
const MOST_LINES = 5000;

export default {
  template: `<div>
    <div class="fb-row">
      <input class="fb-input" style="width: 220px" type="search" placeholder="Find in the log" aria-label="Find in the log" v-model="search" @input="draw">
      <label class="note"><input type="checkbox" v-model="only" @change="draw"> only these lines</label>
      <label class="note"><input type="checkbox" v-model="follow"> follow the end</label>
      <span class="note" role="status">{{ status }}</span>
    </div>
    <div class="fb-log" ref="box" tabindex="0" role="log" aria-label="Log" aria-live="off"></div></div>`,
  props: { job: Number, attempt: Number, running: Boolean, stream: String },
  data() { return { search: "", only: false, follow: true, status: "loading" }; },
  created() { this.lines = []; this.dropped = 0; this.rest = ""; },
  mounted() { this.open(); },
  beforeUnmount() { this.source?.close(); clearTimeout(this.pending); },
  methods: {
    open() {
      const query = `attempt=${this.attempt || 0}&tail=${MOST_LINES}&stream=${this.stream || "stdout"}`;
      this.source = new EventSource(`/api/v1/jobs/${this.job}/logs?${query}&follow=true`);
      this.source.addEventListener("line", (e) => this.add(JSON.parse(e.data)));
      this.source.onmessage = (e) => this.add(JSON.parse(e.data));
      this.source.addEventListener("end", () => { this.source.close(); this.ended = true; this.later(); });
      this.source.onerror = () => { if (!this.ended) this.status = this.lines.length ? "waiting for the server" : "no output yet"; };
      this.source.onopen = () => this.later();
    },
    add(data) {
      const text = this.rest + (typeof data === "string" ? data : data.text ?? data.line ?? "");
      const parts = text.split("\n");
      this.rest = parts.pop();
      this.lines.push(...parts);
      if (this.lines.length > MOST_LINES) { const extra = this.lines.length - MOST_LINES; this.dropped += extra; this.lines.splice(0, extra); }
      this.later();
    },
    later() { if (!this.pending) this.pending = setTimeout(() => { this.pending = 0; this.draw(); }, 150); },
    draw() {
      const box = this.$refs.box;
      if (!box) return;
      const wanted = this.search.toLowerCase(), parts = document.createDocumentFragment();
      let hits = 0;
      const shown = this.rest ? [...this.lines, this.rest] : this.lines;
      if (this.dropped) { const cut = document.createElement("div"); cut.className = "cut"; cut.textContent = `(${this.dropped} earlier lines are not shown; flyball logs ${this.job} has them)`; parts.append(cut); }
      for (const line of shown) {
        const low = line.toLowerCase();
        const hit = wanted && low.includes(wanted);
        if (hit) hits += 1;
        if (this.only && wanted && !hit) continue;
        const row = document.createElement("div");
        if (hit) {
          let from = 0, at = low.indexOf(wanted);
          while (at >= 0) {
            row.append(line.slice(from, at));
            const mark = document.createElement("mark");
            mark.textContent = line.slice(at, at + wanted.length);
            row.append(mark);
            from = at + wanted.length; at = low.indexOf(wanted, from);
          }
          row.append(line.slice(from));
        } else row.textContent = line || " ";
        parts.append(row);
      }
      if (!shown.length && this.ended) { const none = document.createElement("div"); none.className = "cut"; none.textContent = "It printed nothing."; parts.append(none); }
      box.replaceChildren(parts);
      if (this.follow) box.scrollTop = box.scrollHeight;
      this.status = wanted ? `${hits} lines contain it` : this.ended ? `${shown.length} lines, ended` : `${shown.length} lines, live`;
    },
  },
};
