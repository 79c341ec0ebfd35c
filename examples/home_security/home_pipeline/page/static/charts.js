// How the pages draw with uPlot: lines, steps, bars, and the blocks of a switch.
import { element, number, time, timeExact } from "./show.js";

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// A kind keeps its colour on both pages: by its name among the known ones, else by its letters.
const KNOWN = ["temperature", "motion", "power", "door_front", "smoke", "water", "carbon_monoxide", "glass_break", "window_kitchen", "window_bedroom", "door_garden"];
export function kindColour(kind) {
  const known = KNOWN.indexOf(kind);
  const letters = [...kind].reduce((sum, letter) => sum + letter.charCodeAt(0), 0);
  return colour(`--k${known >= 0 ? known : letters % KNOWN.length}`);
}

export function faded(hex, part) {
  return hex + Math.round(part * 255).toString(16).padStart(2, "0");
}

const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 1e7];
export const QUARTERS = [0.25, 0.5, ...WHOLE];
const MINUTES = [1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 480, 1440].map((minutes) => 60 * minutes);
const SECONDS = [10, 20, 30, ...MINUTES];

// One chart: made when there is something to show, then only fed. `tip(index)` gives lines for a point.
export class Chart {
  constructor(where, options, tip) {
    this.where = where;
    this.options = options;
    this.tip = tip;
    this.plot = null;
    this.key = "";
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(where);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.key = ""; });
  }

  size() {
    return { width: this.where.clientWidth, height: this.where.clientHeight };
  }

  // `words` is what a screen reader says of it, `open` lists the stretches that may still grow.
  show(key, series, data, words, open = []) {
    this.open = open;
    this.where.setAttribute("role", "img");
    this.where.setAttribute("aria-label", words);
    if (key !== this.key) {
      this.plot?.destroy();
      this.where.replaceChildren();
      this.plot = new uPlot(this.full(series), data, this.where);
      this.key = key;
    } else {
      this.plot.setData(data);
    }
  }

  full(series) {
    const isBand = Boolean(this.options.isBand);
    const font = '12px system-ui, "Segoe UI", Roboto, sans-serif';
    const axis = { stroke: colour("--soft"), font, ticks: { show: false }, grid: { stroke: colour("--line"), width: 1 } };
    return {
      ...this.size(),
      padding: isBand ? [0, 16, 0, 16] : [8, 32, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      scales: { x: { time: true, range: this.options.span }, y: this.options.range ? { range: this.options.range } : {} },
      axes: [
        { ...axis, show: !isBand || this.options.hasTimes, grid: { show: false }, values: instants, incrs: this.options.bySeconds ? SECONDS : MINUTES, space: 84, size: 26, gap: 8 },
        { ...axis, show: !isBand, size: 52, space: this.options.space ?? 44, incrs: this.options.incrs ?? WHOLE, values: (_, all) => all.map(this.options.label ?? number) },
      ],
      series: [{}, ...series],
      bands: this.options.bands ?? [],
      hooks: { draw: [(plot) => hatch(plot, this.open)], init: [(plot) => this.showTips(plot)], setCursor: [(plot) => this.move(plot)] },
    };
  }

  showTips(plot) {
    this.box = element("div", "tip");
    this.box.hidden = true;
    plot.over.append(this.box);
    plot.over.addEventListener("mouseleave", () => { this.box.hidden = true; });
  }

  move({ cursor: { idx, left }, over }) {
    const lines = idx == null || left < 0 ? [] : this.tip(idx);
    this.box.hidden = !lines.length;
    this.box.replaceChildren(...lines.map((text, n) => element(n ? "span" : "b", "", text)));
    const isTurned = left + 14 + this.box.offsetWidth > over.clientWidth;
    this.box.style.left = `${Math.max(0, isTurned ? left - this.box.offsetWidth - 14 : left + 14)}px`;
  }
}

// What may still grow is striped in the ground's colour: it must not look like a fall.
function hatch(plot, open) {
  if (!open.length) return;
  const { ctx, bbox } = plot;
  const step = 7 * devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  for (const [from, to] of open) {
    const [left, right] = [from, to].map((value) => plot.valToPos(value, "x", true));
    ctx.rect(Math.max(bbox.left, Math.min(left, right - step)), bbox.top, Math.max(step, right - left), bbox.height);
  }
  ctx.clip();
  ctx.beginPath();
  for (let x = bbox.left - bbox.height; x < bbox.left + bbox.width; x += step) {
    ctx.moveTo(x, bbox.top + bbox.height);
    ctx.lineTo(x + bbox.height, bbox.top);
  }
  ctx.strokeStyle = colour("--card");
  ctx.lineWidth = step / 2;
  ctx.stroke();
  ctx.restore();
}

// Ticks less than a minute apart would carry the same text again and again.
function instants(_plot, all, _axis, _space, stepS) {
  return all.map(stepS < 60 ? timeExact : time);
}

export const fromZero = (_, __, most) => [0, Math.max(1, most * 1.12)];

// Each value stands for the time from its point to the next, and the last point only ends it.
export const bars = (fill, size = [0.7, 18]) => ({ fill, width: 0, paths: uPlot.paths.bars({ size, align: 1 }), points: { show: false } });
export const steps = (stroke, fill) => ({ stroke, width: 1, fill, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } });
// A switch by the minute: a tall block while it was on, a low one while it was off, nothing where nothing was said.
export const blocks = (fill) => bars(fill, [1.1, Infinity, 2]);

// A gap that is no longer than the sensor's own rhythm is none; a reading without neighbours is a dot.
export function line(stroke, width, atMostS) {
  const longer = (plot, [from, to]) => plot.posToVal(to, "x", true) - plot.posToVal(from, "x", true) > atMostS;
  const alone = (values) => [...values.keys()].filter((n) => values[n] != null && values[n - 1] == null && values[n + 1] == null);
  const points = width ? { show: false, size: 5, fill: stroke, filter: (plot, which) => alone(plot.data[which]) } : { show: false };
  return { stroke, width, points, gaps: (plot, _, __, ___, gaps) => gaps.filter((gap) => longer(plot, gap)) };
}
