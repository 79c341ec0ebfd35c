// The operator's overview: how much comes, of what, from how many homes, and what is alarming.
import { Chart, at, bars, colour, element, freshness, fromZero, kindColour, measure, notice, number, repeat, time, timeExact, title } from "./show.js";

let latest = null;

const rates = new Chart(at("rates"), { range: fromZero, bySeconds: true }, (index) => {
  const { windows, kinds } = latest;
  const lines = kinds.map((kind) => `${title(kind.kind)} ${number(kind.readings[index] / windows.length_s)} /s`);
  return [timeExact(windows.begin_s[index]), ...lines];
});
const homes = new Chart(at("homes"), { range: fromZero, bars: true, space: 26 }, (index) => [
  time(latest.minutes.begin_s[index]), `${number(latest.minutes.homes[index])} homes`]);
const alarms = new Chart(at("alarms"), { range: fromZero, bars: true, bySeconds: true, space: 26 }, (index) => [
  timeExact(latest.windows.begin_s[index]), `${number(latest.windows.alarms[index])} alarms`]);

function set(name, value) {
  document.querySelector(`[data-number="${name}"]`).textContent = value;
}

function tiles(answer) {
  const { windows, kinds } = answer;
  const recent = Math.min(3, windows.begin_s.length);
  const sum = kinds.reduce((total, kind) => total + kind.readings.slice(-recent).reduce((a, b) => a + b, 0), 0);
  if (recent) set("rate", number(sum / (recent * windows.length_s)));
  at("rate-note").textContent = recent ? `over the last ${recent * windows.length_s} s shown` : "";
  set("homes", number(answer.homes));
  set("readings", number(answer.readings));
  at("readings-note").textContent = `${number(answer.blobs)} blobs, ${number(answer.rows)} rows`;
  const alarmed = windows.alarms.reduce((a, b) => a + b, 0);
  set("alarms", number(alarmed));
  at("alarm-note").textContent = answer.alarms.length ? `the latest at ${time(answer.alarms[0].minute_s)}` : "none so far";
  at("alarm-tile").classList.toggle("alarmed", alarmed > 0);
}

// Stacked: each series is drawn as the sum of itself and all below it, the highest first.
function stacked({ windows, kinds }) {
  const sums = [];
  let below = windows.begin_s.map(() => 0);
  for (const kind of kinds) {
    below = below.map((value, index) => value + kind.readings[index] / windows.length_s);
    sums.push(below);
  }
  const card = colour("--card");
  const series = kinds.map((kind) => {
    const hue = kindColour(kind.kind);
    return { stroke: card, width: 1.5, fill: hue, points: { show: false } };
  });
  return { series: series.reverse(), data: [windows.begin_s, ...sums.reverse()] };
}

function legend({ windows, kinds }) {
  at("legend").replaceChildren(...kinds.map((kind) => {
    const dot = element("i");
    dot.style.background = kindColour(kind.kind);
    const rate = element("b", "", number((kind.readings.at(-1) ?? 0) / (windows.length_s || 1)));
    const entry = element("span", "", dot, `${title(kind.kind)} `, rate);
    entry.dataset.kind = kind.kind;
    entry.dataset.readings = kind.readings.reduce((a, b) => a + b, 0);
    if (kind.new) entry.append(element("em", "badge", "new"));
    return entry;
  }));
}

function events(found, asOf) {
  at("no-alarms").hidden = found.length > 0 || !asOf;
  at("latest").replaceChildren(...found.map((alarm) => {
    const link = element("a", "", `Home ${alarm.home.slice(5)}`);
    link.href = `/home/${encodeURIComponent(alarm.home)}`;
    const what = element("b", "", `${title(alarm.kind)} ${measure(alarm.high)} ${alarm.unit}`);
    return element("li", "", element("time", "", time(alarm.minute_s)), link, what);
  }));
}

// The oldest window and the oldest minute are cut: by the beginning, or by what was deleted.
function whole(answer) {
  const { windows, minutes, kinds } = answer;
  if (windows.begin_s.length < 4) return answer;
  return {
    ...answer,
    minutes: minutes.begin_s.length < 2 ? minutes : { begin_s: minutes.begin_s.slice(1), homes: minutes.homes.slice(1) },
    windows: { ...windows, begin_s: windows.begin_s.slice(1), alarms: windows.alarms.slice(1) },
    kinds: kinds.map((kind) => ({ ...kind, readings: kind.readings.slice(1) })),
  };
}

function show(answer) {
  latest = whole(answer);
  notice(answer.problem);
  freshness(answer);
  tiles(answer);
  legend(answer);
  events(answer.alarms, answer.as_of_s);
  const { windows, minutes, kinds } = latest;
  if (windows.begin_s.length > 1) {
    const { series, data } = stacked(latest);
    rates.show(kinds.map((kind) => kind.kind).join(), series, data);
    at("alarms-title").textContent = `Alarms, every ${windows.length_s} s`;
    alarms.show("alarms", [bars(colour("--alarm"))], [windows.begin_s, windows.alarms]);
  }
  if (minutes.begin_s.length) homes.show("bars", [bars(colour("--accent"))], [minutes.begin_s, minutes.homes]);
}

at("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const wanted = at("home").value.trim().toLowerCase().replace(/^home-?/, "");
  if (/^[0-9]{1,6}$/.test(wanted)) location.assign(`/home/home-${wanted.padStart(6, "0")}`);
});

repeat("/api/overview", show);
