// The operator's overview: alarms to acknowledge, the pipeline, silent sensors, and how much comes of what.
import { NO_TOKEN, homeLink, mayAct, post, showAlarms } from "./acts.js";
import { Chart, bars, colour, fromZero, kindColour, steps } from "./charts.js";
import { ago, at, chosen, counted, element, keep, lasting, number, repeat, say, set, share, state, timeExact, when } from "./show.js";

const SHOWN_SILENT = 8;
const WINDOWS_MAX = 400;
const ENGINES = { local: "ehkafka app", spark: "Spark" };
let again = () => {};
let latest = null;
const hours = chosen("hours", ["1", "6", "24"], "1", () => again());
const kind = chosen("kind", null, "", () => again());
const which = chosen("state", ["all", "open"], "all", () => again());

const sum = (values) => values.reduce((a, b) => a + b, 0);
// The last point of each series only ends the last window; what is pointed at there is that window.
const ended = (begins, lengthS) => [...begins, begins.at(-1) + lengthS];
const held = (values) => [...values, values.at(-1)];
const pointed = (begins, index) => Math.min(index, begins.length - 1);
const options = { range: fromZero, span: ({ data: [times] }) => [times[0], times.at(-1)] };
const rates = new Chart(at("rates"), { ...options, bySeconds: true }, (index) => {
  const { windows, kinds, spoilt } = latest;
  const n = pointed(windows.begin_s, index);
  const lines = [...kinds.map((one) => [one.label, one.readings[n]]), ["Spoilt", spoilt[n]]];
  const open = windows.is_whole[n] ? [] : ["may still grow"];
  return [when(windows.begin_s[n], timeExact), ...lines.map(([name, readings]) => `${name} ${number(readings / windows.length_s)} /s`), ...open];
});
const alarms = new Chart(at("alarms"), { ...options, bySeconds: true, space: 26 }, (index) => {
  const n = pointed(latest.windows.begin_s, index);
  return [when(latest.windows.begin_s[n], timeExact), counted(latest.windows.alarms[n], "alarm")];
});

function tile(name, value, note) {
  set(document.querySelector(`[data-number="${name}"]`), value);
  if (note !== undefined) set(at(`${name}-note`), note);
}

function tiles(answer) {
  const { windows, kinds, silent, spoilt } = answer;
  const whole = windows.is_whole.flatMap((is, n) => (is ? [n] : [])).slice(-3);
  if (whole.length) {
    const readings = sum(kinds.flatMap((one) => whole.map((n) => one.readings[n])));
    tile("rate", number(readings / (whole.length * windows.length_s)), `over ${whole.length * windows.length_s} s to ${timeExact(windows.begin_s[whole.at(-1)] + windows.length_s)}`);
  }
  tile("homes", number(answer.homes));
  tile("readings", number(answer.readings), `${number(answer.blobs)} blobs, ${number(answer.rows)} rows`);
  const alarmed = sum(windows.alarms);
  set(document.querySelector('#alarm-tile .number'), number(alarmed));
  set(at("alarm-note"), answer.alarms.length ? `the latest at ${when(answer.alarms[0].at_s, timeExact)}` : "none so far");
  at("alarm-tile").classList.toggle("alarmed", answer.alarms.some((alarm) => alarm.acknowledged_at_s == null));
  tile("silent", number(silent.sensors), `in ${counted(silent.homes, "home")}, for 3 intervals or longer`);
  tile("spoilt", spoilt.share == null ? "–" : share(spoilt.share), `${number(spoilt.count)} not counted`);
}

