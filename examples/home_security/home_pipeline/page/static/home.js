// A resident's page: the state of the home in one line, alarms until they are acknowledged, each sensor by the minute.
import { NO_TOKEN, mayAct, showAlarms, word } from "./acts.js";
import { Chart, QUARTERS, blocks, colour, faded, kindColour, line } from "./charts.js";
import { ago, at, chosen, counted, element, keep, lasting, measure, number, repeat, set, state, timeExact, when } from "./show.js";

const LEAST_MINUTES = 15;
const HUES = { motion: "--k2", glass: "--alarm" };
const ORDER = ["door", "window", "motion", "glass", "temperature", "power", "smoke"];
const home = decodeURIComponent(location.pathname.split("/").at(-1));
let again = () => {};
const hours = chosen("hours", ["1", "6", "24"], "24", () => again());
let minutes = [];
let places = [];

const span = () => [minutes[0], minutes.at(-1) + 60];
const BAND = { span, range: () => [0, 1], isBand: true };
const ticks = new Chart(at("ticks"), { ...BAND, hasTimes: true }, () => []);
const isEntry = (sensor) => /^(door|window)/.test(sensor.kind);
const inOrder = (one, other) => rank(one) - rank(other) || one.kind.localeCompare(other.kind);
const rank = (sensor) => ORDER.findIndex((kind) => sensor.kind.startsWith(kind)) + 1 || 99;
const filled = (series) => places.map((place) => (place == null ? null : series[place]));

// Every minute up to now, from the first of which anything is kept; minutes without any answer are there, too.
function layOut(answer) {
  const end = Math.floor(answer.now_s / 60) * 60;
  const first = Math.min(answer.minutes[0] ?? end, end - 60 * (LEAST_MINUTES - 1));
  const begin = Math.max(first, end - 3600 * hours() + 60);
  minutes = Array.from({ length: (end - begin) / 60 + 1 }, (_, n) => begin + 60 * n);
  const known = new Map(answer.minutes.map((minute, place) => [minute, place]));
  places = minutes.map((minute) => known.get(minute));
}

function since(sensor) {
  if (sensor.is_silent) return `Silent since ${when(sensor.last_at_s)}`;
  if (!sensor.is_switch || sensor.since_s == null) return "";
  return `${word(sensor.kind, sensor.value)} since ${when(sensor.since_s)}${sensor.since_is_earliest ? " or earlier" : ""}`;
}

function lookOf(sensor) {
  if (sensor.is_silent) return ["silent"];
  if (!sensor.value) return ["quiet"];
  if (sensor.kind.startsWith("glass")) return ["alarm"];
  return isEntry(sensor) ? ["open"] : ["quiet", "motion"];
}

const inWords = (sensor) => `${sensor.label} ${since(sensor).replace(/^./, (letter) => letter.toLowerCase())}`;

function headline(answer) {
  const waiting = answer.alarms.filter((alarm) => alarm.acknowledged_at_s == null);
  const facts = {
    alarm: waiting.filter((alarm, n) => waiting.findIndex((one) => one.kind === alarm.kind) === n)
      .map((alarm) => `${alarm.label} alarm ${when(alarm.at_s, timeExact)}`),
    open: answer.sensors.filter((one) => isEntry(one) && one.value > 0 && !one.is_silent).map(inWords),
    silent: answer.sensors.filter((one) => one.is_silent).map((one) => inWords(one) + (isEntry(one) ? `, ${word(one.kind, one.value).toLowerCase()} until then` : "")),
    quiet: ["All quiet"],
  };
  if (answer.open_alarms && !waiting.length) facts.alarm.push(`${counted(answer.open_alarms, "alarm")} to acknowledge`);
  const words = facts[answer.state]?.[0] ?? "The state of this home is not known";
  state(at("state"), answer.state, words);
  const more = [...facts.alarm, ...facts.open, ...facts.silent].filter((one) => one !== words);
  if (answer.state === "quiet") more.push(`Every sensor has spoken in the last ${lasting(Math.max(...answer.sensors.map((one) => one.silent_s)))}; doors and windows are shut.`);
  keep(at("facts"), more, (one) => one, (one) => element("li", "", one));
  document.title = `${words} · ${answer.name}`;
}

function showAlarmPanel(answer) {
  at("alarm-panel").hidden = !answer.alarms.length;
  const waits = answer.open_alarms ? `${counted(answer.open_alarms, "alarm")} to acknowledge.` : "All are acknowledged.";
  set(at("alarm-note"), answer.open_alarms && !mayAct() ? `${waits} ${NO_TOKEN}` : waits);
  showAlarms(at("latest"), answer.alarms, again, false);
}

function makeSwitch(sensor) {
  const said = element("p", "state");
  const plot = element("div", "plot");
  const box = element("article", "sensor switch", element("h3", "", sensor.label), said, element("p", "facts"), plot);
  const words = [0, 1].map((value) => word(sensor.kind, value).toLowerCase());
  box.chart = new Chart(plot, BAND, (index) => [when(minutes[index]), saidIn(box.sensor, index, words)]);
  return box;
}

