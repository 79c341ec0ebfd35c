// The last hour as four plots.
import { Chart, line } from "./chart.js";
import { at } from "./dom.js";
import { NONE, number, rate, span, timeExact } from "./words.js";

let shown = null;
const head = (index) => timeExact(shown.at_s[index]);
const known = (value, words) => (value === null ? "not known" : words(value));

const PLOTS = [
  {
    id: "plot-rates", names: ["handled_per_s", "received_per_s"],
    series: () => [line("--k0", { filled: true }), line("--k1", { dashed: true })],
    tip: (n) => [head(n), `${known(shown.handled_per_s[n], rate)} handled`, `${known(shown.received_per_s[n], rate)} received`],
  },
  { id: "plot-lag", names: ["lag_records"], series: () => [line("--k2", { filled: true })], tip: (n) => [head(n), known(shown.lag_records[n], number)] },
  { id: "plot-backlog", names: ["backlog_records"], series: () => [line("--k4", { filled: true })], tip: (n) => [head(n), known(shown.backlog_records[n], number)] },
  { id: "plot-oldest", names: ["oldest_s"], series: () => [line("--alarm", { filled: true })], tip: (n) => [head(n), known(shown.oldest_s[n], span) || NONE] },
].map((plot) => ({ ...plot, chart: new Chart(at(plot.id), plot.series, plot.tip) }));

export function showPlots(history) {
  if (!history || history.at_s.length < 2) return;
  shown = history;
  for (const { chart, names } of PLOTS) chart.show([history.at_s, ...names.map((name) => history[name])]);
}
