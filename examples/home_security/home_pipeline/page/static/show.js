// What both pages share: words for numbers and times, rows that stay, asking the server again and again.

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const quarter = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 2 });
const percent = new Intl.NumberFormat("en-GB", { style: "percent", minimumFractionDigits: 2 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const exact = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const weekday = new Intl.DateTimeFormat("en-GB", { weekday: "short" });

const POLL_MS = 2000;
const ANSWER_MS = 10_000;
const SAID_MS = 15_000;
let silence = 0;
const DUMB_S = { failing: 3, waiting: 8 };
export const number = (value) => whole.format(value);
export const measure = (value) => quarter.format(value);
export const share = (value) => percent.format(value);
export const time = (atS) => clock.format(new Date(atS * 1000));
export const timeExact = (atS) => exact.format(new Date(atS * 1000));
export const counted = (count, one) => `${number(count)} ${one}${count === 1 ? "" : "s"}`;
export const at = (id) => document.getElementById(id);

// A time of another day has its day with it.
export function when(atS, words = time) {
  const then = new Date(atS * 1000);
  return then.toDateString() === new Date().toDateString() ? words(atS) : `${weekday.format(then)} ${words(atS)}`;
}

export function lasting(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

export const ago = (seconds) => (seconds < 1.5 ? "just now" : `${lasting(seconds)} ago`);

// Text alone ever reaches the document: no string is parsed as HTML on these pages.
export function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

// What a screen reader follows is only written when it changes.
export function set(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const SHAPES = {
  quiet: "M4 10.5 8.3 15 16 5.5",
  alarm: "M10 2.5 18.5 17.5H1.5ZM10 8v4.2M10 14.6v.6",
  motion: "M2 10h3.5l2.5-6 4 12 2.5-6H18",
  open: "M5 17.5V3h10v14.5M5 3l6 2.6v12l-6-.1M2.5 17.5h15",
  silent: "M10 3a7 7 0 1 0 .1 0ZM5.2 14.8l9.6-9.6",
  starting: "M10 3a7 7 0 1 0 .1 0ZM10 6.5V10l2.8 1.8",
  unknown: "M7.2 7.6a2.8 2.8 0 1 1 4 2.7c-.8.4-1.2.9-1.2 1.9M10 15v.5",
};

// A state has its words and a shape of its own; the colour only repeats it.
export function icon(name) {
  const [drawn, path] = ["svg", "path"].map((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));
  drawn.setAttribute("viewBox", "0 0 20 20");
  drawn.setAttribute("class", "icon");
  drawn.setAttribute("aria-hidden", "true");
  path.setAttribute("d", SHAPES[name] ?? SHAPES.unknown);
  drawn.append(path);
  return drawn;
}

// A pill, or a headline: its shape and its words.
export function state(node, name, text, shape = name) {
  node.classList.remove("alarm", "open", "silent", "quiet", "unknown");
  node.classList.add(name);
  if (node.dataset.shape !== shape || !node.firstElementChild) {
    node.dataset.shape = shape;
    node.replaceChildren(icon(shape), element("span"));
  }
  set(node.lastElementChild, text);
}

// Each row keeps its element as long as its key is there; if the row with the focus goes, the next one gets it.
export function keep(list, items, keyOf, make, fill = () => {}) {
  const before = [...list.children];
  const place = before.findIndex((row) => row.contains(document.activeElement));
  const known = new Map(before.map((row) => [row.dataset.key, row]));
  const rows = items.map((item) => known.get(keyOf(item)) ?? make(item));
  for (const row of before) if (!rows.includes(row)) row.remove();
  rows.forEach((row, index) => {
    if (list.children[index] !== row) list.insertBefore(row, list.children[index] ?? null);
    row.dataset.key = keyOf(items[index]);
    fill(row, items[index]);
  });
  if (place >= 0 && !list.contains(document.activeElement)) {
    const next = before[place].isConnected ? before[place] : list.children[Math.min(place, rows.length - 1)] ?? list;
    next.tabIndex = -1;
    next.focus();
  }
}

// What is chosen stands in the address, so that a reload and a bookmark keep it.
export function chosen(id, values, first, changed) {
  const asked = new URLSearchParams(location.search).get(id) ?? "";
  const select = at(id);
  const known = values ? values.includes(asked) : /^[a-z][a-z0-9_]{0,23}$/.test(asked);
  if (known && ![...select.options].some((option) => option.value === asked)) select.append(new Option(asked.replaceAll("_", " "), asked));
  select.value = known ? asked : first;
  select.addEventListener("change", () => {
    const query = new URLSearchParams(location.search);
    if (select.value === first) query.delete(id);
    else query.set(id, select.value);
    history.replaceState(null, "", location.pathname + (String(query) && `?${query}`));
    changed();
  });
  return () => select.value;
}

// A line for some seconds; screen readers read it out.
export function say(text, isBad = false) {
  clearTimeout(silence);
  at("said").classList.toggle("bad", isBad);
  set(at("said"), text);
  silence = setTimeout(() => set(at("said"), ""), SAID_MS);
}

async function get(address) {
  const signal = AbortSignal.timeout(ANSWER_MS);
  const answer = await fetch(address, { headers: { accept: "application/json" }, signal });
  if (!answer.ok) throw new Error(`The page’s server answered ${answer.status}.`);
  return answer.json();
}

let latest = null;
let cameMs = 0;
let isFailing = false;

// Ask for all addresses, show, wait, again; what this returns asks at once.
export function repeat(addresses, show) {
  let turn = 0;
  const round = async () => {
    const mine = ++turn;
    let answers = null;
    let failure = "";
    try {
      answers = await Promise.all(addresses().map(get));
    } catch (error) {
      const isAway = error instanceof TypeError || error.name === "TimeoutError";
      failure = isAway && latest ? "" : isAway ? "The page’s server does not answer; still trying." : error.message;
    }
    if (mine !== turn) return;
    setTimeout(() => mine === turn && round(), POLL_MS);
    isFailing = !answers;
    if (answers) [latest, cameMs] = [answers[0], performance.now()];
    set(at("problem"), failure || latest?.problem || "");
    freshness();
    if (answers) show(...answers);
  };
  round();
  setInterval(freshness, 1000);
  return round;
}

// The age counts on while no answer comes; when it says too little, all turns grey and nothing is called quiet.
function freshness() {
  if (!latest) return;
  const waitedS = (performance.now() - cameMs) / 1000;
  const { as_of_s: asOf, now_s: nowS } = latest;
  set(at("fresh"), asOf ? `As of ${when(asOf, timeExact)}, ${ago(Math.max(0, nowS + waitedS - asOf))}` : "Waiting for the first blob …");
  const isDumb = waitedS > (isFailing ? DUMB_S.failing : DUMB_S.waiting);
  late(isDumb ? `The page has no answer since ${when(nowS, timeExact)}.` : latest.is_late ? `Nothing has been counted since ${when(asOf, timeExact)}.` : "");
}

function late(words) {
  document.body.classList.toggle("late", words !== "");
  if (words) state(at("late"), "silent", words);
  else at("late").replaceChildren();
}
