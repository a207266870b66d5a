// Draws an ECharts chart in the colours of the page. Strings such as "--accent" in the options are
// replaced by the page's colours, so that a chart follows light and dark; "$name" by a formatter.
import { echarts } from "nicegui-echart";

const pad = (n) => String(n).padStart(2, "0");
const seconds = (s) => {
  const a = Math.abs(s);
  if (a < 90) return `${Math.round(s)} s`;
  if (a < 5400) return `${Math.round(s / 60)} min`;
  if (a < 172800) return `${(s / 3600).toFixed(1)} h`;
  return `${(s / 86400).toFixed(1)} d`;
};
const FORMATTERS = {
  $seconds: seconds,
  $ahead: (v) => (v > 0 ? "+" : "") + seconds(v),
  $percent: (v) => (v == null ? "-" : `${Math.round(v * 100)} %`),
  $number: (v) => (v == null ? "-" : Number(v).toLocaleString("en", { maximumSignificantDigits: 4 })),
  $clock: (v) => { const d = new Date(v); return `${pad(d.getHours())}:${pad(d.getMinutes())}`; },
};

function resolved(value, style) {
  if (typeof value === "string") {
    if (value.startsWith("--")) {
      const [name, alpha] = value.split("/");
      const colour = style.getPropertyValue(name).trim();
      return alpha ? colour + alpha : colour;
    }
    return value.startsWith("$") ? FORMATTERS[value] ?? value : value;
  }
  if (Array.isArray(value)) {
    return value.length > 200 && typeof value[0] !== "string" ? value : value.map((v) => resolved(v, style));
  }
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, resolved(v, style)]));
  }
  return value;
}

export default {
  template: `<div class="fb-chart" role="img" :aria-label="label"></div>`,
  props: { options: Object, label: String },
  mounted() {
    this.latest = this.options;
    this.chart = echarts.init(this.$el);
    this.chart.on("click", (e) => this.$emit("point", { series: e.seriesName, name: e.name, value: e.value }));
    this.resizing = new ResizeObserver(() => this.chart.resize());
    this.resizing.observe(this.$el);
    this.recolouring = new MutationObserver(() => this.draw());
    this.recolouring.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    this.draw();
  },
  beforeUnmount() {
    this.resizing.disconnect();
    this.recolouring.disconnect();
    this.chart.dispose();
  },
  watch: { options(value) { this.latest = value; this.draw(); } },
  methods: {
    set(options) { this.latest = options; this.draw(); },
    draw() {
      const style = getComputedStyle(document.body);
      const ink = style.getPropertyValue("--soft").trim();
      const line = style.getPropertyValue("--line").trim();
      const panel = style.getPropertyValue("--panel").trim();
      const axis = { axisLine: { lineStyle: { color: line } }, axisLabel: { color: ink },
        nameTextStyle: { color: ink }, splitLine: { lineStyle: { color: line } } };
      const options = resolved(this.latest, style);
      const axes = (given) => (Array.isArray(given) ? given : [given]).map((a) => ({ ...axis, ...a,
        axisLabel: { ...axis.axisLabel, hideOverlap: true, ...a.axisLabel },
        nameTextStyle: { ...axis.nameTextStyle, ...a.nameTextStyle } }));
      if (options.xAxis) options.xAxis = axes(options.xAxis);
      if (options.yAxis) options.yAxis = axes(options.yAxis);
      if (options.legend) options.legend = { textStyle: { color: ink }, icon: "roundRect", ...options.legend };
      options.tooltip = { backgroundColor: panel, borderColor: line, confine: true,
        textStyle: { color: style.getPropertyValue("--ink").trim() }, ...options.tooltip };
      this.chart.setOption({ animation: false, aria: { enabled: true },
        textStyle: { fontFamily: "inherit" }, ...options }, { notMerge: true });
    },
  },
};
