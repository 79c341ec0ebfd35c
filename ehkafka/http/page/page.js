// The page: hears the server's state and hands it to the sections.
import { showAccess, watchAccess } from "./access.js";
import { Kept, at, element, foreign, write } from "./dom.js";
import { showKeys } from "./keys.js";
import { showLetters } from "./letters.js";
import { showPanels, words } from "./panels.js";
import { showPlots } from "./plots.js";
import { follow } from "./stream.js";
import { counted, span, timeExact, visible } from "./words.js";

const OLD_MS = 4000;
let latest = null;
let isLocked = false;

function takeState(state) {
  latest = state;
  // Not one that a person fills in to act.
  if (isLocked) at("token-form").hidden = true;
  setLocked(false);
  if (!document.hidden) show(state);
}

function setLocked(now) {
  isLocked = now;
  document.body.classList.toggle("locked", now);
}

function show(state) {
  const { snapshot } = state;
  at("content").hidden = false;
  showAccess(state.access);
  showHead(state);
  tiles.show(state.tiles, (tile) => tile.name);
  showKeys(state);
  showPlots(state.history);
  showPanels(state.panels, snapshot.taken_at_s);
  showLetters(state.letters?.topics ?? []);
}

function showHead({ snapshot, health, process, silent_members: silent = [] }) {
  const group = visible(snapshot.group, 120);
  write(at("group"), group);
  const problems = health.problems ?? health.reasons.length;
  document.title = `${problems ? `(${problems}) ` : ""}${group} · ehkafka`;
  write(at("fresh"), `At ${visible(snapshot.endpoint, 120)} · as of ${timeExact(snapshot.taken_at_s)} · up for ${span(process?.uptime_s ?? snapshot.uptime_s)}`);
  const pill = at("state");
  pill.hidden = false;
  pill.classList.toggle("alarm", !health.ok);
  const standby = snapshot.is_standby ? ", standby" : "";
  write(pill, `${snapshot.state[0].toUpperCase()}${visible(snapshot.state.slice(1), 20)}${standby} · ${health.ok ? "healthy" : counted(problems, "problem")}`);
  sentences(at("reasons"), health.reasons);
  sentences(at("notes"), [...health.notes, ...silent.map((member) => `Member ${member} does not answer; its data is from its last answer.`)]);
}

function sentences(list, texts) {
  list.hidden = !texts.length;
  const key = texts.join("\n");
  if (list.dataset.shown === key) return;
  list.dataset.shown = key;
  list.replaceChildren(...texts.map((text) => element("li", "", foreign(text))));
}

const tiles = new Kept(at("tiles"), ({ name, heading }) => {
  const value = element("p", "number");
  value.dataset.number = name;
  const note = element("p", "note");
  note.id = `${name}-note`;
  const node = element("div", "tile", element("h2", "", heading), value, note);
  return {
    node,
    fill(now) {
      write(value, words(now.kind, now.value));
      write(note, visible(now.note, 120) || " ");
      node.classList.toggle("alarmed", now.is_urgent);
    },
  };
});

// Before the next state has it.
function noteEvent({ at_s, level, sentence }) {
  const events = latest.panels.find((panel) => panel.name === "events");
  const before = events.rows.map((one, n) => ({ ...one, name: String(n + 1) }));
  events.rows = [{ name: "0", cells: [at_s, level, sentence], is_urgent: level === "warning" }, ...before];
  showPanels(latest.panels, latest.snapshot.taken_at_s);
}

const stream = follow({
  state: takeState,
  event(event) {
    if (latest) noteEvent(event);
  },
  locked(text) {
    setLocked(true);
    at("content").hidden = true;
    at("broken").hidden = true;
    at("state").hidden = true;
    write(at("fresh"), "");
    write(at("group"), "ehkafka");
    askForToken(text);
  },
  age(ageMs, problem) {
    const isOld = ageMs === null ? Boolean(problem) : ageMs > OLD_MS;
    at("broken").hidden = !isOld;
    document.body.classList.toggle("old", isOld);
    if (!isOld) return;
    const since = ageMs === null ? "" : ` This page is ${span(ageMs / 1000)} old.`;
    write(at("broken"), `No connection to the app: ${problem || "it sends no data"}.${since} Still trying.`);
  },
});
const askForToken = watchAccess(() => stream.again());

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && latest) show(latest);
});
