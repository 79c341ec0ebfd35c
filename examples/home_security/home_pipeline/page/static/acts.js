// What a person does on these pages: acknowledge an alarm, ask for an action. Each needs the token of the console.
import { counted, element, keep, measure, say, set, timeExact, when } from "./show.js";

const HELD = "home-security-token";
export const NO_TOKEN = "Open the address with the token that the console printed.";
export const mayAct = () => Boolean(sessionStorage.getItem(HELD));

// The token is kept for this tab only, and leaves the address bar, so that no copied link has it.
function take() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  sessionStorage.setItem(HELD, token);
  history.replaceState(null, "", location.pathname + location.search);
}
take();
addEventListener("hashchange", take);

// Return what the server answers, or null when it refused, which is then said.
export async function post(address, body) {
  const headers = { "content-type": "application/json", authorization: `Bearer ${sessionStorage.getItem(HELD)}` };
  try {
    const answer = await fetch(address, { method: "POST", headers, body: JSON.stringify(body), signal: AbortSignal.timeout(10_000) });
    const found = await answer.json();
    if (answer.ok) return found;
    if (answer.status === 401) sessionStorage.removeItem(HELD);
    say(answer.status === 401 ? `The token is not the one of this run. ${NO_TOKEN}` : found.error, true);
  } catch {
    say("The page’s server does not answer: nothing was done.", true);
  }
  return null;
}

export function homeLink(one, ...more) {
  const link = element("a", "", one.name, ...more);
  link.href = `/home/${encodeURIComponent(one.home)}`;
  return link;
}

const SAID = [[/^(door|window)/, "Shut", "Open"], [/^motion/, "Still", "Motion"], [/^glass/, "Unbroken", "Broken"], [/./, "Off", "On"]];

export function word(kind, value) {
  const [, off, on] = SAID.find(([pattern]) => pattern.test(kind));
  return value ? on : off;
}

// An alarm is a row: the second, the home, the value, and a button until the alarm is acknowledged.
export function showAlarms(list, alarms, again, isOfAllHomes) {
  const key = (alarm) => `${alarm.home} ${alarm.kind} ${alarm.at_s}`;
  keep(list, alarms, key, (alarm) => makeAlarm(alarm, again, isOfAllHomes), fillAlarm);
}

function makeAlarm(alarm, again, isOfAllHomes) {
  const row = element("li", "", element("time", "", when(alarm.at_s, timeExact)));
  if (isOfAllHomes) row.append(homeLink(alarm));
  const value = alarm.unit ? ` ${measure(alarm.high)}\u00a0${alarm.unit}` : "";
  row.append(element("span", "what", element("b", "", alarm.label), value), element("span", "done"));
  row.act = () => acknowledge(alarm, again);
  return row;
}

function fillAlarm(row, alarm) {
  const done = row.lastElementChild;
  const isOpen = alarm.acknowledged_at_s == null;
  row.classList.toggle("is-open", isOpen);
  if (!isOpen) return set(done, `Acknowledged ${when(alarm.acknowledged_at_s)}`);
  if (done.firstElementChild === null) {
    const button = element("button", "", "Acknowledge");
    button.setAttribute("aria-label", `Acknowledge ${alarm.label}, ${alarm.name}, ${timeExact(alarm.at_s)}`);
    button.addEventListener("click", () => row.act());
    done.replaceChildren(button);
  }
  done.firstElementChild.disabled = !mayAct();
  done.firstElementChild.title = mayAct() ? "" : NO_TOKEN;
}

async function acknowledge(alarm, again) {
  const done = await post("/api/acknowledge", { home: alarm.home, kind: alarm.kind, up_to_s: alarm.at_s });
  if (done) say(`Acknowledged at ${timeExact(Date.now() / 1000)}: ${counted(done.acknowledged, "alarm")} of ${alarm.label}, ${alarm.name}.`);
  again();
}