function saidIn({ low, high }, index, [off, on]) {
  const [least, most] = [low[places[index]], high[places[index]]];
  if (most == null) return "no reading";
  return least === most ? (most ? on : off) : `${off} and ${on}`;
}

function fillSwitch(box, sensor) {
  const [look, shape] = lookOf(sensor);
  state(box.children[1], look, since(sensor), shape);
  box.sensor = sensor;
  const [low, high] = [filled(sensor.low), filled(sensor.high)];
  const on = high.map((value) => (value ? 1 : null));
  const off = low.map((value) => (value === 0 ? 0.14 : null));
  const times = on.filter((value, n) => value && !on[n - 1]).length;
  const unheard = low.filter((value) => value == null).length;
  const words = `${sensor.label} since ${when(minutes[0])}: ${word(sensor.kind, 1).toLowerCase()} ${counted(times, "time")}, ${since(sensor)}; ${counted(unheard, "minute")} without a reading`;
  box.chart.show("band", [blocks(colour("--off")), blocks(colour(HUES[sensor.kind.split("_")[0]] ?? "--band"))], [minutes, off, on], words);
  fillFacts(box, sensor);
}

const around = (_, least, most) => {
  const room = Math.max(1, (most - least) * 0.15);
  return [least - room, most + room];
};

function makeNumber(sensor) {
  const plot = element("div", "plot");
  const box = element("article", "sensor", element("h2", "", sensor.label), element("p", "number"), element("p", "facts"), element("p", "note"), plot);
  box.chart = new Chart(plot, { span, range: around, label: measure, incrs: QUARTERS, space: 22, bands: [{ series: [2, 1], fill: faded(kindColour(sensor.kind), 0.18) }] }, (index) => tip(box.sensor, index));
  return box;
}

function tip(sensor, index) {
  const place = places[index];
  if (place == null || !sensor.readings[place]) return [when(minutes[index]), "no reading"];
  return [when(minutes[index]), `${measure(sensor.low[place])} to ${measure(sensor.high[place])} ${sensor.unit}`, counted(sensor.readings[place], "reading")];
}

function fillNumber(box, sensor, answer) {
  box.sensor = sensor;
  box.children[1].replaceChildren(measure(sensor.value), element("small", "", sensor.unit));
  const note = box.children[3];
  note.className = sensor.is_silent ? "note state" : "note";
  if (sensor.is_silent) state(note, "silent", since(sensor));
  else note.textContent = ago(Math.max(0, answer.now_s - sensor.last_at_s));
  fillFacts(box, sensor, `${measure(sensor.lowest)} to ${measure(sensor.highest)} ${sensor.unit}`);
  const hue = kindColour(sensor.kind);
  const edge = line(faded(hue, 0), 0, sensor.silent_s);
  const series = [edge, edge, line(hue, 2, sensor.silent_s)];
  const words = `${sensor.label} since ${when(minutes[0])}: ${measure(sensor.lowest)} to ${measure(sensor.highest)} ${sensor.unit}, now ${measure(sensor.value)}`;
  box.chart.show("lines", series, [minutes, filled(sensor.low), filled(sensor.high), filled(sensor.mean)], words);
}

function fillFacts(box, sensor, range) {
  const count = element("b", "", number(sensor.count));
  count.dataset.number = "count";
  box.querySelector(".facts").replaceChildren(...(range ? [range, element("br")] : []), count, ` reading${sensor.count === 1 ? "" : "s"}`);
  box.classList.toggle("is-silent", sensor.is_silent);
  const { count: readings, alarms, total, lowest, highest, value: last, kind, since_s: sinceS } = sensor;
  Object.assign(box.dataset, { kind, count: readings, alarms, total, lowest, highest, last, since: sinceS ?? "" });
}

function show(answer) {
  set(at("name"), answer.name);
  layOut(answer);
  const sensors = answer.sensors.sort(inOrder);
  at("nothing").hidden = sensors.length > 0 || !answer.as_of_s || answer.is_late;
  headline(answer);
  showAlarmPanel(answer);
  const switches = sensors.filter((sensor) => sensor.is_switch);
  at("band-panel").hidden = !switches.length;
  const key = (sensor) => `${sensor.kind} ${sensor.unit}`;
  keep(at("switches"), switches, key, makeSwitch, fillSwitch);
  keep(at("sensors"), sensors.filter((sensor) => !sensor.is_switch), key, makeNumber, (box, sensor) => fillNumber(box, sensor, answer));
  if (switches.length) ticks.show("ticks", [{ show: false }], [minutes, minutes.map(() => null)], "");
}

if (/^home-[0-9]{6}$/.test(home)) {
  at("name").textContent = at("number").textContent = `Home ${home.slice(5)}`;
  again = repeat(() => [`/api/home/${home}?hours=${hours()}`], show);
} else {
  at("fresh").textContent = "There is no such home: names are like home-000042.";
}
