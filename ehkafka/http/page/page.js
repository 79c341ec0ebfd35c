// The page: hears the server's state and hands it to the sections.
import { showAccess, watchAccess } from "./access.js";
import { at, element, foreign, write } from "./dom.js";
import { showKeys } from "./keys.js";
import { showLetters } from "./letters.js";
import { noteEvent, showErrors, showEvents, showHandlers, showMembers, showProcess, showRebalances } from "./lists.js";
import { Rates, untilCaughtUp } from "./measures.js";
import { showPartitions } from "./partitions.js";
import { showPlots } from "./plots.js";
import { follow } from "./stream.js";
import { NONE, counted, number, rate, span, timeExact, visible } from "./words.js";

const OLD_MS = 4000;
const rates = new Rates();
let latest = null;
let isLocked = false;

function takeState(state) {
  latest = state;
  rates.note(state.snapshot);
  // Not one that somebody fills in to act.
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
  showTiles(state);
  showKeys(state);
  showPlots(state.history);
  showPartitions(state, rates);
  showMembers(state);
  showErrors(state.errors ?? [], snapshot.taken_at_s);
  showHandlers(snapshot.handlers ?? []);
  showProcess(state);
  showLetters(state.letters?.topics ?? []);
  showEvents(state.events ?? [], snapshot.taken_at_s);
  showRebalances(state.rebalances ?? [], snapshot.taken_at_s);
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
  sentences(at("notes"), [...health.notes, ...silent.map((member) => `Member ${member} does not answer: what it has noted is as it answered last.`)]);
}

function sentences(list, texts) {
  list.hidden = !texts.length;
  const key = texts.join("\n");
  if (list.dataset.shown === key) return;
  list.dataset.shown = key;
  list.replaceChildren(...texts.map((text) => element("li", "", foreign(text))));
}

function showTiles({ snapshot, keys, keys_left_out: leftOut = 0, history }) {
  const set = (name, text) => write(document.querySelector(`[data-number="${name}"]`), text);
  const note = (name, text) => write(at(`${name}-note`), text || " ");
  const handledPerS = rates.total("handled_records") ?? history?.handled_per_s?.at(-1);
  set("rate", rate(handledPerS));
  note("rate", `received ${rate(rates.total("received_records") ?? history?.received_per_s?.at(-1))} a second`);
  set("lag", number(snapshot.lag_records));
  note("lag", lagNote(snapshot, history, handledPerS));
  set("backlog", number(snapshot.backlog_records));
  note("backlog", snapshot.parked_records ? `and ${number(snapshot.parked_records)} parked` : "received, not handled");
  const oldest = snapshot.partitions.filter((one) => one.oldest).sort((a, b) => b.oldest.age_s - a.oldest.age_s)[0];
  set("oldest", oldest ? span(oldest.oldest.age_s) : NONE);
  note("oldest", oldest ? `${visible(oldest.partition.topic, 40)}/${oldest.partition.partition}, ${visible(oldest.oldest.status, 20)}` : "all is handled");
  const waiting = keys.filter((key) => !["running", "queued"].includes(key.status));
  const hanging = snapshot.partitions.filter(({ oldest }) => oldest?.is_stuck && ["running", "queued"].includes(oldest.status));
  const blocking = waiting.filter((key) => key.is_blocking).length + hanging.length;
  set("waiting", number(waiting.length + leftOut));
  const unlisted = leftOut ? `, ${number(leftOut)} not listed` : "";
  note("waiting", (blocking ? `${counted(blocking, "commit")} held up` : "none holds a commit") + unlisted);
  document.querySelector('[data-number="waiting"]').parentElement.classList.toggle("alarmed", blocking > 0);
}

function lagNote(snapshot, history, handledPerS) {
  if (snapshot.lag_records === null) {
    if (snapshot.is_cut_off) return "unknown: no broker answers";
    const old = snapshot.partitions.find((one) => one.lag_records === null && one.log_age_s !== null);
    return old && !snapshot.is_throttled ? `unknown: ${old.leader || "a broker"} does not answer` : "not known yet";
  }
  const left = untilCaughtUp(snapshot.lag_records, history, handledPerS);
  if (left === 0) return snapshot.lag_records ? "keeps up" : "caught up";
  if (left === null) return "";
  return Number.isFinite(left) ? `caught up in about ${span(left)}` : "not catching up";
}

const stream = follow({
  state: takeState,
  event(event) {
    if (latest) noteEvent(event, latest.snapshot.taken_at_s);
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
    const since = ageMs === null ? "" : ` What is shown is ${span(ageMs / 1000)} old.`;
    write(at("broken"), `No connection to the app: ${problem || "it has gone silent"}.${since} Still trying.`);
  },
});
const askForToken = watchAccess(() => stream.again());

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && latest) show(latest);
});
