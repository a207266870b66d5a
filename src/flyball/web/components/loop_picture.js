// The four layers as one picture, with what flows between them now. A box leads to the view behind it.
const BOXES = [
  { id: "monitor", x: 20, y: 60, title: "Monitoring", sub: "sensors", path: "/system" },
  { id: "predict", x: 270, y: 60, title: "Prediction", sub: "forecasts", path: "/prediction" },
  { id: "schedule", x: 520, y: 60, title: "Scheduling", sub: "decisions", path: "/decisions" },
  { id: "tune", x: 770, y: 60, title: "Optimisation", sub: "adjustments", path: "/decisions" },
  { id: "engine", x: 520, y: 280, title: "Engine", sub: "jobs on nodes", path: "/now" },
  { id: "journal", x: 145, y: 280, title: "Journal", sub: "everything that happened", path: "/time" },
];

export default {
  template: `
    <svg class="fb-picture" viewBox="0 0 980 400" role="group" aria-label="The control loop">
      <defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">
        <path d="M0 0 10 5 0 10z" fill="var(--accent)"/></marker></defs>
      <g fill="none" stroke="var(--accent)" stroke-width="2.5" marker-end="url(#tip)">
        <path d="M210 115H266"/><path d="M460 115H516"/><path d="M710 115H766"/>
        <path d="M865 172V335H714"/><path d="M520 335H340"/>
        <path d="M610 172V276" stroke-dasharray="6 5"/><path d="M240 280V230H110V176"/><path d="M280 280V230H365V176"/>
      </g>
      <g font-size="13" fill="var(--soft)" text-anchor="middle">
        <text x="238" y="40">{{ flows.samples }}</text><text x="488" y="40">{{ flows.forecasts }}</text>
        <text x="738" y="40">{{ flows.plans }}</text><text x="872" y="206" text-anchor="end" dx="-14">{{ flows.orders }}</text>
        <text x="430" y="325">{{ flows.events }}</text><text x="604" y="232" text-anchor="end" dx="-6">{{ flows.starts }}</text>
        <text x="120" y="222" text-anchor="start" dx="0">feedback: use</text><text x="358" y="222" text-anchor="end">what happened</text>
      </g>
      <a v-for="box in boxes" :key="box.id" :href="box.path" :aria-label="box.title + ': ' + (facts[box.id] || []).join('; ')">
        <rect :x="box.x" :y="box.y" width="190" height="112" rx="12" fill="var(--panel)" stroke="var(--accent)" stroke-width="2"/>
        <text :x="box.x + 14" :y="box.y + 27" font-size="17" font-weight="650" fill="var(--ink)">{{ box.title }}</text>
        <text :x="box.x + 14" :y="box.y + 45" font-size="12.5" fill="var(--soft)">{{ box.sub }}</text>
        <text v-for="(line, k) in facts[box.id] || []" :key="k" :x="box.x + 14" :y="box.y + 65 + 17 * k" font-size="13" fill="var(--ink)">{{ line }}</text>
      </a>
    </svg>`,
  props: { start: Object },
  data() { return { boxes: BOXES, facts: this.start?.facts || {}, flows: this.start?.flows || {} }; },
  methods: { set(values) { this.facts = values.facts; this.flows = values.flows; } },
};
