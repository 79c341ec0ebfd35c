// One chart: made when there is something to show, then only fed. `tip(index)` gives lines for a point.
import { element } from "./dom.js";
import { short, time, timeExact } from "./words.js";

const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 1e8, 1e9];
const SECONDS = [10, 20, 30, ...[1, 2, 5, 10, 15, 30, 60].map((minutes) => 60 * minutes)];

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const faded = (hex, share) => hex + Math.round(share * 255).toString(16).padStart(2, "0");
const fromZero = (_, __, most) => [0, Math.max(1, most * 1.12)];

export function line(name, { filled = false, dashed = false } = {}) {
  const stroke = colour(name);
  return {
    stroke, width: 2, points: { show: false }, dash: dashed ? [5, 4] : undefined,
    fill: filled ? faded(stroke, 0.14) : undefined, spanGaps: false,
  };
}

export class Chart {
  constructor(where, makeSeries, tip) {
    this.where = where;
    this.makeSeries = makeSeries;
    this.tip = tip;
    this.plot = null;
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(where);
    // The colours are read when a chart is made.
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.forget());
  }

  forget() {
    this.plot?.destroy();
    this.plot = null;
  }

  size() {
    return { width: this.where.clientWidth, height: this.where.clientHeight };
  }

  show(data) {
    if (this.plot) {
      this.plot.setData(data);
      return;
    }
    this.where.replaceChildren();
    this.plot = new uPlot(this.options(), data, this.where);
  }

  options() {
    const font = '12px system-ui, "Segoe UI", Roboto, sans-serif';
    const axis = { stroke: colour("--soft"), font, ticks: { show: false }, grid: { stroke: colour("--line"), width: 1 } };
    return {
      ...this.size(),
      padding: [8, 20, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      scales: { x: { time: true }, y: { range: fromZero } },
      axes: [
        { ...axis, grid: { show: false }, values: instants, incrs: SECONDS, space: 84, size: 26, gap: 8 },
        { ...axis, size: 52, space: 34, incrs: WHOLE, values: (_, all) => all.map(short) },
      ],
      series: [{}, ...this.makeSeries()],
      plugins: [this.tooltip()],
    };
  }

  tooltip() {
    const box = element("div", "tip");
    box.hidden = true;
    return {
      hooks: {
        init: (plot) => {
          plot.over.append(box);
          plot.over.addEventListener("mouseleave", () => { box.hidden = true; });
        },
        setCursor: (plot) => {
          const index = plot.cursor.idx;
          const lines = index == null || plot.cursor.left < 0 ? [] : this.tip(index);
          box.hidden = !lines.length;
          if (!lines.length) return;
          box.replaceChildren(...lines.map((text, n) => element(n ? "span" : "b", "", text)));
          const left = plot.cursor.left + 14;
          const turn = left + box.offsetWidth > plot.over.clientWidth;
          box.style.left = `${turn ? plot.cursor.left - box.offsetWidth - 14 : left}px`;
          box.style.top = "4px";
        },
      },
    };
  }
}

// Ticks less than a minute apart would carry the same text again and again.
function instants(_plot, all, _axis, _space, stepS) {
  return all.map(stepS < 60 ? timeExact : time);
}