// What is drawn: not the oldest window, which the beginning or a deletion has cut; of a long span several as one.
function drawn({ windows, kinds, spoilt }) {
  const few = Math.ceil(windows.begin_s.length / WINDOWS_MAX) || 1;
  const length = few * windows.length_s;
  const first = windows.begin_s.findIndex((begin, n) => n > 0 && begin % length === 0);
  const places = first < 0 ? [] : [...windows.begin_s.keys()].filter((n) => n >= first && (n - first) % few === 0);
  const together = (values) => places.map((n) => sum(values.slice(n, n + few)));
  return {
    windows: { length_s: length, begin_s: places.map((n) => windows.begin_s[n]), alarms: together(windows.alarms), is_whole: places.map((n) => windows.is_whole[n + few - 1] ?? false) },
    kinds: kinds.map((one) => ({ ...one, readings: together(one.readings) })),
    spoilt: together(spoilt.per_window),
  };
}

// Stacked: each series is drawn as the sum of itself and all below it, the highest first.
function stacked({ windows, kinds }) {
  let below = windows.begin_s.map(() => 0);
  const sums = kinds.map((one) => held(below = below.map((value, n) => value + one.readings[n] / windows.length_s)));
  const series = kinds.map((one) => steps(colour("--card"), kindColour(one.kind)));
  return { series: series.reverse(), data: [ended(windows.begin_s, windows.length_s), ...sums.reverse()], total: below };
}

function legend({ windows, kinds }) {
  const last = windows.is_whole.lastIndexOf(true);
  keep(at("legend"), kinds, (one) => `${one.kind} ${one.unit}`, () => element("span", "", element("i"), element("em"), element("b")), (entry, one) => {
    entry.children[0].style.background = kindColour(one.kind);
    set(entry.children[1], one.label);
    set(entry.children[2], number((one.readings[last] ?? 0) / (windows.length_s || 1)));
    Object.assign(entry.dataset, { kind: one.kind, readings: sum(one.readings) });
    if (one.new && !entry.children[3]) entry.append(element("strong", "badge", "new"));
    if (!one.new) entry.children[3]?.remove();
  });
}

function charts({ windows, kinds }) {
  const growing = windows.begin_s.filter((_, n) => !windows.is_whole[n]).map((begin) => [begin, begin + windows.length_s]);
  at("open-windows").hidden = !growing.length;
  if (windows.begin_s.length < 2) return;
  const { series, data, total } = stacked({ windows, kinds });
  const from = `since ${when(windows.begin_s[0])}`;
  rates.show(kinds.map((one) => one.kind).join(), series, data, `Readings a second ${from}: ${number(Math.min(...total))} to ${number(Math.max(...total))}`, growing);
  set(at("bars-title"), `Alarms, every ${lasting(windows.length_s)}`);
  alarms.show("alarms", [bars(colour("--alarm"))], [data[0], [...windows.alarms, null]], `Alarms ${from}: ${number(sum(windows.alarms))}`, growing);
}

function alarmList(answer, found) {
  for (const one of answer.kinds) if (![...at("kind").options].some((option) => option.value === one.kind)) at("kind").append(new Option(one.label, one.kind));
  set(at("no-token"), mayAct() || !found.open ? "" : `To acknowledge: ${NO_TOKEN.replace(/^O/, "o")}`);
  showAlarms(at("latest"), found.alarms, again, true);
  const of = kind() ? ` of ${at("kind").selectedOptions[0].text.toLowerCase()}` : "";
  const none = which() === "open" ? `No alarm${of} waits to be acknowledged.` : `No alarm${of} so far.`;
  set(at("no-alarms"), found.alarms.length || !answer.as_of_s ? "" : none);
  set(at("alarms-title"), found.total ? `Alarms${of}: ${number(found.total)}, ${number(found.open)} to acknowledge` : "Alarms");
}

function silentList({ silent, as_of_s: asOf }) {
  keep(at("silent"), silent.latest.slice(0, SHOWN_SILENT), (one) => `${one.home} ${one.kind} ${one.last_at_s}`, (one) => {
    return element("li", "", homeLink(one), element("span", "what", one.label), element("time", "", `since ${when(one.last_at_s)}`));
  });
  const more = silent.sensors - Math.min(SHOWN_SILENT, silent.latest.length);
  set(at("none-silent"), !asOf ? "Waiting for the first blob …" : silent.sensors ? (more ? `and ${number(more)} more` : "") : "Every sensor has spoken within 3 of its intervals.");
}

