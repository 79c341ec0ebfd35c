// Errors, events, rebalances, handlers, members, and the process.
import { askToAct, word } from "./act.js";
import { applyAccess } from "./access.js";
import { Kept, at, button, element, fold, foreign, row, write } from "./dom.js";
import { NONE, counted, mebibytes, moment, number, span, visible, visibleLines } from "./words.js";

const EVENTS_MAX = 200;

const errors = new Kept(at("error-list"), (error) => {
  const count = element("b");
  const when = element("time");
  const sentence = element("p", "sentence");
  const stack = element("pre", "code");
  stack.tabIndex = 0;
  const folded = fold("Last stack", stack);
  const whose = element("span", "note", memberOf(error));
  const node = element("li", "", element("div", "list-head", foreign(error.kind, 120), whose, count, when), sentence, folded.box);
  return {
    node,
    fill(now) {
      write(count, `${number(now.count)}×`);
      write(when, `last at ${moment(now.last_at_s, now.nowS)}`);
      write(sentence, visible(now.sentence));
      folded.box.hidden = !now.stack;
      write(stack, visibleLines(now.stack));
    },
  };
});

// With members each entry says whose it is; without, and of the supervisor's own, it says nothing.
function memberOf({ member }) {
  return member === null || member === undefined ? "" : `member ${member}`;
}

export function showErrors(found, nowS) {
  at("no-errors").hidden = found.length > 0;
  errors.show(found.slice(0, 50).map((error) => ({ ...error, nowS })), (error) => `${error.member ?? ""} ${error.kind}`);
}

const handlers = new Kept(at("handler-list"), (handler) => {
  const state = element("span", "note");
  const make = (action) => button("act", word(action), `${word(action)} handler ${visible(handler.handler, 80)}`, (from) => askToAct(from, { action, target: "handler", name: handler.handler, subject: handler.handler }));
  const [stop, start] = [make("stop"), make("start")];
  const node = element("li", "", element("div", "list-head", foreign(handler.handler, 80), state, element("span", "buttons", stop, start)));
  return {
    node,
    fill(now) {
      const facts = [now.is_stopped ? "stopped" : "started", now.topics.slice(0, 5).map((topic) => visible(topic, 80)).join(", ")];
      if (Number.isFinite(now.workers)) facts.push(counted(now.workers, "worker") + (Array.isArray(now.workers_auto) ? ` (auto, ${now.workers_auto.join(" to ")})` : ""));
      write(state, facts.join(" · "));
      stop.hidden = now.is_stopped;
      start.hidden = !now.is_stopped;
    },
  };
});

export function showHandlers(found) {
  at("handlers").hidden = !found.length;
  handlers.show(found, (handler) => handler.handler);
  applyAccess(at("handlers"));
}

const facts = new Kept(at("process"), ({ name }) => {
  const value = element("dd");
  return { node: element("div", "", element("dt", "", name), value), fill: (now) => write(value, now.value) };
});

export function showProcess({ process, snapshot }) {
  const found = [
    ["Memory", mebibytes(process?.rss_bytes)],
    ["Threads", number(process?.threads)],
    ["Up for", span(process?.uptime_s ?? snapshot.uptime_s)],
    ["Version", `ehkafka ${visible(process?.version, 40)}`],
    ["Python", visible(process?.python, 40)],
    ["Process", `${process?.pid ?? NONE} on ${visible(process?.host, 80)}`],
    ["Finished", number(snapshot.finished_records)],
    ["Skipped", number(snapshot.skipped_records)],
    ["Dead-lettered", number(snapshot.dead_lettered_records)],
  ];
  facts.show(found.map(([name, value]) => ({ name, value })), (one) => one.name);
}

const members = new Kept(at("member-rows"), (member) => {
  const { node, cells } = row(["", "", "right", "right", "right", "right", "right", "right", ""]);
  write(cells[0], String(member.number));
  return {
    node,
    fill(now) {
      const words = [visible(now.state, 20), now.is_ready ? "ready" : "not ready", ...(now.is_live ? [] : ["not live"])];
      const its = now.snapshot;
      [words.join(", "), now.pid ?? NONE, number(its?.partitions.length), number(its && lagOf(its)), number(its?.finished_records), number(now.restarts),
        now.silence_s === null ? NONE : `${span(now.silence_s)} ago`, visible(now.last_end || NONE, 200)].forEach((text, n) => write(cells[n + 1], String(text)));
      node.classList.toggle("attention", !now.is_live || !now.is_ready);
    },
  };
});

// Unknown where that of one partition is.
function lagOf(snapshot) {
  const lags = snapshot.partitions.map((one) => one.lag_records);
  return lags.includes(null) ? null : lags.reduce((sum, lag) => sum + lag, 0);
}

export function showMembers({ snapshot, members_elsewhere: elsewhere = [] }) {
  at("members").hidden = !snapshot.members?.length && !elsewhere.length;
  at("members-box").hidden = !snapshot.members?.length;
  members.show(snapshot.members ?? [], (member) => String(member.number));
  const links = elsewhere.map(({ url, name }) => [address(url), visible(name || url, 120)]).filter(([href]) => href);
  const key = JSON.stringify(links);
  const line = at("elsewhere");
  line.hidden = !links.length;
  if (line.dataset.shown === key) return;
  line.dataset.shown = key;
  line.replaceChildren("Elsewhere: ", ...links.flatMap(([href, name]) => {
    const link = element("a", "", element("bdi", "", name));
    link.href = href;
    link.rel = "noreferrer noopener";
    return [link, " "];
  }));
}

// Somebody else wrote it: only what a browser fetches, nothing that runs.
function address(url) {
  try {
    const found = new URL(url);
    return ["http:", "https:"].includes(found.protocol) && !found.username && !found.password ? found.href : null;
  } catch {
    return null;
  }
}

let seen = [];

export function showEvents(found, nowS) {
  seen = found;
  at("no-events").hidden = seen.length > 0;
  log(at("event-list"), seen.slice(0, EVENTS_MAX), nowS);
}

export function noteEvent(event, nowS) {
  showEvents([event, ...seen].slice(0, EVENTS_MAX), nowS);
}

export function showRebalances(found, nowS) {
  at("no-rebalances").hidden = found.length > 0;
  log(at("rebalance-list"), found.slice(0, EVENTS_MAX), nowS);
}

function log(list, lines, nowS) {
  // Entries of a member that answers late come in between.
  const key = `${lines.length} ${lines.reduce((sum, one) => sum + one.at_s, 0)} ${lines[0]?.sentence}`;
  if (list.dataset.shown === key) return;
  list.dataset.shown = key;
  list.replaceChildren(...lines.map((one) => {
    const whose = memberOf(one);
    const sentence = foreign(one.sentence);
    const made = element("li", "", element("time", "", moment(one.at_s, nowS)), whose ? element("span", "", element("b", "", `${whose}: `), sentence) : sentence);
    made.dataset.level = ["warning", "error", "critical"].includes(String(one.level).toLowerCase()) ? "warning" : "info";
    return made;
  }));
}
