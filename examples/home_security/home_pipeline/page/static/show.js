// What both pages share: words for numbers and times, the charts' look, asking the server again and again.

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const quarter = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 2 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const exact = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const POLL_MS = 2000;
export const number = (value) => whole.format(value);
export const measure = (value) => quarter.format(value);
export const time = (atS) => clock.format(new Date(atS * 1000));
export const timeExact = (atS) => exact.format(new Date(atS * 1000));
export const title = (kind) => (kind[0].toUpperCase() + kind.slice(1)).replaceAll("_", " ");
export const at = (id) => document.getElementById(id);

export function ago(seconds) {
  if (seconds < 1.5) return "just now";
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  return `${Math.round(seconds / 60)} min ago`;
}

// Text alone ever reaches the document: no string is parsed as HTML on these pages.
export function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// A kind keeps its colour on both pages: by its name among the known ones, else by its letters.
const KNOWN = ["temperature", "motion", "power", "door", "smoke", "water"];
export const inOrder = (one, other) => (KNOWN.indexOf(one.kind) + 1 || 99) - (KNOWN.indexOf(other.kind) + 1 || 99);
export function kindColour(kind) {
  const known = KNOWN.indexOf(kind);
  const letters = [...kind].reduce((sum, letter) => sum + letter.charCodeAt(0), 0);
  return colour(`--k${known >= 0 ? known : 6 + (letters % 2)}`);
}

export function faded(hex, share) {
  return hex + Math.round(share * 255).toString(16).padStart(2, "0");
}

export function repeat(ask, show) {
  const round = async () => {
    try {
      const answer = await fetch(ask, { headers: { accept: "application/json" } });
      if (!answer.ok) throw new Error(String(answer.status));
      show(await answer.json());
    } catch (error) {
      late(true, "");
      notice(error instanceof TypeError ? "The page’s server does not answer; still trying." : `Cannot show this (${error.message}).`);
    }
    setTimeout(round, POLL_MS);
  };
  round();
}

export function notice(text) {
  at("problem").hidden = !text;
  at("problem").textContent = text || "";
}

export function freshness(answer) {
  const age = Math.max(0, answer.now_s - answer.as_of_s);
  at("fresh").textContent = answer.as_of_s
    ? `As of ${timeExact(answer.as_of_s)}, ${ago(age)} · the last ${Math.round(answer.keep_s / 60)} minutes`
    : "Waiting for the first blob …";
  at("fresh").dataset.asOf = answer.as_of_s;
  late(answer.is_late, `Nothing has been counted since ${timeExact(answer.as_of_s)}`);
}

// What is shown is no longer how things are: everything turns grey, and no word stays that calls it quiet.
function late(isLate, words) {
  document.body.classList.toggle("late", isLate);
  at("late").hidden = !isLate || !words;
  at("late").textContent = words;
}

const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 1e7];
export const QUARTERS = [0.25, 0.5, ...WHOLE];

const MINUTES = [1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 1440].map((minutes) => 60 * minutes);
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

  show(key, series, data) {
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
    const soft = colour("--soft");
    const line = colour("--line");
    const font = '12px system-ui, "Segoe UI", Roboto, sans-serif';
    const axis = { stroke: soft, font, ticks: { show: false }, grid: { stroke: line, width: 1 } };
    return {
      ...this.size(),
      padding: [8, 32, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      scales: { x: { time: true, range: this.options.bars ? aroundBars : undefined }, y: this.options.range ? { range: this.options.range } : {} },
      axes: [
        { ...axis, grid: { show: false }, values: instants, incrs: this.options.bySeconds ? SECONDS : MINUTES, space: 84, size: 26, gap: 8 },
        { ...axis, size: 52, space: this.options.space ?? 44, incrs: this.options.incrs ?? WHOLE, values: (_, all) => all.map(this.options.label ?? number) },
      ],
      series: [{}, ...series],
      bands: this.options.bands ?? [],
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

export const fromZero = (_, __, most) => [0, Math.max(1, most * 1.12)];

// Room for half a bar at both ends.
function aroundBars(plot) {
  const times = plot.data[0];
  const step = times.length > 1 ? times[1] - times[0] : 60;
  return [times[0] - step / 2, times.at(-1) + step / 2];
}

export function bars(stroke) {
  return { stroke, fill: faded(stroke, 0.75), width: 0, paths: uPlot.paths.bars({ size: [0.62, 18], radius: 0.25 }), points: { show: false } };
}
