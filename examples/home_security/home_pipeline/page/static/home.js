// A resident's page: what the home's sensors say, minute by minute, and whether anything is alarming.
import { Chart, QUARTERS, ago, at, bars, colour, element, faded, freshness, fromZero, inOrder, kindColour, measure, notice, number, repeat, time, title } from "./show.js";

const RECENT_S = 600;
const name = decodeURIComponent(location.pathname.split("/").at(-1));
const cards = new Map();
let latest = null;

const around = (_, least, most) => {
  const room = Math.max(1, (most - least) * 0.15);
  return [least - room, most + room];
};

const word = (sensor) => ({ motion: ["still", "moving"], door: ["closed", "open"] })[sensor.kind]?.[sensor.last];

function card(sensor) {
  const key = `${sensor.kind} ${sensor.unit}`;
  if (!cards.has(key)) cards.set(key, makeCard(sensor, key));
  return cards.get(key);
}

function makeCard(sensor, key) {
  const dot = element("i", "dot");
  dot.style.background = kindColour(sensor.kind);
  const value = element("p", "number");
  const note = element("p", "note");
  const facts = element("p", "facts");
  const axis = element("p", "axis", sensor.unit ? `${sensor.unit}, mean and range of each minute` : "readings a minute");
  const plot = element("div", "plot", element("p", "empty", "Drawn from the second minute on."));
  const box = element("article", "sensor", element("div", "", element("h2", "", dot, title(sensor.kind)), value, note), facts, axis, plot);
  box.dataset.kind = sensor.kind;
  at("sensors").append(box);
  const find = () => latest.kinds.find((one) => `${one.kind} ${one.unit}` === key);
  const options = sensor.unit ? { range: around, label: measure, incrs: QUARTERS, space: 22, bands: [{ series: [2, 1], fill: faded(kindColour(sensor.kind), 0.16) }] } : { range: fromZero, space: 30, bars: true };
  const chart = new Chart(plot, options, (index) => tip(find(), index));
  return { box, value, note, facts, chart };
}

function tip(sensor, index) {
  if (!sensor.readings[index]) return [];
  const lines = [time(latest.minutes[index]), `${number(sensor.readings[index])} readings`];
  if (sensor.unit) lines.push(`${measure(sensor.low[index])} – ${measure(sensor.high[index])} ${sensor.unit}`);
  return lines;
}

function fill(sensor, { box, value, note, facts, chart }, answer) {
  const said = word(sensor);
  value.replaceChildren(said ? title(said) : measure(sensor.last));
  if (!said && sensor.unit) value.append(element("small", "", sensor.unit));
  note.textContent = ago(Math.max(0, answer.now_s - sensor.last_at_s));
  const count = element("b", "", number(sensor.count));
  count.dataset.number = "count";
  facts.replaceChildren(count, " readings");
  if (sensor.unit) facts.append(element("br"), `${measure(sensor.lowest)} – ${measure(sensor.highest)} ${sensor.unit}`);
  const hue = kindColour(sensor.kind);
  const edge = { stroke: faded(hue, 0), width: 0, points: { show: false }, spanGaps: true };
  if (answer.minutes.length < 2) {
    // Nothing to draw a line through yet.
  } else if (sensor.unit) {
    const mean = { stroke: hue, width: 2.5, points: { show: sensor.mean.filter((v) => v != null).length < 3, size: 7, fill: hue }, spanGaps: true };
    chart.show("lines", [edge, edge, mean], [answer.minutes, sensor.low, sensor.high, sensor.mean]);
  } else {
    chart.show("bars", [bars(hue)], [answer.minutes, sensor.readings]);
  }
  box.classList.toggle("alarmed", sensor.alarms > 0);
  Object.assign(box.dataset, { count: sensor.count, alarms: sensor.alarms, total: sensor.total, lowest: sensor.lowest, highest: sensor.highest, last: sensor.last });
}

function state(answer) {
  const recent = answer.alarms.find((alarm) => answer.as_of_s - alarm.minute_s < RECENT_S);
  const heard = Math.max(...answer.kinds.map((sensor) => sensor.last_at_s));
  const silent = answer.as_of_s - heard > RECENT_S;
  at("state").hidden = !answer.kinds.length;
  at("state").textContent = recent ? `${title(recent.kind)} alarm at ${time(recent.minute_s)}` : silent ? `Not heard of since ${time(heard)}` : "All quiet";
  at("state").classList.toggle("alarm", Boolean(recent));
  at("state").classList.toggle("silent", silent && !recent);
  at("alarm-panel").hidden = !answer.alarms.length;
  at("latest").replaceChildren(...answer.alarms.map((alarm) => element("li", "",
    element("time", "", time(alarm.minute_s)), title(alarm.kind),
    element("b", "", `${measure(alarm.high)} ${alarm.unit}`))));
}

function show(answer) {
  latest = answer;
  notice(answer.problem);
  freshness(answer);
  at("nothing").hidden = answer.kinds.length > 0 || !answer.as_of_s || answer.is_late;
  state(answer);
  for (const sensor of answer.kinds.sort(inOrder)) fill(sensor, card(sensor), answer);
}

if (/^home-[0-9]{6}$/.test(name)) {
  at("name").textContent = `Home ${name.slice(5)}`;
  document.title = `Home security · ${name}`;
  repeat(`/api/home/${name}`, show);
} else {
  at("fresh").textContent = "There is no such home: names are like home-000042.";
}