const LOOKS = { running: ["quiet"], starting: ["open", "starting"], down: ["alarm"] };
const letters = new Map();

function pipeline({ pipeline: line, now_s: nowS }) {
  const since = line.since_s ? ` since ${when(line.since_s, timeExact)}` : "";
  const [look, shape] = LOOKS[line.state] ?? ["unknown"];
  state(at("engine"), look, `${ENGINES[line.engine] ?? "Engine"}: ${line.state}${since}`, shape);
  const restarts = line.restarts ? `Started again ${counted(line.restarts, "time")}.` : "";
  set(at("engine-note"), [line.step, restarts, line.problem].filter(Boolean).join(" · "));
  tile("lag", line.lag == null ? "–" : number(line.lag), line.lag == null ? "records not yet counted: unknown" : `${line.lag === 1 ? "record" : "records"} not yet counted, ${ago(Math.max(0, nowS - line.lag_at_s))}`);
  const members = [...new Set(line.partitions.map((one) => one.member).filter(Boolean))].sort();
  for (const name of members) if (!letters.has(name)) letters.set(name, String.fromCharCode(65 + (letters.size % 26)));
  keep(at("partitions"), line.partitions, (one) => String(one.partition), () => element("li", "", element("b"), element("span")), (cell, one) => {
    const letter = letters.get(one.member) ?? "–";
    set(cell.firstElementChild, letter);
    set(cell.lastElementChild, String(one.partition));
    cell.dataset.holder = one.member ? letter.charCodeAt(0) % 4 : "";
    cell.dataset.member = one.member ?? "";
    const lag = one.lag == null ? "" : `, lag ${number(one.lag)}`;
    cell.title = `Partition ${one.partition}: ${one.member ?? "held by no consumer"}${lag}`;
    cell.setAttribute("aria-label", cell.title);
  });
  keep(at("holders"), members, (name) => name, (name) => element("li", "", element("b", "", letters.get(name)), element("span")), (entry, name) => {
    set(entry.lastElementChild, `${name}: ${counted(line.partitions.filter((one) => one.member === name).length, "partition")}`);
  });
  for (const [name, { can, why }] of Object.entries(line.actions)) {
    at(name).disabled = !can || !mayAct();
    set(at(`${name}-why`), can ? (mayAct() ? "" : NO_TOKEN) : why ?? "");
  }
}

for (const name of ["sell", "second"]) {
  at(name).addEventListener("click", async () => {
    const done = await post(`/api/actions/${name}`, {});
    if (done) say(done.words);
    again();
  });
}

function show(answer, found) {
  latest = drawn(answer);
  tiles(answer);
  legend(answer);
  charts(latest);
  alarmList(answer, found);
  silentList(answer);
  pipeline(answer);
}

// The search answers below its field: homes as links, or that none matches; a single one is opened at once.
at("find").addEventListener("submit", async (event) => {
  event.preventDefault();
  const wanted = at("wanted").value.trim();
  at("found").hidden = !wanted;
  if (!wanted) return;
  const answer = await fetch(`/api/find?${new URLSearchParams({ q: wanted })}`).then((one) => (one.ok ? one.json() : null), () => null);
  const found = answer?.homes ?? [];
  if (found.length === 1) location.assign(`/home/${encodeURIComponent(found[0].home)}`);
  const none = `No home matches “${wanted}”. Search by number (33) or by a part of the address (Alder Lane).`;
  set(at("found-words"), !answer ? "The page’s server does not answer." : found.length ? counted(found.length, "home") : none);
  keep(at("found-homes"), found, (one) => one.home, (one) => element("li", "", homeLink(one, element("small", "", one.home))));
});
document.addEventListener("click", ({ target }) => { if (!at("find").contains(target)) at("found").hidden = true; });

again = repeat(() => [`/api/overview?hours=${hours()}`, `/api/alarms?${new URLSearchParams({ kind: kind(), state: which(), limit: 50 })}`], show);
